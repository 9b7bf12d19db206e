"""reserve: a list or a count; whole low cores first; and what stays reserved when CPUs go offline."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.decide.placement.options import ACROSS_CORES, ACROSS_NUMA
from sidecar.decide.placement.reserve import reserve
from sidecar.decide.reconcile import begin, with_settings
from sidecar.decide.settings import IsolatedRule, PolicyName, Settings
from sidecar.decide.world import replace
from state.cpuset import CPUSet
from state.demand import Demand
from state.key import ContainerKey
from state.model import State
from state.topology import Kind, Topology, topology, uniform, with_online
from tests.state.strategies import topologies

SMT = uniform(cores=4, threads=2)
"""Cores 0,4 1,5 2,6 3,7."""


def cpus(text: str) -> CPUSet:
    return CPUSet.parse(text)


def without(machine: Topology, offline: str) -> Topology:
    cores = [core.cpus - cpus(offline) for core in machine.cores]
    return topology(cores=[core for core in cores if core])


def held(text: str) -> State:
    demand = Demand(container=ContainerKey("docker", "a"), name="a", cpus=len(cpus(text)))
    return State(online=SMT.online, reserved=cpus("0,4")).granted(demand, cpus(text))


@pytest.mark.parametrize(("count", "expected"), [(1, "0"), (2, "0,4"), (3, "0-1,4"), (4, "0-1,4-5"), (8, "0-7")])
def test_a_count_takes_the_lowest_cores_whole(count: int, expected: str) -> None:
    assert reserve(SMT, Settings(reserved_count=count), State()) == cpus(expected)


def test_a_count_beyond_the_machine_is_the_machine() -> None:
    assert reserve(SMT, Settings(reserved_count=99), State()) == SMT.online


def test_none_asked_for_is_none() -> None:
    assert reserve(SMT, Settings(), State()) == CPUSet()


def test_a_list_goes_before_a_count() -> None:
    assert reserve(SMT, Settings(reserved_cpus=cpus("3,7"), reserved_count=4), State()) == cpus("3,7")


def test_a_list_keeps_what_is_online() -> None:
    """The rest of the list is the reservation; no other CPU replaces the missing ones."""
    machine = without(SMT, "7")
    assert reserve(machine, Settings(reserved_cpus=cpus("3,7")), State()) == cpus("3")


def test_a_list_that_is_all_offline_is_replaced_by_one_cpu() -> None:
    """The machine always keeps at least one, an ungranted one if there is any."""
    machine = without(SMT, "3,7")
    assert reserve(machine, Settings(reserved_cpus=cpus("3,7")), State()) == cpus("0")
    assert reserve(machine, Settings(reserved_cpus=cpus("3,7")), held("0,4"), (cpus("1-2"),)) == cpus("1")


def test_a_counted_reservation_stays_where_it_was() -> None:
    """A CPU comes or goes elsewhere: the reserved ones stay the same ones."""
    before = State(online=SMT.online, reserved=cpus("1,5"))
    assert reserve(SMT, Settings(reserved_count=2), before) == cpus("1,5")


def test_a_counted_reservation_that_lost_a_cpu_is_filled_up() -> None:
    """From the sources, in their order."""
    machine = without(SMT, "4")
    assert reserve(machine, Settings(reserved_count=2), held("1,5"), (cpus("2"), cpus("3"))) == cpus("0,2")


def test_a_counted_reservation_is_filled_from_grants_in_the_end() -> None:
    machine = without(SMT, "4")
    assert reserve(machine, Settings(reserved_count=2), held("1-3,5-7")) == cpus("0-1")


def test_a_count_is_what_it_was_when_its_cpus_are_back() -> None:
    """Others stand in for those that are offline, and no longer than that."""
    settings = Settings(reserved_count=2)
    before = State(online=SMT.online, reserved=cpus("1-2"), counted=cpus("0,4"))
    assert reserve(without(SMT, "0,4"), settings, before) == cpus("1-2")
    assert reserve(without(SMT, "4"), settings, before) == cpus("0-1")
    assert reserve(SMT, settings, before) == cpus("0,4")


@pytest.mark.parametrize(("count", "expected"), [(1, "4"), (2, "1,5"), (3, "1,4-5"), (4, "1-2,5-6")])
def test_a_count_on_a_machine_that_lacks_a_thread_takes_cores_that_are_whole(count: int, expected: str) -> None:
    """The core without its other thread completes an odd count."""
    machine = with_online(SMT, cpus("1-7"))
    assert reserve(machine, Settings(reserved_count=count), State()) == cpus(expected)


def test_another_count_is_counted_again() -> None:
    before = State(online=SMT.online, reserved=cpus("1,5"))
    assert reserve(SMT, Settings(reserved_count=1), before) == cpus("0")


def test_a_count_after_a_list_of_as_many_is_not_what_the_list_was() -> None:
    """It is chosen as on an empty machine, and then stays, also after a restart."""
    by_list, by_count = (
        Settings(policy=PolicyName.STATIC, reserved_cpus=cpus("1,5")),
        Settings(policy=PolicyName.STATIC, reserved_count=2),
    )
    listed = begin(State(), SMT, by_list)
    counted = with_settings(listed, by_count)
    assert (listed.state.reserved, counted.state.reserved) == (cpus("1,5"), cpus("0,4"))
    assert begin(listed.state, SMT, by_count).state == begin(counted.state, SMT, by_count).state == counted.state


@pytest.mark.parametrize(
    ("options", "count", "expected"), [((), 2, "0,4"), ((ACROSS_CORES,), 2, "0-1"), ((ACROSS_NUMA,), 6, "0-4,6")]
)
def test_a_counted_reservation_is_placed_by_the_options(options: tuple[str, ...], count: int, expected: str) -> None:
    """As the kubelet does it: whole cores, different cores, or as many of each node."""
    machine = uniform(packages=2, cores=2, threads=2)
    assert reserve(machine, Settings(reserved_count=count, options=options), State()) == cpus(expected)


def test_a_counted_reservation_takes_the_slowest_cores_and_spares_isolated_ones() -> None:
    """Unless there are too few of them."""
    machine = replace(
        uniform(cores=6),
        kinds=(Kind("performance", 1024, cpus("0-2")), Kind("efficient", 500, cpus("3-5"))),
        isolated=cpus("3"),
    )
    assert reserve(machine, Settings(reserved_count=1), State()) == cpus("3")
    spared = Settings(reserved_count=1, isolated=IsolatedRule.PREFER)
    assert reserve(machine, spared, State()) == cpus("4")
    assert reserve(machine, replace(spared, reserved_count=3), State()) == cpus("0-2")
    assert reserve(machine, replace(spared, reserved_count=6), State()) == cpus("0-5")


@given(topologies(), st.integers(1, 30), st.data())
def test_a_reservation_is_online_and_as_large_as_asked(machine: Topology, count: int, data: st.DataObject) -> None:
    """Whatever was reserved before; and it is stable when computed again."""
    numbers = data.draw(st.frozensets(st.sampled_from(sorted(machine.online)), max_size=len(machine.online)))
    before = State(online=machine.online, reserved=CPUSet(numbers))
    settings = Settings(reserved_count=count)
    found = reserve(machine, settings, before)
    assert len(found) == min(count, len(machine.online))
    assert found <= machine.online
    assert reserve(machine, settings, State(online=machine.online, reserved=found)) == found


def test_a_stand_in_for_a_listed_cpu_stays() -> None:
    """All listed CPUs are offline: another one is reserved, and stays reserved whenever the machine is read again."""
    machine = with_online(uniform(cores=6), CPUSet.parse("1-2,4-5"))
    settings = Settings(policy=PolicyName.STATIC, reserved_cpus=CPUSet.of(0))
    books = State(policy="static", online=machine.online, reserved=CPUSet.of(2))
    assert reserve(machine, settings, books) == CPUSet.of(2)
