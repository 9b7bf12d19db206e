"""The policy `static`: the kubelet's rules. A container keeps its exclusive CPUs as long as it exists; none is moved.

1. A grant ends when its container is gone, or has been idle for longer than it may linger.
2. A refusal is reconsidered at each start of its container, and while it is in the queue (`queue`).
3. Demands are granted or refused in the order of the queue. A container that already runs on CPUs that it may hold
   keeps them, and is served first, because it ran before the sidecar did.
4. A container that replaces another one takes over its CPUs (`vacancies`).
"""

from __future__ import annotations

from sidecar.decide.books.grants import (
    departures,
    keeps,
    never,
    place,
    unless_only_told_anew,
    with_neighbours,
)
from sidecar.decide.books.pinned import off_the_pinned
from sidecar.decide.books.vacancies import answered
from sidecar.decide.books.would_fit import with_what_fits
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.world import World
from state.cpuset import CPUSet
from state.demand import Demand
from state.model import State
from state.refusal import Refusal


class StaticPolicy:
    """Whole CPUs, granted once and kept."""

    name = "static"

    def settle(self, world: World, last: World | None = None) -> State:
        """Return the State after the four rules above."""
        # 1.
        state = off_the_pinned(world, departures(world))
        # 2. to 4.
        state = answered(world, state, _answer, last)
        state = with_neighbours(world, state, lambda same: same)
        return unless_only_told_anew(world.state, state)

    def desired(self, world: World, container: Container) -> CPUSet | None:
        """Return its grant, or the vacated part of the pool; None for a container that the sidecar does not place."""
        if container.wish.standing is not Standing.MANAGED:
            return None
        assignment = world.state.assignments.get(container.view.key)
        return assignment.cpus if assignment else world.pool_for(container, world.state.vacated)


def _answer(world: World, state: State, container: Container, demand: Demand) -> State | Refusal:
    # 3. The CPUs that it has, if it may hold them.
    if keeps(world, state, container):
        return state.granted(demand, container.place.seen)
    found = place(world, state, demand, demand.cpus)
    if isinstance(found, CPUSet):
        return state.granted(demand, found)
    return never(world, state, demand, demand.cpus) or with_what_fits(world, state, demand, found)
