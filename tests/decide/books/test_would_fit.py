"""A refusal names only numbers of CPUs that would be granted instead."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from sidecar.decide.books import arrivals, static, would_fit
from sidecar.decide.settings import IsolatedRule, PolicyName, Settings
from sidecar.decide.whatif import imagined, requested
from sidecar.decide.world import World
from sidecar.words.refusals import sentence
from state.cpuset import CPUSet, union
from state.demand import NumaRule
from state.model import State
from state.refusal import Asked, TooFew, TooFewWholeCores
from state.topology import uniform, with_online
from tests.support.decide.asked import asking
from tests.support.decide.histories import DYNAMIC, RICH, STATIC
from tests.support.decide.stories import Story

MACHINES = (
    uniform(cores=4, threads=2),
    with_online(uniform(cores=4, threads=2), CPUSet.parse("0-4,6-7")),
    uniform(packages=2, cores=3, threads=2, adjacent=True),
    uniform(nodes=2, cores=4),
    RICH,
)

NODES = (
    *STATIC,
    *DYNAMIC,
    Settings(policy=PolicyName.STATIC, reserved_count=2, shared_min=3),
    Settings(policy=PolicyName.DYNAMIC, reserved_cpus=CPUSet.of(0), shared_min=3, numa=NumaRule.SINGLE),
    Settings(policy=PolicyName.STATIC, reserved_count=1, isolated=IsolatedRule.ONLY),
)

OPTIONS = ("", "", "full-pcpus-only", "distribute-cpus-across-cores", "full-pcpus-only,distribute-cpus-across-numa")


def some_request(chance: random.Random, most: int) -> dict[str, str]:
    count = chance.randint(1, most)
    labels = {"cpuset.exclusive": str(count), "cpuset.options": chance.choice(OPTIONS)}
    labels["cpuset.numa"] = chance.choice(("", "", "single", "restricted"))
    labels["cpuset.min"] = str(chance.randint(1, count)) if chance.random() < 0.3 else ""
    return {label: value for label, value in labels.items() if value}


def crowded(chance: random.Random) -> World:
    """Return a machine on which some containers hold CPUs, and one may be pinned by hand."""
    machine, node = chance.choice(MACHINES), chance.choice(NODES)
    pinned = {"pinned": CPUSet.of(chance.choice(list(machine.online)))} if chance.random() < 0.3 else {}
    requests = [(f"r{number}", some_request(chance, 3)) for number in range(chance.randint(0, 4))]
    return asking(imagined(State(), machine, node, pinned), requests)


def lies(seeds: Iterable[int]) -> list[str]:
    """Return numbers that a refusal names, and that are refused. What can never be granted names the most that the
    machine may ever give.
    """
    found = []
    for seed in seeds:
        chance = random.Random(seed)
        world = crowded(chance)
        labels = some_request(chance, len(world.topology.online))
        refused = asking(world, [("late", labels)]).state.refusals.get(requested("late"))
        if refused is None or not isinstance(detail := refused.refusal.detail, Asked):
            continue
        for count in detail.would_fit:
            fixed = {label: text for label, text in labels.items() if label != "cpuset.min"}
            later = imagined(State(), world.topology, world.settings, {}) if detail.is_of_the_machine else world
            after = asking(later, [("late", {**fixed, "cpuset.exclusive": str(count)})])
            granted = after.state.assignments.get(requested("late"))
            if granted is None or len(granted.cpus) != count:
                found.append(f"seed {seed}: {count} would fit, says {detail}")
    return found


def test_a_number_that_would_fit_is_granted() -> None:
    assert lies(range(600)) == []


def test_numbers_that_are_not_tried_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The free CPUs alone do not say what fits."""
    for module in (static, arrivals):
        monkeypatch.setattr(module, "with_what_fits", lambda world, state, demand, refusal: refusal)
    assert lies(range(600)) != []


def silent(seeds: Iterable[int]) -> list[str]:
    """Return refusals that count more free CPUs than would fit, and do not tell why not all of them."""
    found = []
    for seed in seeds:
        chance = random.Random(seed)
        world = crowded(chance)
        late = asking(world, [("late", some_request(chance, len(world.topology.online)))])
        refused = late.state.refusals.get(requested("late"))
        detail = refused.refusal.detail if refused else None
        if refused is None or not isinstance(detail, TooFew | TooFewWholeCores) or detail.is_of_the_machine:
            continue
        free, most = len(union(part.cpus for part in detail.free)), max(detail.would_fit, default=0)
        if most < min(free, detail.count - 1) and " because " not in sentence(refused.refusal):
            found.append(f"seed {seed}: {sentence(refused.refusal)}")
    return found


def test_it_is_said_why_not_all_that_are_free_would_fit() -> None:
    assert silent(range(600)) == []


def test_refusals_without_that_reason_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(would_fit, "_limit_at", lambda *_: None)
    assert silent(range(600)) != []


def test_the_minimum_of_the_pool_is_such_a_reason() -> None:
    """Four CPUs are free, of which one must stay shared with the reserved one."""
    story = Story(uniform(cores=8), policy=PolicyName.STATIC, shared_min=2)
    story.arrive("first", 3)
    assert story.why_refused(story.arrive("second", 6)) == (
        "asked for 6 exclusive CPUs, 4 free: 4-7 (1 reserved: 0; 3 held by first); "
        "3 would fit, because 2 must stay shared"
    )
    story.arrive("third", 3)
    assert "; none would fit, because 2 must stay shared" in story.why_refused(story.arrive("fourth", 2))


def test_what_would_fit_leaves_the_pool_its_minimum() -> None:
    """Five CPUs are free, of which three stay shared with the reserved one."""
    story = Story(policy=PolicyName.STATIC, shared_min=4)
    story.arrive("small", 2)
    assert "2 would fit" in story.why_refused(story.arrive("large", 4))


def test_what_would_fit_spread_over_cores_leaves_the_node_its_whole_core() -> None:
    options = ("full-pcpus-only", "strict-cpu-reservation")
    story = Story(uniform(cores=5, threads=2), policy=PolicyName.STATIC, reserved_cpus=CPUSet.of(0, 5), options=options)
    spread = {"cpuset.options": "distribute-cpus-across-cores"}
    story.arrive("web", 2)
    refused = story.arrive("spread", 3, labels=spread)
    assert "2 would fit" in story.why_refused(refused)
    assert story.granted(story.arrive("fewer", 2, labels=spread)) == "2-3"
