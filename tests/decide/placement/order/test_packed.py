"""Packed placement: stories, brute force on small machines, and properties on irregular ones."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.decide.placement.order.packed import packed
from state.cpuset import EMPTY, CPUSet
from state.topology import Group, Topology, topology, uniform
from tests.state.strategies import topologies

SMALL = (
    uniform(cores=4),
    uniform(cores=4, threads=2),
    uniform(cores=3, threads=2, adjacent=True),
    uniform(packages=2, cores=2, threads=2),
    uniform(packages=1, nodes=2, cores=2, threads=2),
    uniform(packages=2, nodes=2, cores=1, threads=2),
    topology(cores=[CPUSet.of(0, 1), CPUSet.of(2), CPUSet.of(3, 4), CPUSet.of(5)]),
)
"""Machines of at most eight CPUs: every set of free CPUs can be tried."""


def masks(groups: Any) -> list[int]:
    return [group.cpus.mask for group in groups]


def whole(groups: list[int], free: int) -> list[int]:
    """Return the groups that are entirely free."""
    return [mask for mask in groups if mask & free == mask]


def broken_into(groups: list[int], free: int, taken: int) -> int:
    """Return how many entirely free groups are so no more, and were not taken whole."""
    return sum(1 for mask in whole(groups, free) if mask & taken and mask & taken != mask)


@pytest.mark.parametrize("machine", SMALL, ids=lambda m: f"{len(m.online)}-{len(m.cores)}-{len(m.nodes)}")
def test_every_request_on_every_small_machine(machine: Topology) -> None:
    """1. As many as requested, all free, or None if there are too few.
    2. At most one free core is broken into; none, where the machine has but one node, and loose CPUs suffice. (With
    several, the fuller node goes first, and that may break a core where another node has a loose CPU.)
    """
    cores = masks(machine.cores)
    for free in range(1 << len(machine.online)):
        for count in range(1, len(machine.online) + 1):
            taken = packed(machine, CPUSet.from_mask(free), count)
            if free.bit_count() < count:
                assert taken is None
                continue
            assert taken is not None
            assert len(taken) == count
            assert taken.mask & ~free == 0
            assert broken_into(cores, free, taken.mask) <= 1
            if len(machine.nodes) == 1 and len({mask.bit_count() for mask in cores}) == 1:
                assert broken_into(cores, free, taken.mask) == fewest_cores_broken(cores, free, count)


def fewest_cores_broken(cores: list[int], free: int, count: int) -> int:
    """Return the least number of broken cores: 0 if whole free cores first and loose CPUs after come out even, else
    1.
    """
    size = cores[0].bit_count()
    loose = free.bit_count() - size * len(whole(cores, free))
    rest = max(0, count - size * len(whole(cores, free))) if count // size >= len(whole(cores, free)) else count % size
    return 0 if rest <= loose else 1


@pytest.mark.parametrize("machine", SMALL[3:6], ids=["2 packages", "2 nodes in 1", "2 packages of 2 nodes"])
def test_a_node_that_fits_is_taken_whole(machine: Topology) -> None:
    """On an idle machine, a request of one node's size gets one node, and of two nodes' size, two."""
    size = len(machine.nodes[0].cpus)
    for nodes in range(1, len(machine.nodes) + 1):
        taken = packed(machine, machine.online, size * nodes)
        assert taken is not None
        assert len(whole(masks(machine.nodes), taken.mask)) == nodes


@pytest.mark.parametrize("machine", SMALL[3:6], ids=["2 packages", "2 nodes in 1", "2 packages of 2 nodes"])
def test_the_fullest_node_that_serves_is_used_up_first(machine: Topology) -> None:
    """A request for one core goes where fewest CPUs are free, as long as a whole core is there."""
    for parts in combinations(machine.cores, len(machine.cores) - 1):
        free = CPUSet.from_mask(sum(core.cpus.mask for core in parts))
        taken = packed(machine, free, 2)
        assert taken is not None
        if len(machine.nodes) == len(machine.cores):
            continue
        gone = next(core for core in machine.cores if core not in parts)
        home = machine.node_of[gone.cpus.lowest()]
        assert taken <= home.cpus


def test_half_used_cores_are_filled_first() -> None:
    """A single CPU is a thread whose sibling is taken already."""
    machine = uniform(cores=4, threads=2)
    assert packed(machine, machine.online - CPUSet.of(2), 1) == CPUSet.of(6)
    assert packed(machine, machine.online - CPUSet.of(2), 3) == CPUSet.of(0, 4, 6)


def test_a_whole_core_goes_before_a_half_used_one() -> None:
    machine = uniform(cores=4, threads=2)
    assert packed(machine, machine.online - CPUSet.of(0), 2) == CPUSet.of(1, 5)


def test_a_core_in_two_nodes_counts_where_its_free_cpus_are() -> None:
    """Of the core 4-5, only CPU 5 is free, and it is in the second node: the first node has no free CPU left."""
    machine = topology(
        cores=[CPUSet.of(0, 10), CPUSet.of(4, 5), CPUSet.of(2, 12), CPUSet.of(3, 13)],
        nodes={0: CPUSet.of(0, 4, 10), 1: CPUSet.of(2, 3, 5, 12, 13)},
    )
    assert packed(machine, CPUSet.of(0, 2, 3, 5), 2) == CPUSet.of(0, 2)


def test_nothing_asked_for_is_nothing_taken() -> None:
    machine = uniform(cores=2)
    assert packed(machine, machine.online, 0) == EMPTY
    assert packed(machine, machine.online, -1) == EMPTY


def test_cpus_that_are_not_there_are_not_taken() -> None:
    """Free CPUs that are offline on this machine do not count."""
    machine = uniform(cores=2)
    assert packed(machine, CPUSet.of(0, 1, 2, 3), 3) is None
    assert packed(machine, CPUSet.of(1, 7), 1) == CPUSet.of(1)


def _is_inside(core: Group, groups: tuple[Group, ...]) -> bool:
    return any(core.cpus <= group.cpus for group in groups)


@given(topologies(), st.integers(0, 2**41 - 1), st.integers(1, 24))
def test_irregular_machines(machine: Topology, mask: int, count: int) -> None:
    """Never more than asked for, only what is free, at most one free core broken into, and always the same.

    A core that reaches out of its node or package, which only broken firmware reports, may also be cut: by a node or
    package that is taken whole.
    """
    free = machine.online & CPUSet.from_mask(mask)
    taken = packed(machine, free, count)
    if len(free) < count:
        assert taken is None
        return
    assert taken is not None
    assert len(taken) == count
    assert taken <= free
    nested = [core for core in machine.cores if _is_inside(core, machine.nodes) and _is_inside(core, machine.packages)]
    assert broken_into(masks(nested), free.mask, taken.mask) <= 1
    assert packed(machine, free, count) == taken


def test_a_whole_node_cuts_a_core_that_reaches_out_of_it() -> None:
    """CPU 11 is a node of its own, and a thread of core 0 all the same."""
    parts = {0: CPUSet(range(11)), 1: CPUSet.of(11)}
    cores = [CPUSet((*range(9), 11)), CPUSet.of(9, 10)]
    machine = topology(cores=cores, caches=parts, nodes=parts, packages=parts)
    assert packed(machine, machine.online, 2) == CPUSet.of(9, 11)


@given(topologies(), st.data())
def test_taking_in_pieces_never_hands_out_a_cpu_twice(machine: Topology, data: st.DataObject) -> None:
    """Requests one after another use the machine up, each CPU once."""
    free, total = machine.online, EMPTY
    while free:
        count = data.draw(st.integers(1, len(free)))
        taken = packed(machine, free, count)
        assert taken is not None
        assert taken.isdisjoint(total)
        free, total = free - taken, total | taken
    assert total == machine.online
