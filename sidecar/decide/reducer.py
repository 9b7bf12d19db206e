"""step(world, facts): fold what happened into the world, then decide once. The one door to all decisions.

1. Each fact changes what is known; an outcome also asks for a look or a read where it leaves doubt.
2. The policy settles the books.
3. The plan gives the orders that are possible now.

A burst of facts is folded before anything is decided, so that ten arrivals make one decision. The same world and facts
always give the same world and orders: a journal of bursts replays every decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from sidecar.decide.container.originals import cpus_of
from sidecar.decide.facts import (
    ContainerRemoved,
    ContainerSeen,
    ContainerView,
    CpusetApplied,
    CpusetFailed,
    DefragmentRequested,
    EngineConnected,
    EngineDisconnected,
    Fact,
    Failure,
    InventoryTaken,
    LoadMeasured,
    OrderDelayed,
    ReleaseRequested,
    ResizeRequested,
    RetryDue,
    SettingsChanged,
    StartHeld,
    StartLetGo,
    StopFailed,
    TakeAcknowledged,
    TimerEnded,
    TopologyRead,
)
from sidecar.decide.loads import with_loads
from sidecar.decide.orders import LookAgain, Order, ReadTopology
from sidecar.decide.plan import plan
from sidecar.decide.policies.registry import policy_named
from sidecar.decide.reconcile import believed, counted, differs, sighted, with_settings, with_topology
from sidecar.decide.release import after_release, start_releasing
from sidecar.decide.resizing import after_resize
from sidecar.decide.starting import after_hold, after_letting_go
from sidecar.decide.takes import after_acknowledgement, after_timer
from sidecar.decide.world import Container, Settings, World, replace
from state.codec import convert
from state.cpuset import CPUSet


def step(world: World, facts: Sequence[Fact]) -> tuple[World, tuple[Order, ...]]:
    """The world after a burst of facts, and what to do now."""
    # 1. What is known.
    doubts: list[Order] = []
    for fact in facts:
        world, asked = _fold(world, fact)
        doubts += asked
    # 2. The books.
    if world.is_ready and not world.is_releasing:
        state = policy_named(world.settings.policy).settle(world)
        if state is not world.state or world.is_defragmenting:
            world = replace(world, state=state, is_defragmenting=False)
    # 3. What is possible now.
    world, orders = plan(world)
    return world, (*orders, *dict.fromkeys(doubts))


def _fold(world: World, fact: Fact) -> tuple[World, tuple[Order, ...]]:
    match fact:
        case ContainerSeen():
            return _seen(world, fact.view, fact.began)
        case ContainerRemoved():
            container = world.containers.get(fact.container)
            if container is None or container.known < fact.began:
                return world.without_container(fact.container, fact.began), ()
            # Old news, but an order may just have been answered after the removal: nobody else would tell.
            return world, (LookAgain(fact.container),)
        case InventoryTaken():
            doubts: list[Order] = []
            for view in fact.seen:
                world, asked = _seen(world, view, fact.began)
                doubts += asked
                if view.id not in world.containers and not world.is_ready:
                    world = believed(world, view, fact.began)
            return counted(world, fact.gone, fact.began), tuple(doubts)
        case CpusetApplied():
            return _applied(world, fact)
        case CpusetFailed():
            return _failed(world, fact)
        case OrderDelayed():
            container = _outstanding(world, fact.container, fact.order)
            return world.with_container(replace(container, is_delayed=True)) if container else world, ()
        case RetryDue():
            container = world.containers.get(fact.container)
            return world.with_container(replace(container, waits=False, refused=None)) if container else world, ()
        case TimerEnded():
            return after_timer(world, fact), ()
        case TakeAcknowledged():
            return after_acknowledgement(world, fact), ()
        case LoadMeasured():
            return with_loads(world, fact.loads), ()
        case ResizeRequested():
            return after_resize(world, fact), ()
        case DefragmentRequested():
            return replace(world, is_defragmenting=world.is_ready), ()
        case StartHeld():
            return after_hold(world, fact), ()
        case StartLetGo():
            return after_letting_go(world, fact), (LookAgain(fact.container),)
        case StopFailed():
            container = world.containers.get(fact.container)
            return world.with_container(replace(container, trouble=fact.reason)) if container else world, ()
        case EngineConnected():
            return replace(world, engine=fact.engine, is_ready=False), ()
        case EngineDisconnected():
            return replace(world, is_ready=False), ()
        case TopologyRead():
            changed = with_topology(world, fact.topology)
            return changed, () if changed is world else tuple(LookAgain(id) for id in changed.containers)
        case SettingsChanged():
            return with_settings(world, convert(fact.settings, Settings)), ()
        case ReleaseRequested():
            return start_releasing(world), ()
    assert_never(fact)


def _seen(world: World, view: ContainerView, began: int) -> tuple[World, tuple[Order, ...]]:
    """The world after a look. One that is old news, and says something else, may still hold news that nobody else will
    tell (a start, while an order was being answered): then a fresh one is due.
    """
    after = sighted(world, view, began)
    is_old_news = after is world
    return after, (LookAgain(view.id),) if is_old_news and differs(world, view) else ()


def _outstanding(world: World, id: str, number: int) -> Container | None:
    """The container that this outcome is about, if it is the outcome that it waits for."""
    container = world.containers.get(id)
    return container if container and container.pending and container.pending.number == number else None


def _applied(world: World, fact: CpusetApplied) -> tuple[World, tuple[Order, ...]]:
    container = _outstanding(world, fact.container, fact.order)
    if container is None or container.pending is None:
        return world, ()
    cpus = container.pending.update.cpus
    is_contradicted = container.was_looked_at and not container.configured == cpus == container.seen
    # An order that waited for a start to end tells of no start.
    may_run = container.is_strict and container.is_idle
    doubts = (container.seen | container.configured,) if is_contradicted else ()
    made = replace(
        _configured(container, fact.effective),
        seen=fact.effective or cpus,
        doubts=(*doubts, cpus) if may_run else doubts,
        is_lost=False,
        trouble="",
        failure=None,
        refused=None,
        known=fact.ended,
    )
    originals = world.state.originals.get(fact.container)
    if originals and container.pending.update.nano_cpus == originals.nano_cpus:
        world = replace(world, state=world.state.put_back(fact.container))
    world = after_release(world.with_container(made), fact.container)
    return world, (LookAgain(fact.container),) if is_contradicted or may_run else ()


def _configured(container: Container, effective: CPUSet | None) -> Container:
    """The container with its pending update in the engine's configuration, and what the kernel said afterwards."""
    if container.pending is None:
        return container
    update, view = container.pending.update, container.view
    view = replace(
        view,
        cpuset=str(update.cpus),
        effective=effective,
        nano_cpus=view.nano_cpus if update.nano_cpus is None else update.nano_cpus,
        cpu_quota=view.cpu_quota if update.cpu_quota is None else update.cpu_quota,
        mems=view.mems if update.mems is None else update.mems,
    )
    return replace(container, view=view, configured=update.cpus, pending=None)


def _failed(world: World, fact: CpusetFailed) -> tuple[World, tuple[Order, ...]]:
    container = _outstanding(world, fact.container, fact.order)
    if container is None or container.pending is None:
        return world, ()
    update, told = container.pending.update, container.pending.update.cpus
    # Whatever was wrong, its CPUs are not to fail again for its memory.
    keeps_mems = container.keeps_mems or update.mems is not None
    ended = replace(
        container,
        pending=None,
        waits=True,
        trouble=fact.reason,
        failure=fact.failure,
        known=fact.ended,
        keeps_mems=keeps_mems,
    )
    look = (LookAgain(fact.container),)
    match fact.failure:
        case Failure.GONE:
            return world.without_container(fact.container, fact.ended), ()
        case Failure.REFUSED:
            kept = replace(ended, refused=update, waits=False)
            return world.with_container(kept), (ReadTopology(), *look)
        case Failure.FAILED:
            return world.with_container(replace(ended, doubts=_also(container.doubts, told))), look
        case Failure.LOST:
            return world.with_container(replace(ended, doubts=_also(container.doubts, told), is_lost=True)), look
        case Failure.INEFFECTIVE:
            seen = fact.effective or cpus_of(container.view.cpuset, world.state.online)
            made = replace(
                _configured(container, fact.effective),
                pending=None,
                waits=True,
                trouble=fact.reason,
                failure=fact.failure,
                known=fact.ended,
            )
            return world.with_container(replace(made, seen=seen, doubts=(), is_lost=False)), ()
    assert_never(fact.failure)


def _also(doubts: tuple[CPUSet, ...], told: CPUSet) -> tuple[CPUSet, ...]:
    return doubts if told in doubts else (*doubts, told)
