"""Fold news into the world: what a look says of a container, who is gone, and a machine or settings that changed."""

from __future__ import annotations

from sidecar.decide.books.refit import refit
from sidecar.decide.container.originals import cpus_of, originals_of
from sidecar.decide.container.wish import wish_of
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.world import Container, Settings, Wish, World, replace
from state.model import State
from state.topology import Topology


def sighted(world: World, view: ContainerView, began: int) -> World:
    """The world after a look at one container; the same world if the look is old news, or a mere glance at one that is
    known.
    """
    before = world.containers.get(view.id)
    if began <= (before.known if before else world.horizon) or (before and view.is_glance):
        return world
    online = world.state.online
    configured = cpus_of(view.cpuset, online)
    seen = view.effective if view.phase.is_live and view.effective else configured & online or online
    if view.forgets_updates and view.phase.is_live:
        # Its engine says what it was made with, not what is in force.
        configured = seen
    if before is None:
        container = Container(
            view=view,
            wish=_wish(world, view),
            arrival=world.numbers,
            known=began,
            seen=seen,
            configured=configured,
        )
        return replace(world.with_container(container), numbers=world.numbers + 1)
    # An order without effect has come to have it.
    is_made_good = seen == configured == before.configured != before.seen
    is_same_run = before.view.phase.is_live == view.phase.is_live and before.view.started_at == view.started_at
    container = replace(
        before,
        view=view,
        wish=before.wish if _wishes_the_same(before.view, view) else _wish(world, view, before.view),
        known=began,
        seen=seen,
        configured=configured,
        was_looked_at=before.pending is not None,
        doubts=before.doubts if before.is_lost else (),
        linger=before.linger if _lingers(view) else None,
        has_lingered=before.has_lingered and _lingers(view),
        refused=before.refused if is_same_run else None,
        trouble="" if is_made_good else before.trouble,
        failure=None if is_made_good else before.failure,
    )
    return world.with_container(container)


def _wishes_the_same(before: ContainerView, view: ContainerView) -> bool:
    """Whether nothing changed of what a wish is read from: labels and limits of its first look, and by renaming and
    restarting its name and the group that it is in.
    """
    is_sure = not (before.is_glance or before.in_shared_group or view.in_shared_group)
    return is_sure and before.name == view.name


def believed(world: World, view: ContainerView, began: int) -> World:
    """The world with a container that an inventory saw, though somebody was removed since, and it may have been this.

    Until a fresh look says, it is there: a container that is there and not known would lose its books, and would be in
    nobody's way.
    """
    return replace(sighted(replace(world, horizon=began - 1), view, began), horizon=world.horizon)


def _lingers(view: ContainerView) -> bool:
    """Whether a container in this phase waits for a start that may never come."""
    return not view.phase.is_live and view.phase is not Phase.RESTARTING


def _wish(world: World, view: ContainerView, before: ContainerView | None = None) -> Wish:
    """What it is; a cpuset that it has not had `before` is somebody's change, and no setting of its own."""
    first = view if before is None or before.is_glance else before
    originals = world.state.originals.get(view.id) or originals_of(first)
    return wish_of(view, world.settings, originals, world.state.online, world.topology.devices)


def differs(world: World, view: ContainerView) -> bool:
    """Whether a look says anything that the world does not know yet."""
    known = world.containers.get(view.id)
    if known is not None and view.is_glance:
        return False
    return known is None or known.view != view or known.doubts != ()


def counted(world: World, gone: tuple[str, ...], began: int) -> World:
    """The world after an inventory: who was not in it, and is not newer than it, no longer exists."""
    for id in gone:
        container = world.containers.get(id)
        if container is None or container.known < began:
            world = world.without_container(id, began)
    for id in sorted({*world.state.assignments, *world.state.refusals, *world.state.originals} - set(world.containers)):
        world = replace(world, state=world.state.forgetting(id))
    return replace(world, is_ready=True, horizon=max(world.horizon, began))


def begin(state: State, topology: Topology, settings: Settings) -> World:
    """The world at the start of the daemon: the books from the checkpoint, fitted to this machine and settings."""
    return with_settings(World(state=state, topology=topology, settings=settings), settings)


def with_settings(world: World, settings: Settings) -> World:
    """The world under other settings: the books fitted, and everybody's wish read again."""
    state, notes = refit(world.state, world.topology, settings, world.strangers)
    world = replace(world, state=state, settings=settings, notes=notes)
    containers = {
        id: replace(container, wish=_wish(world, container.view), refused=None, keeps_mems=False)
        for id, container in world.containers.items()
    }
    return replace(world, containers=containers)


def with_topology(world: World, topology: Topology) -> World:
    """The world on a machine whose CPUs came or went. What the engine refused before may be asked again."""
    if topology == world.topology:
        return world
    return with_settings(replace(world, topology=topology), world.settings)
