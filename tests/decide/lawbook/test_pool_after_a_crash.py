"""Random histories of owners that start and go while the sidecar is down: the pool keeps its minimum in force."""

from __future__ import annotations

import random

import pytest

from sidecar.decide.facts import Fact
from sidecar.decide.settings import PolicyName
from state.topology import uniform
from tests.decide.lawbook.laws import LAWS
from tests.decide.lawbook.pool_faults import counts_what_cannot_be_entered
from tests.decide.lawbook.poollaws import CUT_BY_ORDERS
from tests.support.decide.reality import Reality
from tests.support.decide.stories import Story, cpus
from tests.support.laws import When, breaches


class Judged(Story):
    """A host that says which laws are broken."""

    def feed(self, *facts: Fact) -> None:
        Reality.feed(self, *facts)
        if found := breaches(LAWS, self, When.STEP):
            raise AssertionError(str(found))


def after_a_crash(seed: int) -> None:
    """Play one: plain containers and owners; some of them go and others start unseen, and the sidecar starts again."""
    rng = random.Random(seed)
    policy, least = rng.choice((PolicyName.STATIC, PolicyName.DYNAMIC)), rng.randint(2, 5)
    machine = uniform(packages=1, nodes=2, cores=rng.choice((4, 5)))
    story = Judged(machine, policy=policy, reserved_cpus=cpus("0"), shared_min=least, linger_seconds=0)
    for number in range(rng.randint(1, 2)):
        story.arrive(f"plain-{number}")
    owners = [story.arrive(f"owner-{number}", rng.randint(1, 2)) for number in range(rng.randint(1, 3))]
    story.settle()
    for number in range(rng.randint(1, 2)):
        numa = rng.choice(({}, {"cpuset.numa": "single"}))
        story.unseen(f"new-{number}", rng.randint(1, 4), labels={**numa})
    for owner in rng.sample(owners, rng.randint(0, len(owners))):
        story.remove(owner)
    story.crash([])
    story.take_inventory()
    story.settle()


def test_all_laws_hold_when_the_sidecar_is_back() -> None:
    """A story checks them after each step."""
    for seed in range(300):
        after_a_crash(seed)


@pytest.mark.parametrize("seed", [3, 4, 33])
def test_a_cpu_that_counts_before_it_can_be_entered_is_noticed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    after_a_crash(seed)
    counts_what_cannot_be_entered(monkeypatch)
    with pytest.raises(AssertionError, match=CUT_BY_ORDERS.name):
        after_a_crash(seed)
