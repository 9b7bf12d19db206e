"""Placement along caches: whole caches, then a part of one, then as packed."""

from __future__ import annotations

from sidecar.decide.placement.order.along_caches import along_caches
from sidecar.decide.placement.order.packed import packed
from state.cpuset import EMPTY, CPUSet
from state.topology import topology, uniform

SMT = topology(
    cores=[CPUSet.of(n, n + 8) for n in range(8)],
    caches={n: CPUSet.of(2 * n, 2 * n + 1, 2 * n + 8, 2 * n + 9) for n in range(4)},
)
"""Four caches of two cores."""

FLAT = topology(cores=[CPUSet.of(n) for n in range(8)], caches={0: CPUSet(range(4)), 1: CPUSet(range(4, 8))})
"""Two caches of four CPUs."""


def test_a_request_of_a_caches_size_is_a_cache() -> None:
    """Packed would take the lowest whole cores, which are of two caches."""
    free = SMT.online - CPUSet.of(0)
    assert along_caches(SMT, free, 4) == SMT.caches[1].cpus
    assert packed(SMT, free, 4) == CPUSet.of(1, 2, 9, 10)


def test_a_part_comes_out_of_the_fullest_cache_that_it_fits_into() -> None:
    free = FLAT.online - CPUSet.of(4, 5)
    assert along_caches(FLAT, free, 2) == CPUSet.of(6, 7)
    assert along_caches(FLAT, free, 3) == CPUSet.of(0, 1, 2)


def test_whole_caches_first_then_a_part_of_one() -> None:
    assert along_caches(SMT, SMT.online, 6) == SMT.caches[0].cpus | CPUSet.of(2, 10)
    assert along_caches(SMT, SMT.online - CPUSet.of(0), 6) == SMT.caches[1].cpus | CPUSet.of(4, 12)


def test_of_an_odd_part_the_highest_cpu_stays_behind() -> None:
    """Three CPUs are two cores without the second thread of one."""
    free = SMT.online - CPUSet.of(0, 8)
    assert along_caches(SMT, free, 3) == CPUSet.of(2, 3, 10)
    assert packed(SMT, free, 3) == CPUSet.of(1, 2, 9)


def test_a_cache_with_half_used_cores_can_fail_with_enough_cpus() -> None:
    """As in the kubelet: it considers as many cores as the request would fill if they were free."""
    assert along_caches(SMT, CPUSet.of(0, 1, 2, 3, 11), 2) == CPUSet.of(3, 11)
    assert along_caches(SMT, CPUSet.of(0, 1, 2, 3), 2) == CPUSet.of(0, 1)


def test_without_a_cache_that_serves_it_is_placed_packed() -> None:
    free = CPUSet.of(0, 1, 4, 5)
    assert along_caches(FLAT, free, 3) == packed(FLAT, free, 3)


def test_one_cache_is_no_different_from_packed() -> None:
    machine = uniform(cores=4, threads=2)
    for count in range(1, 9):
        assert along_caches(machine, machine.online, count) == packed(machine, machine.online, count)


def test_not_enough() -> None:
    assert along_caches(SMT, CPUSet.of(0, 1), 3) is None
    assert along_caches(SMT, SMT.online, 0) == EMPTY


def test_a_core_counts_for_a_cache_only_with_a_free_cpu_there() -> None:
    """A core that reaches into two caches, and is free only in the other one, does not count for this one."""
    machine = topology(
        cores=[CPUSet.of(0), CPUSet.of(1, 2), CPUSet.of(3), CPUSet.of(4), CPUSet.of(5), CPUSet.of(6)],
        caches=[CPUSet.of(0, 1), CPUSet.of(2, 3), CPUSet.of(4, 5, 6)],
    )
    assert along_caches(machine, CPUSet.of(0, 2, 4, 5), 2) == CPUSet.of(4, 5)
