"""Fold news into the world: what a look says of a container, who is gone, and a machine or settings that changed.

`restore` carries books over to a machine or settings that they were not made for, as far as that is lawful, and says
what it had to change. Nobody has to delete a file.
"""

from __future__ import annotations

from sidecar.decide.container.originals import cpus_of, originals_of
from sidecar.decide.container.terms import terms_of
from sidecar.decide.container.wish import wish_of
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.options import STRICT_CPU_RESERVATION
from sidecar.decide.placement.beside import beside
from sidecar.decide.placement.packed import packed
from sidecar.decide.placement.preferences import around
from sidecar.decide.placement.reserve import reserve
from sidecar.decide.world import Container, IsolatedRule, PolicyName, Settings, Wish, World, replace
from state.cpuset import EMPTY, CPUSet, union
from state.model import Assignment, Refused, State
from state.refusal import Lost, Refusal, RefusalCode
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
    state, notes = restore(world.state, world.topology, settings, world.strangers)
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


def restore(
    state: State, topology: Topology, settings: Settings, strangers: CPUSet = EMPTY
) -> tuple[State, tuple[str, ...]]:
    """Books that are lawful on this machine under these settings, and what had to change, as sentences.

    Replacements are never taken from `strangers`, the CPUs of containers pinned by hand.

    1. Under the policy none the books stand still, but for the machine.
    2. The reservation is the settings'; it wins over grants.
    3. In the order of the grants, each keeps what it lawfully can, and gets the nearest replacement for the rest.
    4. A grant that cannot be made whole, or that would leave no shared pool, becomes a refusal.
    """
    fitted = replace(state, policy=settings.policy.value, online=topology.online)
    # 1. Nobody decides anything.
    if settings.policy is PolicyName.NONE:
        return fitted, ()
    # 2. The reservation.
    fitted = replace(
        fitted,
        reserved=reserve(topology, settings, fitted),
        strict=STRICT_CPU_RESERVATION in settings.options,
        isolated=EMPTY if settings.isolated is IsolatedRule.IGNORE else topology.isolated,
        assignments={},
    )
    notes = []
    # 3. Grant by grant.
    for assignment in sorted(state.assignments.values(), key=lambda each: each.since):
        kept = _kept(fitted, settings, topology, assignment)
        later = _wanted_later(state, assignment)
        options = terms_of(settings, assignment.demand).options
        free = fitted.assignable - strangers - kept
        sizes = _sizes(settings, assignment)
        extra: CPUSet | None = None
        # What others hold is taken for no more than the fewest that it may have.
        for wanted, source in (*((size, free - later) for size in sizes), (sizes[-1], free)):
            extra = _replacement(topology, source, kept, wanted - len(kept), options) if extra is None else extra
        # 4. Whole, or not at all.
        if extra is None or not len(fitted.shared - kept - extra) >= max(1, settings.shared_min):
            reason = f"it held CPUs {assignment.cpus}, and the machine no longer has {assignment.demand.cpus} for it"
            notes.append(f"{assignment.name} lost its exclusive CPUs: {reason}")
            fitted = fitted.refused(
                Refused(
                    container=assignment.container,
                    name=assignment.name,
                    refusal=Refusal(RefusalCode.CPUS_LOST, Lost(assignment.cpus, assignment.demand.cpus)),
                    demand=assignment.demand,
                )
            )
            continue
        if kept | extra != assignment.cpus:
            notes.append(f"{assignment.name} moved from CPUs {assignment.cpus} to {kept | extra}")
        fitted = fitted.holding(_refitted(topology, settings, assignment, kept | extra))
    return fitted, tuple(notes)


def _sizes(settings: Settings, assignment: Assignment) -> tuple[int, ...]:
    """How many CPUs a grant should have now, and how few it may have: as many as it asked for, or, under `dynamic`, as
    many as it had, and its floor.
    """
    demand = assignment.demand
    if settings.policy is not PolicyName.DYNAMIC:
        return (demand.cpus,)
    return (min(max(len(assignment.cpus), demand.floor), demand.ceiling), demand.floor)


def _kept(fitted: State, settings: Settings, topology: Topology, assignment: Assignment) -> CPUSet:
    """What a grant keeps of what it has: no more than it should have, its original set first."""
    kept, most = assignment.cpus & fitted.assignable, _sizes(settings, assignment)[0]
    first = assignment.original & kept
    if len(kept) <= most:
        return kept
    if len(first) >= most:
        return packed(topology, first, most) or first
    return first | (packed(topology, kept - first, most - len(first)) or EMPTY)


def _refitted(topology: Topology, settings: Settings, assignment: Assignment, cpus: CPUSet) -> Assignment:
    """The grant on these CPUs. Under `dynamic` its original set is as large as its floor, and layers hold the rest."""
    original, leaving = assignment.original & cpus, assignment.leaving
    if settings.policy is not PolicyName.DYNAMIC:
        return replace(assignment, cpus=cpus, original=original or cpus, layers=(), leaving=None, cooling=None)
    size = assignment.demand.floor
    if len(original) > size:
        original = packed(topology, original, size) or original
    elif len(original) < size:
        original |= beside(topology, around(topology, cpus - original, original), size - len(original), ())
    layers = tuple(part for layer in assignment.layers if (part := (layer & cpus) - original))
    if rest := cpus - original - union(layers):
        layers = (rest, *layers)
    # What is lost here is gone, or not fit to be held; whoever still runs there has no notice.
    left = leaving.within(topology.online - cpus) if leaving else None
    return replace(assignment, cpus=cpus, original=original, layers=layers, leaving=left)


def _wanted_later(state: State, assignment: Assignment) -> CPUSet:
    """CPUs that grants after this one hold: a replacement is not taken from them while there is any other."""
    return union(each.cpus for each in state.assignments.values() if each.since > assignment.since)


def _replacement(
    topology: Topology, available: CPUSet, kept: CPUSet, count: int, options: tuple[str, ...]
) -> CPUSet | None:
    """`count` replacements, as near to what is kept as can be had; None where there are not so many."""
    if count > len(available):
        return None
    return beside(topology, around(topology, available, kept), count, options)
