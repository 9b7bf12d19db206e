"""affinity: the kubelet's merged hints, found without listing them; and how the rules use them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.decide.placement.numa.affinity import ANYWHERE, Affinity, affinity, hints, merged
from state.cpuset import EMPTY, CPUSet, union
from state.demand import NumaRule
from state.topology import Topology, topology, uniform

TWO = uniform(packages=2, cores=4)
"""Nodes 0 (0-3) and 1 (4-7)."""


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    """Draw machines of up to 8 nodes of 1 to 6 CPUs, with ids that have holes, in up to 4 sockets that may cut
    nodes.
    """
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    ids = sorted(draw(st.sets(st.integers(0, 15), min_size=len(sizes), max_size=len(sizes))))
    nodes, first = {}, 0
    for id, size in zip(ids, sizes, strict=True):
        nodes[id] = CPUSet(range(first, first + size))
        first += size
    if draw(st.booleans()):
        socket_of = draw(st.lists(st.integers(0, 3), min_size=len(ids), max_size=len(ids)))
        packages = {s: union(nodes[i] for i, of in zip(ids, socket_of, strict=True) if of == s) for s in set(socket_of)}
    else:
        packages = {s: CPUSet(cpu for cpu in range(first) if cpu % 3 == s) for s in range(min(3, first))}
    return topology(cores=[CPUSet.of(cpu) for cpu in range(first)], nodes=nodes, packages=packages)


@given(machines(), st.binary(min_size=6, max_size=6), st.integers(0, 1000), st.sampled_from(NumaRule), st.booleans())
@settings(max_examples=600, deadline=None)
def test_the_direct_way_finds_what_the_list_ends_with(
    machine: Topology, free: bytes, count: int, rule: NumaRule, by_socket: bool
) -> None:
    """On any machine, whatever is free, under any rule."""
    available = machine.online & CPUSet.from_mask(int.from_bytes(free))
    count = 1 + count % (len(machine.online) + 1)
    listed = hints(machine, available, count, by_socket=by_socket)
    assert affinity(machine, available, count, rule, by_socket=by_socket) == merged(machine, listed, rule)


def test_nodes_that_would_fill_more_sockets_than_there_are_may_lie_in_all() -> None:
    """Five nodes in three sockets are one in each, rounded down: four would fill four sockets."""
    nodes = {number: CPUSet.of(2 * number, 2 * number + 1) for number in range(5)}
    packages = {0: nodes[0] | nodes[1], 1: nodes[2] | nodes[3], 2: nodes[4]}
    machine = topology(cores=list(nodes.values()), nodes=nodes, packages=packages)
    available = CPUSet.parse("0-4,6,8")
    found = affinity(machine, available, 7, NumaRule.BEST_EFFORT, by_socket=True)
    assert found == merged(machine, hints(machine, available, 7, by_socket=True), NumaRule.BEST_EFFORT)
    assert found == Affinity((0, 1, 2, 3, 4), is_preferred=True)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (NumaRule.NONE, ANYWHERE),
        (NumaRule.BEST_EFFORT, Affinity((0, 1), is_preferred=False)),
        (NumaRule.RESTRICTED, Affinity((0, 1), is_preferred=False, is_admitted=False)),
        (NumaRule.SINGLE, Affinity(None, is_preferred=False, is_admitted=False)),
    ],
)
def test_what_would_fit_one_node_of_an_empty_machine_and_does_not_now(rule: NumaRule, expected: Affinity) -> None:
    """Best effort takes two nodes; the others refuse."""
    assert affinity(TWO, CPUSet.of(2, 3, 4, 5), 3, rule) == expected


def test_what_never_fits_one_node_is_preferred_on_two() -> None:
    """Restricted admits it, single does not."""
    assert affinity(TWO, TWO.online, 6, NumaRule.RESTRICTED) == Affinity((0, 1), is_preferred=True)
    assert not affinity(TWO, TWO.online, 6, NumaRule.SINGLE).is_admitted


def test_the_lower_node_wins_among_equals_even_if_it_has_less_to_spare() -> None:
    assert affinity(TWO, CPUSet.of(2, 3, 4, 5, 6), 2, NumaRule.SINGLE) == Affinity((0,), is_preferred=True)


def test_two_nodes_of_one_socket_are_preferred_when_sockets_count() -> None:
    """Four CPUs fit one node of the empty machine; now they need two, and those of one socket will do."""
    machine = uniform(packages=2, nodes=2, cores=4)
    free = CPUSet.of(2, 3, 6, 7, 10, 11)
    assert affinity(machine, free, 4, NumaRule.RESTRICTED).is_admitted is False
    assert affinity(machine, free, 4, NumaRule.RESTRICTED, by_socket=True) == Affinity((0, 1), is_preferred=True)


def test_what_is_held_must_be_inside_and_counts() -> None:
    """A request that keeps CPU 4 can only be served from sets with node 1."""
    listed = list(hints(TWO, CPUSet.of(0, 1, 2, 5), 2, held=CPUSet.of(4)))
    assert [hint.nodes for hint in listed] == [(1,), (0, 1)]


def test_64_nodes_are_no_trouble() -> None:
    """A request of half of the machine, out of every second CPU: all 64 nodes, found at once."""
    machine = uniform(packages=16, nodes=4, cores=8, threads=2)
    every_second = CPUSet(cpu for cpu in machine.online if cpu % 2)
    assert affinity(machine, every_second, 512, NumaRule.BEST_EFFORT).nodes == tuple(range(64))
    assert affinity(machine, EMPTY, 1, NumaRule.BEST_EFFORT) == Affinity(None, is_preferred=False)
