"""The status document of a daemon that is gone, stalled or without its engine: what it last knew, without what only one
that works can claim, in the past tense. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from sidecar.status.document import ContainerStatus, Status
from sidecar.words.past import in_past
from state.cpuset import EMPTY

replace = msgspec.structs.replace


class StatusReading(Status, frozen=True, kw_only=True):
    """A status document as it was read, and whether the daemon vouched for it then."""

    vouched: bool = False


class ContainerReading(ContainerStatus, frozen=True, kw_only=True):
    """One container's part of it, with the same."""

    vouched: bool = False


def last_word(said_at: str, *, is_running: bool | None = False, is_ready: bool = True) -> str:
    """Return the sentence that comes before everything that a daemon said which is gone, or runs and does not vouch.

    `said_at` is RFC 3339, or "" if it is not known. A daemon that said that it is not ready waits for its engine.
    """
    said_at = said_at or "an unknown time"
    if is_running is None:
        return f"No daemon vouches for this, and whether one runs cannot be seen. It was last said at {said_at}:"
    if is_running:
        why = "is stopped, stalled or stuck, or cannot write its status" if is_ready else "waits for its engine"
        return f"The daemon {why}. This is what it last said, at {said_at}:"
    return f"No daemon is running. This is what the last one said, at {said_at}:"


def unvouched(status: Status, *, is_running: bool | None = False) -> Status:
    """Return the document without any claim that only a running daemon can make: nothing is ready, settled or alone,
    nothing is on its way, no birth is answered, each explanation is told as the last word of the daemon, and each
    sentence is in the past.
    """
    said = last_word(status.updated_at, is_running=is_running, is_ready=status.is_ready)
    told = told_in_past(status)
    return replace(
        told,
        is_ready=False,
        hand=told.hand and replace(told.hand, is_answering=False),
        host=told.host and replace(told.host, is_confining=False),
        containers=tuple(_last_known(each, said) for each in told.containers),
        units=tuple(_last_known(each, said) for each in told.units),
    )


def told_in_past(status: Status) -> Status:
    """Return the document with every sentence in the past tense, and all else as it was."""
    names = names_in(status)
    return replace(
        status,
        hand=status.hand and replace(status.hand, text=in_past(status.hand.text)),
        host=status.host
        and replace(status.host, text=in_past(status.host.text, [each.name for each in status.host.holes])),
        around=status.around and replace(status.around, text=in_past(status.around.text)),
        containers=tuple(_in_past(each, names) for each in status.containers),
        units=tuple(_in_past(each, names) for each in status.units),
        notes=all_in_past(status.notes, names),
        problems=all_in_past(status.problems, names),
    )


def names_in(status: Status) -> frozenset[str]:
    """Return the names of all containers and units in the document."""
    return frozenset(each.name for each in status.rows)


def all_in_past(said: Iterable[str], names: Collection[str]) -> tuple[str, ...]:
    """Return each of these sentences in the past tense; `names` are those of containers."""
    return tuple(in_past(each, names) for each in said)


def reading_of(status: Status, *, vouched: bool, outdated: bool, is_running: bool | None = True) -> StatusReading:
    """Return the document with `vouched`; if it is out of date, without claims."""
    told = unvouched(status, is_running=is_running) if outdated else status
    return StatusReading(**_fields(told), vouched=vouched)


def container_reading_of(each: ContainerStatus, *, vouched: bool, said: str = "") -> ContainerReading:
    """Return one container's part with `vouched`; after `said`, the sentence of `last_word`, without claims."""
    told = _last_known(_in_past(each, {each.name}), said) if said else each
    return ContainerReading(**_fields(told), vouched=vouched)


def rows_read(status: StatusReading) -> tuple[ContainerReading, ...]:
    """Return the containers and units of a document as they were read with it."""
    return tuple(container_reading_of(each, vouched=status.vouched) for each in status.rows)


def _fields(told: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(told, name) for name in told.__struct_fields__}


def _last_known(each: ContainerStatus, said: str) -> ContainerStatus:
    return replace(
        each,
        is_settled=False,
        is_alone=False,
        pending=EMPTY,
        waits_for="",
        explanation=(said, *each.explanation) if each.explanation else (),
    )


def _in_past(each: ContainerStatus, names: Collection[str]) -> ContainerStatus:
    leaving = each.leaving and replace(each.leaving, reason=in_past(each.leaving.reason, names))
    return replace(
        each,
        leaving=leaving,
        waits_for=in_past(each.waits_for, names),
        moves=tuple(replace(move, reason=in_past(move.reason, names)) for move in each.moves),
        clash=in_past(each.clash, names),
        refusal=in_past(each.refusal, names),
        warnings=all_in_past(each.warnings, names),
        explanation=tuple(in_past(said, names, quoted=each.trouble) for said in each.explanation),
    )
