"""Fold a machine or settings that changed into the world.

`restore` carries books over to a machine or settings that they were not made for, as far as that is lawful, and says
what it had to change. Nobody has to delete a file.
"""

from __future__ import annotations

from sidecar.decide.container.machine import after
from sidecar.decide.container.news import WishRead
from sidecar.decide.options import STRICT_CPU_RESERVATION
from sidecar.decide.placement.beside import beside
from sidecar.decide.placement.packed import packed
from sidecar.decide.placement.preferences import around
from sidecar.decide.placement.reserve import reserve
from sidecar.decide.settings import IsolatedRule, PolicyName, Settings
from sidecar.decide.sightings import wished_anew
from sidecar.decide.world import World, replace
from state.cpuset import EMPTY, CPUSet, union
from state.model import Assignment, Refusal, RefusalCode, State
from state.topology import Topology


def begin(state: State, topology: Topology, settings: Settings) -> World:
    """The world at the start of the daemon: the books from the checkpoint, fitted to this machine and settings."""
    return with_settings(World(state=state, topology=topology, settings=settings), settings)


def with_settings(world: World, settings: Settings) -> World:
    """The world under other settings: the books fitted, and everybody's wish read again."""
    state, notes = restore(world.state, world.topology, settings, world.strangers)
    world = replace(world, state=state, settings=settings, notes=notes)
    containers = {
        id: after(container, WishRead(wished_anew(world, container))) for id, container in world.containers.items()
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
        options = settings.options if assignment.demand.options is None else assignment.demand.options
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
                Refusal(
                    container=assignment.container,
                    name=assignment.name,
                    code=RefusalCode.CPUS_LOST,
                    reason=reason,
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
