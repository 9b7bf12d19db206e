"""Spread placement: different cores first, whatever the numbering; equal to the kubelet where that spreads as well."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from sidecar.decide.placement.order.spread import spread
from sidecar.decide.placement.order.taking import Taking, lowest
from state.cpuset import EMPTY, CPUSet
from state.topology import Topology, uniform
from tests.state.strategies import topologies
from tests.support.decide.placements import touched

FAR = uniform(packages=2, cores=6, threads=2)
NEAR = uniform(packages=2, cores=6, threads=2, adjacent=True)


def by_number(topology: Topology, available: CPUSet, count: int) -> CPUSet | None:
    """Choose as the kubelet does: whole groups, then package by package by number alone."""
    taking = Taking(topology.tree, available.mask, count)
    if count < 1 or taking.free.bit_count() < count:
        return None if count > 0 else EMPTY
    if not taking.whole_nodes_and_packages():
        for package in taking.packages():
            taking.take(lowest(package & taking.free, taking.needed))
    return taking.result()


def test_one_cpu_of_each_core_whatever_the_numbering() -> None:
    assert spread(FAR, FAR.online, 4) == CPUSet.of(0, 1, 2, 3)
    assert spread(NEAR, NEAR.online, 4) == CPUSet.of(0, 2, 4, 6)


def test_second_siblings_come_when_every_core_of_the_package_has_one() -> None:
    """Before another package is touched."""
    assert spread(FAR, FAR.online, 8) == CPUSet.of(0, 1, 2, 3, 4, 5, 12, 13)
    assert spread(NEAR, NEAR.online, 8) == CPUSet.of(0, 1, 2, 3, 4, 6, 8, 10)


def test_the_fullest_package_goes_first() -> None:
    assert spread(FAR, FAR.online - CPUSet.of(6), 4) == CPUSet.of(7, 8, 9, 10)


def test_a_whole_package_is_taken_whole() -> None:
    assert spread(FAR, FAR.online - CPUSet.of(0), 14) == FAR.packages[1].cpus | CPUSet.of(1, 2)


def test_a_half_used_core_serves_as_well_as_a_free_one() -> None:
    """By number, as in the kubelet: what others use of a core does not count."""
    assert spread(FAR, FAR.online - CPUSet.of(0, 6), 2) == CPUSet.of(1, 2)
    assert spread(FAR, FAR.online - CPUSet.of(0, 6), 6) == CPUSet.of(1, 2, 3, 4, 5, 12)


def test_not_enough() -> None:
    assert spread(FAR, CPUSet.of(0, 1), 3) is None
    assert spread(FAR, FAR.online, 0) == EMPTY


@given(topologies(), st.integers(0, 2**41 - 1), st.integers(1, 24))
def test_where_the_kubelet_spreads_as_well_the_answer_is_its_own(machine: Topology, mask: int, count: int) -> None:
    """And elsewhere it touches more different cores, never fewer."""
    assume(all(len(touched(machine.packages, core.cpus)) == 1 for core in machine.cores))
    free = CPUSet.from_mask(mask) & machine.online
    ours, theirs = spread(machine, free, count), by_number(machine, free, count)
    if ours is None or theirs is None:
        assert ours == theirs
    elif ours != theirs:
        assert len(touched(machine.cores, ours)) > len(touched(machine.cores, theirs))
