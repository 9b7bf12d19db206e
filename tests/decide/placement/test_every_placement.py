"""What all placement algorithms promise, on any machine: the requested number of free CPUs, and a repeatable answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.cpuset import EMPTY, CPUSet
from state.topology import Topology, uniform
from tests.state.strategies import topologies
from tests.support.decide.placements import ALGORITHMS, Algorithm

each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS.keys())


@each_algorithm
@given(topologies(), st.integers(0, 2**41 - 1), st.integers(-1, 25))
def test_so_many_of_the_free_cpus_or_none(algorithm: Algorithm, machine: Topology, mask: int, count: int) -> None:
    """Irregular nodes, packages, caches; half cores; CPU numbers with gaps; free CPUs that the machine lacks."""
    available = CPUSet.from_mask(mask)
    taken = algorithm(machine, available, count)
    if count > len(available & machine.online):
        assert taken is None
    else:
        assert taken is not None
        assert len(taken) == max(0, count)
        assert taken <= available & machine.online
        assert algorithm(machine, available, count) == taken


@each_algorithm
@given(topologies(), st.integers(0, 2**41 - 1), st.integers(1, 12))
def test_the_order_in_which_groups_were_told_does_not_matter(
    algorithm: Algorithm, machine: Topology, mask: int, count: int
) -> None:
    turned = Topology(
        online=machine.online,
        cores=machine.cores[::-1],
        caches=machine.caches[::-1],
        nodes=machine.nodes[::-1],
        packages=machine.packages[::-1],
    )
    available = CPUSet.from_mask(mask)
    assert algorithm(turned, available, count) == algorithm(machine, available, count)


@each_algorithm
@given(topologies(), st.data())
def test_requests_one_after_another_use_the_machine_up(
    algorithm: Algorithm, machine: Topology, data: st.DataObject
) -> None:
    """Each CPU once."""
    free, total = machine.online, EMPTY
    while free:
        taken = algorithm(machine, free, data.draw(st.integers(1, len(free))))
        assert taken is not None
        assert taken.isdisjoint(total)
        free, total = free - taken, total | taken
    assert total == machine.online


@each_algorithm
def test_the_whole_machine_is_the_whole_machine(algorithm: Algorithm) -> None:
    for machine in (uniform(cores=1), uniform(packages=16, nodes=4, cores=8, threads=2)):
        assert algorithm(machine, machine.online, len(machine.online)) == machine.online
