"""Topology: every online CPU is in exactly one core, cache, node and package."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state import codec
from state.cpuset import EMPTY, CPUSet, union
from state.errors import StateError
from state.topology import CacheLevel, Group, Kind, Topology, topology, uniform, with_known_cores, with_online
from tests.state.strategies import cpu_sets, topologies


def check_levels(machine: Topology) -> None:
    """Check the law."""
    for groups, index in (
        (machine.cores, machine.core_of),
        (machine.caches, machine.cache_of),
        (machine.nodes, machine.node_of),
        (machine.packages, machine.package_of),
    ):
        assert sorted(cpu for group in groups for cpu in group.cpus) == list(machine.online)
        assert [group.id for group in groups] == sorted({group.id for group in groups})
        assert set(index) == set(machine.online)
        assert all(cpu in index[cpu].cpus for cpu in machine.online)


@given(topologies())
def test_every_cpu_is_once_in_every_level(machine: Topology) -> None:
    check_levels(machine)
    assert machine.isolated <= machine.online
    assert all(core.id == core.cpus.lowest() for core in machine.cores)
    assert machine.cpus_per_core >= 1


@given(topologies(), cpu_sets)
def test_whole_cores_are_what_is_touched(machine: Topology, cpus: CPUSet) -> None:
    whole = machine.whole_cores(cpus)
    assert whole >= cpus & machine.online
    for core in machine.cores:
        assert core.cpus <= whole or core.cpus.isdisjoint(whole)
        assert core.cpus.isdisjoint(whole) == core.cpus.isdisjoint(cpus)


MANY = uniform(packages=2, cores=32, threads=2)
"""So many cores that those of a few CPUs are looked up, and those of many are walked through."""


@pytest.mark.parametrize(
    "machine", [MANY, with_online(MANY, MANY.online - CPUSet.of(3, 40, 64, 127))], ids=["all", "some offline"]
)
@given(st.frozensets(st.integers(0, 130), max_size=40).map(CPUSet))
def test_cores_of_few_and_of_many_cpus_are_found_alike(machine: Topology, cpus: CPUSet) -> None:
    """CPUs that are offline, or that the machine has not, are in no core."""
    touched = [core.cpus for core in machine.cores if not core.cpus.isdisjoint(cpus)]
    assert machine.whole_cores(cpus) == union(touched)
    assert machine.full_cores_in(cpus) == union(core.cpus for core in machine.full_cores if core.cpus <= cpus)


@given(topologies())
def test_a_machine_there_and_back(machine: Topology) -> None:
    assert codec.decode(codec.encode(machine), Topology) == machine


def test_a_machine_with_every_level_there_and_back() -> None:
    """Distances are keyed by number, which JSON has as text; equal machines are equal bytes in any order of keys."""
    cpus = CPUSet.of(0, 1)
    made = msgspec.structs.replace(
        topology(cores=[cpus]),
        clusters=(Group(0, cpus),),
        dies=(Group(0, cpus),),
        cache_levels=(CacheLevel(1, (Group(0, cpus),)),),
        distances={0: {0: 10, 12: 20}, 12: {0: 20, 12: 10}},
        memory=(0, 12),
        kinds=(Kind("performance", 1024, cpus),),
        devices={"eth0": cpus, "0000:00:01.0": cpus},
    )
    turned = msgspec.structs.replace(
        made,
        distances={12: {12: 10, 0: 20}, 0: {12: 20, 0: 10}},
        devices={"0000:00:01.0": cpus, "eth0": cpus},
    )
    assert codec.decode(codec.encode(made), Topology) == made == turned
    assert codec.encode(made) == codec.encode(turned)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_regular_machines_are_regular(packages: int, nodes: int, cores: int, threads: int, adjacent: bool) -> None:
    machine = uniform(packages=packages, nodes=nodes, cores=cores, threads=threads, adjacent=adjacent)
    check_levels(machine)
    assert machine.online == CPUSet(range(packages * nodes * cores * threads))
    assert len(machine.packages) == packages
    assert len(machine.nodes) == len(machine.caches) == packages * nodes
    assert len(machine.cores) == packages * nodes * cores
    assert {len(core.cpus) for core in machine.cores} == {threads}
    assert machine.cpus_per_core == threads
    for core in machine.cores:
        assert sum(core.cpus <= node.cpus for node in machine.nodes) == 1
    for node in machine.nodes:
        assert sum(node.cpus <= package.cpus for package in machine.packages) == 1


def test_siblings_are_numbered_as_asked() -> None:
    assert str(uniform(cores=4, threads=2).cores[0].cpus) == "0,4"
    assert str(uniform(cores=4, threads=2, adjacent=True).cores[0].cpus) == "0-1"


def test_untold_levels_fall_back_to_larger_ones() -> None:
    cores = [CPUSet.of(0), CPUSet.of(1), CPUSet.of(2), CPUSet.of(3)]
    bare = topology(cores=cores)
    assert bare.caches == bare.nodes == bare.packages
    assert len(bare.packages) == 1
    two = topology(cores=cores, packages={0: CPUSet.of(0, 1), 1: CPUSet.of(2, 3)})
    assert two.caches == two.nodes == two.packages
    assert len(two.packages) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"cores": []}, "at least one online CPU"),
        ({"cores": [EMPTY]}, "at least one online CPU"),
        ({"cores": [CPUSet.of(0, 1), CPUSet.of(1)]}, "in two cores"),
        ({"cores": [CPUSet.of(0)], "nodes": {0: CPUSet.of(0, 1)}}, "nodes cover CPUs 0-1, but 0 are online"),
        ({"cores": [CPUSet.of(0, 1)], "caches": [CPUSet.of(0)]}, "caches cover CPUs 0, but 0-1 are online"),
        ({"cores": [CPUSet.of(0)], "packages": {0: CPUSet.of(0), 1: CPUSet.of(0)}}, "a CPU in two"),
    ],
)
def test_a_machine_that_is_not_one_is_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(StateError, match=words):
        topology(**arguments)  # type: ignore[arg-type]


def test_a_machine_with_some_cpus_offline_keeps_everything_else() -> None:
    """Groups that lose all their CPUs go; a single remaining kind is dropped."""
    machine = msgspec.structs.replace(
        uniform(packages=2, cores=2, threads=2),
        isolated=CPUSet.of(1, 3),
        kinds=(Kind("performance", 1024, CPUSet.of(0, 1, 4, 5)), Kind("efficient", 512, CPUSet.of(2, 3, 6, 7))),
        cache_levels=(CacheLevel(3, (Group(0, CPUSet.of(0, 1, 4, 5)), Group(2, CPUSet.of(2, 3, 6, 7)))),),
        memory=(0, 1),
        devices={"eth0": CPUSet.of(2, 3)},
    )
    some = with_online(machine, CPUSet.of(0, 1, 2, 4))
    assert (some.offline, some.isolated) == (CPUSet.of(3, 5, 6, 7), CPUSet.of(1))
    assert some.devices == {"eth0": CPUSet.of(2)}
    assert [kind.cpus for kind in some.kinds] == [CPUSet.of(0, 1, 4), CPUSet.of(2)]
    half = with_online(machine, CPUSet.of(0, 1))
    assert ([group.id for group in half.packages], half.kinds, half.memory) == ([0], (), (0, 1))
    assert half.cache_levels == (CacheLevel(3, (Group(0, CPUSet.of(0, 1)),)),)
    assert with_online(machine, machine.online) == machine


def known(before: Topology, now: Topology) -> tuple[str, ...]:
    return tuple(map(str, with_known_cores(now, (core.cpus for core in before.cores)).narrowed))


def test_a_core_keeps_the_threads_that_it_was_seen_with() -> None:
    """Where each core lacks one, no core is full, and its width is what it was; also after another CPU went."""
    machine = uniform(cores=3, threads=2, adjacent=True)
    halves = with_online(machine, CPUSet.of(0, 2, 4))
    assert [core.id for core in halves.full_cores] == [0, 2, 4]
    some = with_known_cores(halves, (core.cpus for core in machine.cores))
    assert (some.full_cores, [width for _, width in some.widths], some.widest) == ((), [2], 2)
    assert some.threaded == machine.threaded == tuple(core.cpus for core in machine.cores)
    fewer = with_known_cores(with_online(machine, CPUSet.of(0, 1, 2)), some.threaded)
    assert (list(map(str, fewer.narrowed)), [core.id for core in fewer.full_cores]) == (["2-3", "4-5"], [0])
    assert with_known_cores(machine, fewer.threaded) == machine


def test_cores_of_another_machine_are_not_known_again() -> None:
    """What is online shows it, or a CPU that is not there at all."""
    packed, apart = uniform(cores=2, threads=2, adjacent=True), uniform(cores=2, threads=2)
    assert known(apart, with_online(packed, CPUSet.of(0, 1, 2))) == ()
    assert known(packed, with_online(packed, CPUSet.of(0, 1, 2))) == ("2-3",)
    assert known(packed, topology(cores=[CPUSet.of(0), CPUSet.of(2)])) == ()
    assert known(packed, topology(cores=[CPUSet.of(0), CPUSet.of(2)], offline=CPUSet.of(1))) == ("0-1",)


def test_cores_have_one_thread_while_smt_is_off() -> None:
    machine = uniform(cores=2, threads=2, adjacent=True)
    off = msgspec.structs.replace(with_online(machine, CPUSet.of(0, 2)), is_smt_off=True)
    assert known(machine, off) == ()
    assert known(machine, msgspec.structs.replace(off, is_smt_off=False)) == ("0-1", "2-3")
