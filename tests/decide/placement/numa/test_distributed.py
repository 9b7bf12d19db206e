"""Distributed placement: equal to an exhaustive search, also where that search cannot finish."""

from __future__ import annotations

import random
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.decide.placement.numa.distributed import distributed
from sidecar.decide.placement.numa.even_balance import balanced
from sidecar.decide.placement.order.packed import packed
from state.cpuset import EMPTY, CPUSet, union
from state.topology import Topology, topology, uniform
from tests.state.strategies import topologies
from tests.support.decide.numa_reference import best_members, reference

EIGHT = uniform(packages=2, nodes=4, cores=16, threads=2)


def test_an_idle_machine_gives_the_same_from_the_first_nodes() -> None:
    """120 CPUs are 30 from each of four nodes of 32."""
    taken = distributed(EIGHT, EIGHT.online, 120, 1)
    assert taken is not None
    assert [len(taken & node.cpus) for node in EIGHT.nodes] == [30, 30, 30, 30, 0, 0, 0, 0]


def test_what_is_left_over_goes_to_the_first_nodes() -> None:
    taken = distributed(EIGHT, EIGHT.online, 70, 1)
    assert taken is not None
    assert [len(taken & node.cpus) for node in EIGHT.nodes] == [24, 23, 23, 0, 0, 0, 0, 0]


def test_whole_cores_are_dealt_as_whole_cores() -> None:
    taken = distributed(EIGHT, EIGHT.online, 70, 2)
    assert taken is not None
    assert [len(taken & node.cpus) for node in EIGHT.nodes] == [24, 24, 22, 0, 0, 0, 0, 0]
    assert EIGHT.whole_cores(taken) == taken


def test_a_count_that_is_no_multiple_of_a_core_is_placed_packed() -> None:
    assert distributed(EIGHT, EIGHT.online, 69, 2) == packed(EIGHT, EIGHT.online, 69)


def test_odd_leftovers_do_not_hang_it() -> None:
    """One thread of every node is taken: CPUs suffice, whole cores do not. The kubelet up to 1.36 never returned."""
    machine = uniform(packages=2, nodes=2, cores=4, threads=2)
    free = machine.online - CPUSet(node.cpus.lowest() for node in machine.nodes)
    taken = distributed(machine, free, 26, 2)
    assert taken == packed(machine, free, 26)
    assert distributed(machine, free, 22, 2) is not None


def test_not_enough() -> None:
    assert distributed(EIGHT, CPUSet.of(0, 1), 3, 1) is None
    assert distributed(EIGHT, EIGHT.online, 0, 1) == EMPTY


@given(topologies(), st.integers(0, 2**41 - 1), st.integers(0, 24), st.sampled_from([1, 2, 4, 8]))
def test_any_machine_gives_what_a_search_through_everything_gives(
    machine: Topology, mask: int, count: int, group: int
) -> None:
    """Nodes here need not be of equal size, nor nested in packages."""
    free = CPUSet.from_mask(mask) & machine.online
    assert distributed(machine, free, count, group) == reference(machine, free, count, group)


@pytest.mark.parametrize(
    ("free", "count", "group", "members", "chosen", "extra"),
    [
        # A member without CPUs left may be followed by one that gives more than a full round.
        ([2, 2, 3, 4, 4], 14, 1, 5, (0, 1, 2, 3, 4), {2: 1, 3: 2, 4: 1}),
        ([10, 4, 7, 3, 6, 4, 3], 26, 2, 7, (0, 1, 2, 3, 4, 5, 6), {0: 2, 1: 1, 2: 2, 4: 1}),
        # Of equals, the larger subset receives.
        ([3, 1, 1, 5, 3, 2], 9, 1, 5, (0, 1, 3, 4, 5), {3: 2, 4: 1, 5: 1}),
        ([4, 6, 2, 3, 4], 14, 1, 5, (0, 1, 2, 3, 4), {1: 2, 3: 1, 4: 1}),
    ],
)
def test_rests_that_need_rounds(
    free: list[int], count: int, group: int, members: int, chosen: tuple[int, ...], extra: dict[int, int]
) -> None:
    """Each of these is wrong with one of the rules of dealing left out."""
    deals = balanced(free, count, group, members)
    assert tuple(deal.place for deal in deals) == chosen
    assert {deal.place: deal.extra for deal in deals if deal.extra} == extra


def frees(rng: random.Random, most: int) -> list[int]:
    """Draw free CPUs of up to this many nodes, in any order: random, alike, nearly idle, of two kinds, or nearly used
    up.
    """
    size = rng.choice([2, 4, 8, 16, 32, 64])
    nodes, lowest, pair = range(rng.randint(1, most)), rng.randint(1, size), [rng.randint(1, size) for _ in range(2)]
    match rng.randrange(5):
        case 0:
            return [rng.randint(1, size) for _ in nodes]
        case 1:
            return [min(size, lowest + rng.randint(0, 3)) for _ in nodes]
        case 2:
            return [rng.choice([size, size, size - 1, lowest]) for _ in nodes]
        case 3:
            return [rng.choice(pair) for _ in nodes]
        case _:
            return [1 + rng.randrange(rng.choice([2, 6])) for _ in nodes]


@pytest.mark.parametrize("seed", range(20))
def test_every_number_of_members_gives_what_a_search_through_everything_gives(seed: int) -> None:
    """Up to seven nodes, groups of 1 to 8, odd leftovers; with the kubelet's rounded deviations as well as exactly."""
    rng, compared = random.Random(seed), 0
    while compared < 600:
        free, group = frees(rng, 7), rng.choice([1, 1, 2, 2, 4, 8])
        if not (groups := sum(each // group for each in free)):
            continue
        count = group * rng.randint(1, groups)
        for members in range(1, min(count // group, len(free)) + 1):
            expected = best_members(free, count, group, members, exactly=True)
            if expected is None:
                continue
            assert best_members(free, count, group, members, exactly=False) == expected
            deals = balanced(free, count, group, members)
            assert tuple(deal.place for deal in deals) == expected[0]
            dealt = {deal.place: deal.extra * group for deal in deals if deal.extra}
            assert dealt == {place: cpus for place, cpus in expected[1].items() if cpus}
            compared += 1


@pytest.mark.parametrize("seed", range(10))
def test_machines_whose_packages_hold_several_nodes(seed: int) -> None:
    """There the order of nodes is not that of their free CPUs."""
    rng = random.Random(seed)
    for _ in range(40):
        machine = uniform(packages=2, nodes=rng.choice([2, 3]), cores=rng.choice([2, 3, 4, 8]), threads=2)
        density = rng.random()
        free = CPUSet(cpu for cpu in machine.online if rng.random() < density)
        if free:
            count, group = rng.randint(1, len(free)), rng.choice([1, 2, 4])
            assert distributed(machine, free, count, group) == reference(machine, free, count, group)


def test_beyond_two_thousand_cpus_the_more_even_way_is_taken_that_rounding_would_not_see() -> None:
    """Here the kubelet's three decimals treat unequal ways as equal, and take the first: an intended difference."""
    free = [3000, 3001, 1]
    rounded, exact = (best_members(free, 1, 1, 1, exactly=exactly) for exactly in (False, True))
    assert rounded is not None
    assert exact is not None
    assert (rounded[0], exact[0]) == ((0,), (1,))
    assert tuple(deal.place for deal in balanced(free, 1, 1, 1)) == exact[0]


def test_nodes_of_one_cpu_and_nodes_of_many() -> None:
    """The idle nodes give the rest, as many as their shares allow."""
    sizes = [1, 1, 8, 8]
    starts = [0, 1, 2, 10]
    nodes = {n: CPUSet(range(start, start + size)) for n, (start, size) in enumerate(zip(starts, sizes, strict=True))}
    machine = topology(cores=[CPUSet.of(cpu) for cpu in chain.from_iterable(nodes.values())], nodes=nodes)
    taken = distributed(machine, machine.online, 18, 1)
    assert taken == union(nodes.values())
    for count in range(1, 18):
        assert distributed(machine, machine.online, count, 1) == reference(machine, machine.online, count, 1)
