"""What changed between two worlds, as log lines for people: which containers gained CPUs, lost them or were refused.

Pure: worlds in, lines out. Each change is logged once; lasting conditions are shown in the status document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from sidecar.decide.books.clashes import clashes
from sidecar.decide.books.give_up import refused_now
from sidecar.decide.books.queue import overtakers
from sidecar.decide.books.takes import is_inert
from sidecar.decide.container.mounts import is_single_file_mount
from sidecar.decide.facts import Phase
from sidecar.decide.moves.timers import notice_of
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import Note, World
from sidecar.log import LogLevel
from sidecar.natural_order import natural
from sidecar.words.causes import why
from sidecar.words.counts import some
from sidecar.words.refusals import harmless, warnings
from sidecar.words.refused_text import why_refused
from sidecar.words.repairs import noted
from sidecar.words.units import noun
from state.cpuset import union
from state.leaving import Batch, Leaving
from state.model import Assignment, Move, Refused, State
from state.refusal import NAMES
from state.renaming import nameless


class Line(msgspec.Struct, frozen=True):
    """One line of the log."""

    level: LogLevel
    message: str
    fields: dict[str, object]


def news(before: World, now: World) -> Iterator[Line]:
    """Yield the lines for the changes from one world to a later one."""
    if before.state is not now.state:
        yield from _books(before, now)
    if before.containers is not now.containers:
        yield from _warnings(before, now)
    if before.containers is not now.containers or before.state is not now.state:
        yield from _clashes(before, now)
    told = before.engine.notes if before.engine else ()
    for note in now.engine.notes if now.engine else ():
        if note not in told:
            yield Line(LogLevel.WARNING, "engine limitation", {"note": note})
    known = {(each.held, each.holds, each.refusal) for each in before.notes}
    # Without the name: a note about a container that was renamed is none that is new.
    yield from repairs(each for each in now.notes if (each.held, each.holds, each.refusal) not in known)


def at_start(recorded: State, begun: World) -> Iterator[Line]:
    """Yield the lines for what the daemon's start changed in the recorded State, and the takes that begin with it."""
    yield from repairs(begun.notes)
    for key, now in begun.state.assignments.items():
        if was := recorded.assignments.get(key):
            yield from _begun_takes(begun, was, now)


def repairs(notes: Iterable[Note]) -> Iterator[Line]:
    """Yield the lines for what a repair of the recorded grants changed."""
    message = "the recorded grants were adapted to this machine and configuration"
    for note in notes:
        yield Line(LogLevel.WARNING, message, {"note": noted(note)})


def _books(before: World, now: World) -> Iterator[Line]:
    old, new = before.state, now.state
    # First what makes room for others.
    for key, assignment in old.assignments.items():
        if key not in new.assignments:
            yield Line(LogLevel.INFO, "released", {noun(key): assignment.name, "cpus": assignment.cpus})
    for key, assignment in new.assignments.items():
        was = old.assignments.get(key)
        if was is None:
            fields: dict[str, object] = {noun(assignment.container): assignment.name, "cpus": assignment.cpus}
            if passed := _passed(before, now, assignment):
                fields["ahead_of"] = passed
            yield Line(LogLevel.INFO, "granted", fields)
        elif was is not assignment:
            yield from _changes(was, assignment)
            yield from _takes(before, now, was, assignment)
    for refused in new_refusals(before, now):
        why_not = why_refused(now, refused)
        yield Line(LogLevel.WARNING, "refused", {noun(refused.container): refused.name, "reason": why_not})


def _passed(before: World, now: World, granted: Assignment) -> str:
    """Return the names of the containers that waited longer than a new grant's and still wait; "" for none."""
    earlier = [now.state.refusals[key] for key in before.queue if key in now.state.refusals]
    names = sorted((each.name for each in earlier if granted in overtakers(now.state, each)), key=natural)
    return some(names[:NAMES], of=len(names))


def new_refusals(before: World, now: World) -> Iterator[Refused]:
    """Yield the refusals that are new between two worlds. Other holders of the same CPUs do not make one new; another
    start does, unless it is the first one of a container that was refused when it was created. So does a request after
    none, of a container whose CPUs people released.
    """
    for key in now.state.refusals:
        was, refused, container = refused_now(before, key), refused_now(now, key), before.containers.get(key)
        if refused is None:
            continue
        had_started = container is not None and container.view.phase is not Phase.CREATED
        is_same = was is not None and was.demand == refused.demand and was.refusal.is_like(refused.refusal)
        if refused.released_at and was and was.released_at == refused.released_at:
            # A start that was not seen before the release is none after it.
            continue
        if was is None or not is_same or (had_started and was.started_at != refused.started_at):
            yield refused


def _changes(was: Assignment, now: Assignment) -> Iterator[Line]:
    """Yield what a grant gained and lost, with the reason; a repair that moved it has none."""
    moves = new_moves(was, now)
    if was.cpus == now.cpus and not moves:
        return
    for move in moves:
        fields: dict[str, object] = {noun(now.container): now.name, "reason": why(move.cause)}
        if move.gained and move.lost:
            yield Line(LogLevel.INFO, "exchanged", {**fields, "from": move.lost, "to": move.gained})
        elif move.gained:
            yield Line(LogLevel.INFO, "grew", {**fields, "cpus": move.gained})
        else:
            yield Line(LogLevel.INFO, "shrank", {**fields, "cpus": move.lost})
    if not moves:
        yield Line(LogLevel.INFO, "moved", {noun(now.container): now.name, "from": was.cpus, "to": now.cpus})


def new_moves(was: Assignment, now: Assignment) -> tuple[Move, ...]:
    """Return the moves of the later grant that the earlier one does not have, as far as they are recorded. A container
    that was renamed since has its new name in the later one.
    """
    before, after = _nameless(was.moves), _nameless(now.moves)
    for kept in range(len(after), 0, -1):
        if before[-kept:] == after[:kept]:
            return now.moves[kept:]
    return now.moves


def _nameless(moves: tuple[Move, ...]) -> list[Move]:
    return [msgspec.structs.replace(move, cause=nameless(move.cause)) for move in moves]


def _takes(before: World, world: World, was: Assignment, now: Assignment) -> Iterator[Line]:
    """Yield the progress of takes: started, acknowledged, forced, called off, finished; or broken off, by a policy that
    gives no notice.
    """
    old, new = was.leaving, now.leaving
    yield from _begun_takes(world, was, now)
    if old and (ended := _ended(old, now)):
        if now.forced > was.forced:
            message = "take forced: the workload did not acknowledge in time"
            yield Line(LogLevel.WARNING, message, _take(now, ended))
        elif world.state.acknowledged > before.state.acknowledged:
            yield Line(LogLevel.INFO, "take acknowledged", _take(now, ended))
    if old and (kept := old.cpus & now.cpus):
        yield Line(LogLevel.INFO, "take called off", _take(now, Batch(old.number, kept)))
    if old and new is None and (left := old.cpus - now.cpus):
        container = world.containers.get(now.container)
        if container is not None and container.footprint & left.mask:
            yield Line(LogLevel.INFO, "take broken off", _take(now, Batch(old.number, left)))
        else:
            yield Line(LogLevel.INFO, "take finished", _take(now, Batch(old.number, left)))


def _begun_takes(world: World, was: Assignment, now: Assignment) -> Iterator[Line]:
    old, new, container = was.leaving, now.leaving, world.containers.get(now.container)
    # What does not run cannot be notified.
    has_none = container is not None and is_inert(container)
    for batch in new.batches if new else ():
        if old is None or batch.number > old.number:
            notice = 0.0 if has_none else notice_of(world, now, batch)
            yield Line(LogLevel.INFO, "take started", {**_take(now, batch), "notice_seconds": notice})


def _ended(old: Leaving, now: Assignment) -> Batch | None:
    """Return the takes that ended as one: their CPUs, and the number of the last; None if there is none. A take of CPUs
    that the grant has again did not end: it was cancelled.
    """
    running = {batch.number for batch in now.leaving.batches} if now.leaving else set[int]()
    over = [batch for batch in old.batches if batch.number not in running and not batch.cpus <= now.cpus]
    return Batch(over[-1].number, union(batch.cpus for batch in over)) if over else None


def _take(assignment: Assignment, take: Batch) -> dict[str, object]:
    return {noun(assignment.container): assignment.name, "cpus": take.cpus, "number": take.number}


def _clashes(before: World, now: World) -> Iterator[Line]:
    known = {(each.owner.container, each.pinned.view.key) for each in clashes(before)}
    for each in clashes(now):
        if (each.owner.container, each.pinned.view.key) not in known:
            fields: dict[str, object] = {noun(each.owner.container): each.owner.name, "cpus": each.cpus}
            message = "another container is pinned by hand to its CPUs, and it cannot move"
            yield Line(LogLevel.WARNING, message, {**fields, "pinned": each.pinned.view.name})


def _warnings(before: World, now: World) -> Iterator[Line]:
    for key, container in now.containers.items():
        known = before.containers.get(key)
        if known is container or (known is not None and known.wish == container.wish):
            continue
        name = container.view.name
        # A policy that grants CPUs refuses what is wrong, and that is logged.
        said = warnings if now.settings.policy is PolicyName.NONE else harmless
        for warning in said(container.wish):
            if known is None or warning not in said(known.wish):
                yield Line(LogLevel.WARNING, warning, {noun(key): name})
        if known is None and is_single_file_mount(container.view, now.settings):
            message = "it mounts a single projected file, which stays stale: mount the directory instead"
            yield Line(LogLevel.WARNING, message, {noun(key): name})
