"""The policy `static`: the kubelet's rules. Exclusive CPUs for as long as the container stands, nobody is ever moved.

1. A grant ends when its container is gone, or has not run for as long as it may linger.
2. A refusal ends when its container stops: its next start asks anew.
3. Who asks, is granted or refused, in the order of arrival; but a container that already runs on CPUs that it may
   lawfully hold keeps them, and is served first (it ran before the sidecar did).
4. Who was refused and chose to wait, is tried again whenever CPUs are free.
"""

from __future__ import annotations

from sidecar.decide.books.grants import (
    askers,
    departures,
    fallen_short,
    keeps,
    misunderstood,
    place,
    unless_only_told_anew,
)
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.world import World
from state.cpuset import CPUSet
from state.model import State


class StaticPolicy:
    """Whole CPUs, granted once and kept."""

    name = "static"

    def settle(self, world: World) -> State:
        """The books after the four rules above."""
        # 1. and 2.
        state = departures(world)
        # 3. and 4.
        for container in askers(world, state):
            state = _answer(world, state, container)
        return unless_only_told_anew(world.state, state)

    def desired(self, world: World, container: Container) -> CPUSet | None:
        """Its grant, or the shared pool."""
        if container.wish.standing is not Standing.MANAGED:
            return None
        assignment = world.state.assignments.get(container.view.key)
        return assignment.cpus if assignment else world.state.shared


def _answer(world: World, state: State, container: Container) -> State:
    demand = container.wish.demand
    if demand is None:
        return misunderstood(state, container)
    # 3. What it has, if it may keep it.
    if keeps(world, state, container):
        return state.granted(demand, container.place.seen)
    found = place(world, state, demand, demand.cpus)
    return state.granted(demand, found) if isinstance(found, CPUSet) else fallen_short(state, demand, found)
