"""What a request prefers: kinds of cores, isolated CPUs, nearness; and memory that follows."""

from __future__ import annotations

import pytest

from sidecar.decide.moves.limits import memory_of
from sidecar.decide.placement.choose import Ask, choose
from sidecar.decide.placement.options import (
    ACROSS_NUMA,
    ALIGN_BY_SOCKET,
    ALONG_CACHES,
    EFFICIENT,
    FULL_PCPUS_ONLY,
    PERFORMANCE,
)
from sidecar.decide.placement.tiers import around, beside, by_distance
from sidecar.decide.settings import IsolatedRule
from sidecar.decide.world import replace
from sidecar.words.refusals import cure, sentence
from state.cpuset import EMPTY, CPUSet
from state.demand import NumaRule
from state.refusal import Refusal, RefusalCode
from state.topology import Kind, topology, uniform
from tests.support.decide.stories import cpus, told

HYBRID = replace(
    topology(cores=[cpus("0-1"), cpus("2-3"), cpus("4"), cpus("5"), cpus("6"), cpus("7")]),
    kinds=(Kind(PERFORMANCE, 1024, cpus("0-3")), Kind(EFFICIENT, 600, cpus("4-7"))),
)
"""Two performance cores of two threads, four efficient ones of one."""

FAR = replace(
    uniform(packages=2, nodes=2, cores=4),
    distances={
        0: {0: 10, 1: 12, 2: 32, 3: 32},
        1: {0: 12, 1: 10, 2: 32, 3: 32},
        2: {0: 32, 1: 32, 2: 10, 3: 12},
        3: {0: 32, 1: 32, 2: 12, 3: 10},
    },
    memory=(0, 2),
    devices={"eth0": cpus("9-10"), "eth1": cpus("12-15")},
)
"""Nodes 0 (0-3), 1 (4-7), 2 (8-11), 3 (12-15); 0 and 1 in one socket, and memory at 0 and 2 only."""


def asked(machine, available: str, count: int, **how) -> CPUSet | Refusal:  # type: ignore[no-untyped-def]
    return choose(machine, cpus(available), Ask(count=count, **how))


@pytest.mark.parametrize(
    ("available", "count", "options", "expected"),
    [
        ("0-7", 2, (), "0-1"),
        ("0-7", 4, (), "0-3"),
        ("1-7", 4, (), "4-7"),
        ("1-7", 6, (), "2-7"),
        ("0-7", 2, (EFFICIENT,), "4-5"),
        ("0-7", 2, (FULL_PCPUS_ONLY,), "0-1"),
        ("2-7", 4, (FULL_PCPUS_ONLY,), "4-7"),
        ("0-7", 3, (FULL_PCPUS_ONLY,), "4-6"),
        ("0-7", 6, (FULL_PCPUS_ONLY,), "0-1,4-7"),
    ],
)
def test_a_request_is_of_one_kind_where_that_is_possible(
    available: str, count: int, options: tuple[str, ...], expected: str
) -> None:
    """The fastest kind first; whole cores are counted by the threads of the kind; mixed only where it must be."""
    assert asked(HYBRID, available, count, options=options) == cpus(expected)


def test_cores_of_several_kinds_are_not_cut_under_full_pcpus_only() -> None:
    """Seven CPUs are four efficient cores and one and a half of the others."""
    found = asked(HYBRID, "0-7", 7, options=(FULL_PCPUS_ONLY,))
    assert isinstance(found, Refusal)
    assert found.code is RefusalCode.NOT_WHOLE_CORES
    assert "whole cores do not add up to that" in sentence(found)
    assert cure(found) == "6 or 8 would fit"


def test_a_kind_that_is_asked_for_is_not_replaced() -> None:
    """The reason says so."""
    found = asked(HYBRID, "2-7", 3, options=(PERFORMANCE,))
    reason = "asked for 3 exclusive CPUs, 2 free: 2-3; performance cores only (cpuset.options)"
    assert told(found) == (RefusalCode.NOT_ENOUGH, f"{reason}; 2 would fit")


def test_where_all_cores_are_alike_every_kind_is_there() -> None:
    assert asked(uniform(cores=4), "1-3", 2, options=(EFFICIENT,)) == cpus("1-2")


ISOLATED = replace(uniform(cores=8), isolated=cpus("5-7"))


@pytest.mark.parametrize(
    ("rule", "count", "expected"),
    [
        (IsolatedRule.IGNORE, 2, "1-2"),
        (IsolatedRule.PREFER, 2, "5-6"),
        (IsolatedRule.PREFER, 4, "1-4"),
        (IsolatedRule.PREFER, 6, "1-3,5-7"),
        (IsolatedRule.ONLY, 3, "5-7"),
    ],
)
def test_isolated_cpus_first_or_alone(rule: IsolatedRule, count: int, expected: str) -> None:
    """Mixed with others only where neither the isolated nor the others suffice."""
    assert asked(ISOLATED, "1-7", count, isolated=rule) == cpus(expected)


def test_isolated_halves_of_cores_are_no_alternative_under_full_pcpus_only() -> None:
    """One thread each of cores 2 and 3 is isolated: whole cores are found elsewhere, or not at all."""
    machine = replace(uniform(cores=4, threads=2), isolated=cpus("2-3"))
    assert asked(machine, "0-7", 2, isolated=IsolatedRule.PREFER) == cpus("2-3")
    assert asked(machine, "0-7", 2, isolated=IsolatedRule.PREFER, options=(FULL_PCPUS_ONLY,)) == cpus("0,4")
    found = asked(machine, "0-7", 2, isolated=IsolatedRule.ONLY, options=(FULL_PCPUS_ONLY,))
    assert isinstance(found, Refusal)
    assert found.code is RefusalCode.NOT_WHOLE_CORES


def test_only_isolated_cpus_are_given_where_that_is_said() -> None:
    found = asked(ISOLATED, "1-7", 4, isolated=IsolatedRule.ONLY)
    assert isinstance(found, Refusal)
    assert sentence(found) == "asked for 4 exclusive CPUs, 3 free: 5-7; isolated CPUs only (isolated); 3 would fit"


def test_an_alternative_that_may_not_be_given_is_passed_over() -> None:
    """The other CPUs alone would empty the shared pool, so isolated ones are mixed in."""
    no = Refusal(RefusalCode.POOL_WOULD_BE_EMPTY)
    found = choose(
        ISOLATED,
        cpus("1-7"),
        Ask(count=4, isolated=IsolatedRule.PREFER),
        accept=lambda chosen: no if chosen == cpus("1-4") else None,
    )
    assert found == cpus("1,5-7")


@pytest.mark.parametrize(
    ("near", "count", "expected"),
    [
        ("eth0", 1, "9"),
        ("eth0", 3, "8-10"),
        ("eth0", 6, "8-13"),
        ("eth1", 5, "8,12-15"),
        ("wlan0", 3, "0-2"),
        ("", 3, "0-2"),
    ],
)
def test_local_cpus_first_then_by_distance(near: str, count: int, expected: str) -> None:
    """A device that is not there is no preference."""
    assert asked(FAR, "0-15", count, near=near) == cpus(expected)


def test_rings_are_disjoint_and_hold_everything() -> None:
    found = list(by_distance(FAR, FAR.online, "eth0"))
    assert [str(tier) for tier in found if tier] == ["9-10", "8,11", "12-15", "0-7"]


def test_around_what_is_held_goes_from_core_to_socket() -> None:
    machine = uniform(packages=2, nodes=2, cores=2, threads=2)
    found = list(around(machine, machine.online - cpus("0"), cpus("0")))
    assert [str(tier) for tier in found if tier] == ["8", "1,9", "2-3,10-11", "4-7,12-15"]
    assert list(around(machine, EMPTY, cpus("0"))) == []


def test_near_by_whole_cores_splits_none() -> None:
    """One thread of a core is local: under full-pcpus-only that core is not cut."""
    machine = replace(uniform(cores=4, threads=2), devices={"nic": cpus("2,3,7")})
    assert asked(machine, "0-7", 2, near="nic", options=(FULL_PCPUS_ONLY,)) == cpus("3,7")
    found = asked(machine, "0-7", 4, near="nic", options=(FULL_PCPUS_ONLY,))
    assert isinstance(found, CPUSet)
    assert found == machine.whole_cores(found)


@pytest.mark.parametrize(
    ("rule", "available", "count", "expected"),
    [
        (NumaRule.SINGLE, "2-7", 3, "4-6"),
        (NumaRule.BEST_EFFORT, "2-3,6-7", 3, "2-3,6"),
        (NumaRule.RESTRICTED, "2-3,6-15", 3, "8-10"),
    ],
)
def test_numa_rules_choose_nodes_first(rule: NumaRule, available: str, count: int, expected: str) -> None:
    assert asked(FAR, available, count, numa=rule) == cpus(expected)


def test_a_numa_rule_refuses_with_what_is_where_and_what_would_do() -> None:
    found = asked(FAR, "2-3,6-7", 3, numa=NumaRule.SINGLE)
    assert told(found) == (
        RefusalCode.NOT_ALIGNED,
        (
            "asked for 3 exclusive CPUs on one NUMA node (cpuset.numa single), "
            "4 free: 2 on node 0 (2-3), 2 on node 1 (6-7); "
            "2 would fit on one node; cpuset.numa=best-effort would take them from nodes 0, 1"
        ),
    )


def test_align_by_socket_takes_from_the_whole_socket_and_needs_the_nodes_for_it() -> None:
    """With one node for two sockets it is unavailable."""
    assert asked(FAR, "2-3,6-7,8", 3, numa=NumaRule.RESTRICTED, options=(ALIGN_BY_SOCKET,)) == cpus("2-3,6")
    machine = topology(cores=[cpus("0"), cpus("1")], nodes={0: cpus("0-1")}, packages={0: cpus("0"), 1: cpus("1")})
    found = asked(machine, "0-1", 1, options=(ALIGN_BY_SOCKET,))
    assert isinstance(found, Refusal)
    assert found.code is RefusalCode.CONTRADICTION


def test_memory_is_that_of_the_cpus_nodes_or_the_nearest() -> None:
    """Node 1 has none: node 0 is nearer than node 2."""
    assert memory_of(FAR, cpus("0-1")) == cpus("0")
    assert memory_of(FAR, cpus("5,9")) == cpus("0,2")
    assert memory_of(uniform(cores=2), cpus("0")) == EMPTY


FOUR_NODES = uniform(packages=1, nodes=4, cores=8)
"""Nodes 0 (0-7), 1 (8-15), 2 (16-23), 3 (24-31)."""


@pytest.mark.parametrize(
    ("free", "count", "options", "chosen"),
    [
        pytest.param("1-3,24-31", 6, (), "24-29", id="one node that has enough, not the fullest first"),
        pytest.param("1-3,8-11,24-31", 4, (), "8-11", id="the fullest of those"),
        pytest.param("1-3,8-11,24-31", 11, (), "1-3,24-31", id="the emptiest, and the fullest that has the rest"),
        pytest.param("0-7,24-31", 12, (), "0-3,24-31", id="two of the same size"),
        pytest.param("1-3,24-31", 6, (ALONG_CACHES,), "24-29", id="along caches"),
        pytest.param("0-7,24-31", 12, (ACROSS_NUMA,), "0-5,24-29", id="but for options that spread them"),
        pytest.param("1-3,24-31", 11, (), "1-3,24-31", id="all"),
        pytest.param("1-3", 4, (), "1-3", id="fewer, if need be"),
    ],
)
def test_cpus_that_come_to_others_lie_on_the_fewest_nodes(
    free: str, count: int, options: tuple[str, ...], chosen: str
) -> None:
    """Where none is nearer than another."""
    machine, held = FOUR_NODES, cpus("16-23")
    assert str(beside(machine, around(machine, cpus(free), held), count, options)) == chosen
