"""The room that the shared pool leaves, on small nodes of every kind: counted, and tried with every set of CPUs.

Granting, growing, advertising and refitting use one rule, so on each node they agree exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import pytest

from sidecar.decide.books.grants import may_hold
from sidecar.decide.books.refit import refit
from sidecar.decide.books.room import Room, capacity, free, room_in
from sidecar.decide.books.sizes import Claims, sizes
from sidecar.decide.placement.options import FULL_PCPUS_ONLY, STRICT_CPU_RESERVATION
from sidecar.decide.settings import IsolatedRule, PolicyName
from sidecar.decide.whatif import imagined
from sidecar.decide.world import World, replace
from state.cpuset import EMPTY, CPUSet
from state.demand import Demand
from state.key import ContainerKey
from state.model import State
from state.refusal import RefusalCode
from state.topology import Kind, Topology, topology, uniform
from tests.support.decide.stories import cpus, static, told

C = ContainerKey("docker", "c")

MACHINES = {
    "threads": replace(uniform(cores=4, threads=2), isolated=cpus("2,6")),
    "cores": replace(uniform(cores=8), isolated=cpus("4-5")),
    "kinds": replace(
        topology(cores=[cpus(each) for each in ("0", "1", "2", "3", "4-5", "6-7")]),
        isolated=cpus("2,5"),
        kinds=(Kind("performance", 1024, cpus("4-7")), Kind("efficient", 512, cpus("0-3"))),
    ),
}

OPTIONS: tuple[tuple[str, ...], ...] = (
    (),
    (FULL_PCPUS_ONLY,),
    (STRICT_CPU_RESERVATION,),
    (FULL_PCPUS_ONLY, STRICT_CPU_RESERVATION),
)


def nodes(machine: Topology, options: tuple[str, ...], policy: PolicyName = PolicyName.STATIC) -> Iterator[World]:
    """Draw nodes without any grant: the shared pool keeps 0 to 3 CPUs, any setting for isolated CPUs, a reservation of
    one or two CPUs, and optionally a container pinned by hand.
    """
    for least, isolated, reserved, stranger in product(range(4), IsolatedRule, ("0", "0-1"), ("", "3")):
        settings = static(
            policy=policy, options=options, shared_min=least, isolated=isolated, reserved_cpus=cpus(reserved)
        )
        yield imagined(State(), machine, settings, {"by hand": cpus(stranger)} if stranger else {})


on_every_node = pytest.mark.parametrize(
    ("machine", "options"),
    [(machine, options) for machine in MACHINES.values() for options in OPTIONS],
    ids=[f"{name} {' '.join(options)}" for name in MACHINES for options in OPTIONS],
)


def sets_of(units: Iterable[CPUSet]) -> list[CPUSet]:
    """Return every set of these units, also the empty one."""
    found = [EMPTY]
    for unit in units:
        found += [each | unit for each in found]
    return found


def singles(given: CPUSet) -> list[CPUSet]:
    return [CPUSet.of(cpu) for cpu in given]


def whole(machine: Topology, given: CPUSet) -> list[CPUSet]:
    return [core.cpus for core in machine.cores if core.cpus <= given]


def largest(room: Room, units: Iterable[CPUSet]) -> int:
    """Return the size of a largest set of units without an objection, by trying them all."""
    return max((len(each) for each in sets_of(units) if each and room.objection(each) is None), default=0)


def is_enough(world: World, left: CPUSet) -> bool:
    """Return whether the rule holds, written independently."""
    settings = world.settings
    is_by_cores = {FULL_PCPUS_ONLY, STRICT_CPU_RESERVATION} <= set(settings.options)
    has_core = any(core.cpus <= left for core in world.topology.cores)
    return len(left) >= max(1, settings.shared_min) and (has_core or not is_by_cores)


@on_every_node
def test_the_objection_is_the_rule_and_granting_asks_it(machine: Topology, options: tuple[str, ...]) -> None:
    """For any set of CPUs that a container may want."""
    for world in nodes(machine, options):
        room = room_in(world, world.state)
        for wanted in sets_of(singles(room.givable)):
            allowed = room.objection(wanted) is None
            assert allowed == is_enough(world, world.state.shared - wanted)
            demand = Demand(container=C, name="c", cpus=len(wanted), options=())
            assert may_hold(world, world.state, demand, wanted) == allowed


@on_every_node
def test_what_is_spare_is_a_largest_set_without_an_objection(machine: Topology, options: tuple[str, ...]) -> None:
    """In single CPUs, and in whole cores; `most` is the same number as long as none is granted."""
    for world in nodes(machine, options):
        room = room_in(world, world.state)
        for by_cores, units in ((False, singles(room.givable)), (True, whole(machine, room.givable))):
            spare = room.spare(by_cores=by_cores)
            assert spare in sets_of(units)
            assert not spare or room.objection(spare) is None
            assert len(spare) == largest(room, units) == room.most(by_cores=by_cores)


@on_every_node
def test_what_is_advertised_and_what_is_shared_out_is_as_much(machine: Topology, options: tuple[str, ...]) -> None:
    """The advertised number is in the node's own units, the shared-out one in single CPUs, since containers differ in
    theirs.
    """
    for world in nodes(machine, options, PolicyName.DYNAMIC):
        room = room_in(world, world.state)
        by_node = whole(machine, room.givable) if FULL_PCPUS_ONLY in options else singles(room.givable)
        assert capacity(world) == free(world) == largest(room, by_node)
        anybody = Demand(container=C, name="c", cpus=64, min_cpus=1, options=())
        assert sizes(Claims(world), world.state, {}, anybody) == {C: max(1, largest(room, singles(room.givable)))}


@on_every_node
def test_what_is_held_is_kept_under_the_same_rule(machine: Topology, options: tuple[str, ...]) -> None:
    """For any set of CPUs that is held when the node takes on these settings."""
    for world in nodes(machine, options):
        room = room_in(world, world.state)
        for held in sets_of(singles(room.givable))[1:]:
            demand = Demand(container=C, name="c", cpus=len(held))
            books = State(policy="static", online=machine.online).granted(demand, held)
            fitted, _ = refit(replace(world, state=books))
            assert (C in fitted.assignments) == (room.objection(held) is None)


@on_every_node
def test_beside_grants_it_is_the_same(machine: Topology, options: tuple[str, ...]) -> None:
    """The spare CPUs exclude the granted ones, and `most` includes them, wherever they lie."""
    for world in nodes(machine, options):
        for held in (world.state.assignable - world.strangers - cpus("1"), cpus("7")):
            books = world.state.granted(Demand(container=C, name="c", cpus=len(held)), held)
            room, idle = room_in(world, books), room_in(world, world.state)
            for by_cores, units in ((False, singles), (True, lambda given: whole(machine, given))):
                assert len(room.spare(by_cores=by_cores)) == largest(room, units(room.givable))
                anywhere = replace(idle, givable=room.givable | held)
                assert room.most(by_cores=by_cores) == largest(anywhere, units(anywhere.givable))


@pytest.mark.parametrize(
    ("settings", "stranger", "singly", "advertised"),
    [
        ({"options": (FULL_PCPUS_ONLY, STRICT_CPU_RESERVATION)}, "", 5, 4),
        ({"options": (FULL_PCPUS_ONLY, STRICT_CPU_RESERVATION)}, "3", 5, 4),
        ({"options": (FULL_PCPUS_ONLY,)}, "", 7, 6),
        ({"options": (STRICT_CPU_RESERVATION,)}, "", 6, 6),
    ],
)
def test_a_container_of_single_cpus_can_have_more_than_a_node_of_whole_cores_advertises(
    settings: dict[str, Any], stranger: str, singly: int, advertised: int
) -> None:
    """The advertised number is for containers with the node's own options, which bind what the pool keeps in every
    case.
    """
    world = imagined(
        State(), uniform(cores=4, threads=2), static(**settings), {"by hand": cpus(stranger)} if stranger else {}
    )
    assert (room_in(world, world.state).most(), capacity(world)) == (singly, advertised)


def test_cores_of_several_widths_leave_the_pool_the_narrow_ones() -> None:
    """Efficient cores come first here, and one of them is enough for the pool."""
    options = (FULL_PCPUS_ONLY, STRICT_CPU_RESERVATION)
    world = imagined(State(), replace(MACHINES["kinds"], isolated=EMPTY), static(options=options), {})
    assert room_in(world, world.state).spare(by_cores=True) == cpus("1-2,4-7")
    assert capacity(world) == 6


@pytest.mark.parametrize(
    ("keep", "keeps_core", "asked", "said"),
    [
        (1, False, "0-7", "asked for 8 exclusive CPUs; 8 CPUs are shared, and 1 must stay shared; 7 would fit"),
        (3, False, "0-5", "asked for 6 exclusive CPUs; 8 CPUs are shared, and 3 must stay shared; 5 would fit"),
        (
            1,
            True,
            "0-3",
            "asked for 4 exclusive CPUs; 8 CPUs are shared, and a whole core must stay shared; 3 would fit",
        ),
        (
            1,
            True,
            "0-7",
            "asked for 8 exclusive CPUs; 8 CPUs are shared, and a whole core must stay shared; 6 would fit",
        ),
        (
            3,
            True,
            "0-5",
            (
                "asked for 6 exclusive CPUs; 8 CPUs are shared, "
                "and 3 with a whole core among them must stay shared; 5 would fit"
            ),
        ),
        (3, True, "0-2,4-6", "asked for 6 exclusive CPUs; 8 CPUs are shared, and 3 must stay shared; 4 would fit"),
        (9, False, "0", "asked for 1 exclusive CPU; 8 CPUs are shared, and 9 must stay shared"),
    ],
)
def test_an_objection_says_what_would_fit_and_that_would(keep: int, keeps_core: bool, asked: str, said: str) -> None:
    """Of the requested CPUs, as many as may be granted."""
    cores = uniform(cores=4, threads=2).cores
    room = Room(shared=cpus("0-7"), cores=cores, full_cores=cores, keep=keep, keeps_core=keeps_core)
    objection = room.objection(cpus(asked))
    assert told(objection) == (RefusalCode.POOL_WOULD_BE_EMPTY, said)


def test_a_large_machine_is_counted_without_trying() -> None:
    """A thousand CPUs, by whole cores, of which the pool keeps many: each status needs this number."""
    options = (FULL_PCPUS_ONLY, STRICT_CPU_RESERVATION)
    world = imagined(State(), uniform(cores=512, threads=2), static(options=options, shared_min=64), {})
    assert free(world) == 958
