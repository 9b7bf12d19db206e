"""Signals to workloads that ask for one at each change, and stops of containers that prefer to stop than to share.

A stop is ordered once per start, and again after it failed: the executor reports a failure only after a pause.

Only this module and the removal of a container write `World.signalled` and `World.stops`.
"""

from __future__ import annotations

from sidecar.decide.books.takes import held
from sidecar.decide.container.container import Container
from sidecar.decide.container.machine import after
from sidecar.decide.container.news import NotStopped
from sidecar.decide.facts import StopFailed
from sidecar.decide.orders import SendSignal, StopContainer
from sidecar.decide.world import Told, World, replace, without
from state.cpuset import EMPTY
from state.demand import Shortage
from state.model import Assignment
from state.refusal import RefusalCode


def signals(world: World) -> tuple[World, tuple[SendSignal, ...]]:
    """Return the world and a signal for each change in what is reported to a workload. The first report, once it runs
    where it should, causes no signal.
    """
    orders: list[SendSignal] = []
    signalled = dict(world.signalled)
    for key, assignment in sorted(world.state.assignments.items(), key=lambda item: item[1].since):
        if not assignment.demand.signal or world.is_absent(key):
            continue
        container = world.containers[key]
        if container.is_idle:
            signalled.pop(key, None)
            continue
        told = told_of(container, assignment)
        if not told.cpus or told == signalled.get(key):
            continue
        if key in signalled:
            orders.append(SendSignal(key, assignment.demand.signal))
        elif container.place.seen != held(assignment, container):
            continue
        signalled[key] = told
    return (world if signalled == world.signalled else replace(world, signalled=signalled)), tuple(orders)


def stops(world: World) -> tuple[World, tuple[StopContainer, ...]]:
    """Return the world and an order to stop each live container that was refused and asks for that, unless one is
    outstanding for its present start.
    """
    orders: list[StopContainer] = []
    for key, refused in world.state.refusals.items():
        container = world.containers.get(key)
        if refused.demand is None or refused.demand.shortage is not Shortage.STOP or container is None:
            continue
        if container.is_disputed or world.is_absent(key) or refused.refusal.code is RefusalCode.AWAITS_PLACE:
            # A container that awaits its place is about to replace another one.
            continue
        if not container.is_idle and world.stops.get(key) != container.view.started_at:
            orders.append(StopContainer(key, refused.refusal))
            world = replace(world, stops={**world.stops, key: container.view.started_at})
    return world, tuple(orders)


def after_failed_stop(world: World, fact: StopFailed) -> World:
    """Return the world after a stop failed: it is ordered again if the container still runs and is still refused."""
    container = world.containers.get(fact.container)
    if container is None:
        return world
    known = world.with_container(after(container, NotStopped(fact.reason)))
    return replace(known, stops=without(known.stops, fact.container))


def told_of(container: Container, assignment: Assignment) -> Told:
    """Return what is reported to the workload: the CPUs in force, and those of them that are leaving."""
    sure = container.sure
    return Told(sure, assignment.leaving.cpus & sure if assignment.leaving else EMPTY)
