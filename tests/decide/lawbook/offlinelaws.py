"""The laws of CPUs that are offline: nothing is refused for good that could be served with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sidecar.decide.books.grants import ask_of, bounds, options_of
from sidecar.decide.books.room import room_in
from sidecar.decide.placement.choose import choose
from sidecar.decide.placement.options import STRICT_CPU_RESERVATION
from sidecar.decide.placement.reserve import counted, reserve
from sidecar.decide.placement.whole_cores import unit_of
from sidecar.decide.settings import IsolatedRule
from sidecar.decide.world import World, replace
from state.cpuset import EMPTY, CPUSet
from state.demand import Demand
from state.model import Refused, State
from state.refusal import Asked
from tests.support.decide.reality import Reality
from tests.support.laws import Law


def refused_for_good(reality: Reality) -> Iterator[str]:
    """Yield what the last burst refused for good, though it could be served if all CPUs of the machine were online."""
    for refused, detail in _new(reality):
        demand = refused.demand
        if demand is not None and detail.is_final and (count := _served(_whole(reality), demand)):
            yield f"{refused.name} is refused for good, and could have {count} of {reality.machine.online}"


def offline_for_nothing(reality: Reality) -> Iterator[str]:
    """Yield refusals of the last burst that name CPUs as offline which are not."""
    offline = reality.world.topology.offline
    for refused, detail in _new(reality):
        if wrong := detail.offline - offline:
            yield f"{refused.name} is told that {wrong} are offline, and {offline} are"


def _new(reality: Reality) -> Iterator[tuple[Refused, Asked]]:
    """Yield what the last burst refused, with the facts. A refusal that stands is of an earlier machine or setting."""
    before = reality.planned_from.state.refusals
    for key, refused in reality.world.state.refusals.items():
        was, detail = before.get(key), refused.refusal.detail
        if isinstance(detail, Asked) and (was is None or was.refusal != refused.refusal):
            yield refused, detail


def _whole(reality: Reality) -> World:
    """Return the world with all CPUs of its machine online, and without any container."""
    world, machine = reality.world, reality.machine
    settings = world.settings
    bare = State(
        policy=world.state.policy,
        online=machine.online,
        counted=counted(machine, settings, world.state),
        reserved=reserve(machine, settings, replace(world.state, assignments={})),
        strict=STRICT_CPU_RESERVATION in settings.options,
        isolated=EMPTY if settings.isolated is IsolatedRule.IGNORE else machine.isolated,
    )
    return World(state=bare, topology=machine, settings=settings)


def _served(world: World, demand: Demand) -> int:
    """Return the fewest CPUs that this world could grant to a demand; 0 for none. Under full-pcpus-only a number that
    does not come to whole cores is refused for that.
    """
    if demand.cpus % unit_of(world.topology, options_of(world, demand)):
        return 0
    least, most = bounds(world, demand)
    accept = room_in(world, world.state).objection
    for count in range(least, most + 1):
        found = choose(world.topology, world.state.assignable, ask_of(world, demand, count), accept=accept)
        if isinstance(found, CPUSet):
            return count
    return 0


FOR_GOOD: Final = Law("nothing is refused for good that all CPUs of the machine could serve", refused_for_good)
OFFLINE: Final = Law("a refusal names as offline what is offline", offline_for_nothing)

LAWS: Final[tuple[Law[Reality], ...]] = (FOR_GOOD, OFFLINE)
