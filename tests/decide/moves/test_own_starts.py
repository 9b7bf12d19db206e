"""What fronts answer to owners without the sidecar: whole grants, where no other may be, and nothing on its way."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sidecar.decide.facts import GiveUpRequested, Phase
from sidecar.decide.hand_facts import HandLost
from sidecar.decide.moves.own_starts import own_starts
from sidecar.decide.world import replace
from state.cpuset import CPUSet
from state.demand import QuotaRule
from tests.decide.moves.test_glanced import ONE, Host
from tests.support.decide.real import NEVER_PARENT, Real


@pytest.fixture
def host() -> Host:
    return Host()


def answers(host: Host) -> Mapping[str, CPUSet]:
    """Return them by the names of the owners."""
    found = own_starts(host.world)
    assert all(each.exclusive and each.refusal is None for each in found.values())
    return {host.world.containers[key].view.name: each.update.cpus for key, each in found.items() if each.update}


def granted(host: Host, real: Real) -> CPUSet:
    return host.world.state.assignments[real.key].cpus


def test_each_owner_that_is_alone_has_its_grant(host: Host) -> None:
    """Running or at rest, and no other container has anything."""
    second = host.arrive("second", labels=ONE)
    host.arrive("shared")
    assert answers(host) == {"owner": granted(host, host.owner), "second": granted(host, second)}
    host.die(second)
    host.begin_look(second.key)
    host.settle()
    if second.key in host.world.state.assignments:
        assert answers(host)["second"] == granted(host, second)


def test_a_grant_counts_when_all_others_have_left_it(host: Host) -> None:
    """From its first decision until it is settled, step by step: never before."""
    came = host.made("late", labels=ONE)
    host.start(came)
    host.begin_look(came.key)
    seen = []
    while host.go_on():
        if "late" in answers(host):
            own = granted(host, came)
            assert not any(
                (each.effective or CPUSet()) & own for each in host.containers.values() if each.key != came.key
            )
            seen.append(own)
    assert seen
    assert answers(host)["late"] == granted(host, came)


def test_what_was_released_or_is_without_a_hand_has_none(host: Host) -> None:
    """Withdrawn in the very decision."""
    assert "owner" in answers(host)
    host.feed(GiveUpRequested(host.owner.key, "2026-01-01T00:00:00Z"))
    assert answers(host) == {}
    other = Host()
    other.feed(HandLost("it is gone", other.ticket()))
    assert answers(other) == {}


def test_what_is_on_its_way_has_none(host: Host) -> None:
    """Lent, being left, perhaps somebody's pin, or offline in part."""
    world, own = host.world, granted(host, host.owner)
    state = world.state
    grant = state.assignments[host.owner.key]
    for changed in (
        replace(state, lent=own),
        replace(state, unlooked=own),
        replace(state, online=state.online - own),
        replace(state, assignments={host.owner.key: replace(grant, cpus=own | CPUSet.of(max(state.shared)))}),
    ):
        assert own_starts(replace(world, state=changed)) == {}


def test_where_another_may_start_unseen_there_is_none(host: Host) -> None:
    """Below a parent that no hand watches it starts as configured: on any CPU, until an order is recorded."""
    came = host.made("unwatched", NEVER_PARENT)
    host.begin_look(came.key)
    host.deliver_look(len(host.looks) - 1)
    may_be = CPUSet.from_mask(host.world.containers[came.key].footprint)
    assert granted(host, host.owner) <= may_be
    assert answers(host) == {}
    host.settle()
    assert "owner" in answers(host)


def test_a_limit_is_lifted_and_memory_follows(host: Host) -> None:
    """As the answer would do it."""
    key, world = host.owner.key, host.world
    known = world.containers[key]
    limited = world.with_container(replace(known, view=replace(known.view, cpu_quota=50_000)))
    assert limited.state.assignments[key].demand.quota is QuotaRule.LIFT
    update = own_starts(limited)[key].update
    assert update is not None
    assert update.cpu_quota == -1
    dead = world.with_container(replace(known, view=replace(known.view, phase=Phase.DEAD)))
    assert own_starts(dead) == {}
    glanced = world.with_container(replace(known, view=replace(known.view, is_glance=True)))
    assert own_starts(glanced) == {}
