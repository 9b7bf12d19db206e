"""What the API answers: worlds in, documents out; and what it reads of requests: text in, values out. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final, TypeVar

import msgspec

from sidecar.decide.facts import ContainerView
from sidecar.decide.world import World
from sidecar.failures import SidecarError
from sidecar.status.describe import Deadlines, container_status
from sidecar.status.document import LeavingStatus
from sidecar.status.find_container import NotFound, find
from sidecar.status.last_state import ContainerReading, container_reading_of, last_word
from sidecar.words.causes import why
from sidecar.words.changes import new_moves
from sidecar.words.defragmenting import why_none
from sidecar.words.refusals import sentence
from sidecar.words.sizes_text import about_size
from state import codec
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.lease import LEASE_SECONDS, seconds_left
from state.refusal import Refusal, RefusalCode

T = TypeVar("T")


_MOST: Final = 1_000_000
"""CPUs, more than any machine has; a number of thousands of digits would be useless."""


class Declined(SidecarError):
    """A request that is declined, and why; `status` is the HTTP status of the answer. `allow` names the methods of the
    route if the request used another.
    """

    def __init__(self, status: int, reason: str, *, allow: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.allow = allow


_STATUSES: Final = dict.fromkeys(RefusalCode, 409) | {RefusalCode.UNKNOWN_CONTAINER: 404}
"""The HTTP status for a refusal: mostly, that the request conflicts with the present state."""


def declined(refusal: Refusal, what: str = "") -> Declined:
    """Return the answer to a refused request; `what` begins its sentence."""
    return Declined(_STATUSES[refusal.code], what + sentence(refusal))


class ResizeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `resize`: how many CPUs."""

    cpus: Annotated[int, msgspec.Meta(ge=-_MOST, le=_MOST)]


class AckBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `ack`: which take; None for the one that waits."""

    number: Annotated[int, msgspec.Meta(ge=0, le=2**62)] | None = None


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """A container after a decision about its size: where it runs now (`cpus`), what it will have (`granted`), the size
    that was ordered, what is leaving and until when, what it waits for. `rounded` tells what was made of an ordered
    number that cannot be its size, and `short` why it has fewer CPUs than its size, or more.
    """

    container: str
    name: str
    cpus: CPUSet
    granted: CPUSet
    ordered: int | None = None
    leaving: LeavingStatus | None = None
    waits_for: str = ""
    rounded: str = ""
    short: str = ""


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One move of a defragmentation."""

    container: str
    name: str
    lost: CPUSet
    gained: CPUSet
    reason: str


class Defragmented(msgspec.Struct, frozen=True, kw_only=True):
    """What a defragmentation did; `notes` give the reason if it did nothing."""

    moves: tuple[Exchange, ...] = ()
    notes: tuple[str, ...] = ()


class Vouching(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the daemon vouches for what it answers: for the World that the answer is made from."""

    counts: bool
    said_at: str
    """Until when the World is known to be right, RFC 3339: now, if that is not in doubt."""
    is_outdated: bool
    """It vouched, and does not any more: it stalled, decides nothing, or waits for its engine."""
    is_ready: bool
    """It reaches its engine."""

    @classmethod
    def of(cls, world: World, vouched_at: float | None, now: datetime) -> Vouching:
        """Judge by when the daemon last vouched, in seconds since 1970."""
        counts = seconds_left(vouched_at, LEASE_SECONDS, now.timestamp()) > 0
        is_outdated = vouched_at is not None and not counts
        said_at = datetime.fromtimestamp(vouched_at or 0.0, UTC) if is_outdated else now
        said = said_at.isoformat(timespec="milliseconds")
        return cls(counts=counts, said_at=said, is_outdated=is_outdated, is_ready=world.is_ready)

    @property
    def last_word(self) -> str:
        """The sentence before explanations that are out of date; "" if they are not."""
        return last_word(self.said_at, is_running=True, is_ready=self.is_ready) if self.is_outdated else ""


def found(world: World, wanted: str) -> ContainerView:
    """Return the container of this name or id. Raise Declined."""
    try:
        return find((each.view for each in world.containers.values()), wanted)
    except NotFound as error:
        raise Declined(404, str(error)) from error


def one(world: World, wanted: str, deadlines: Deadlines, vouching: Vouching) -> ContainerReading:
    """Return the part of the status document about this container. Raise Declined."""
    told = container_status(world, world.containers[found(world, wanted).key], deadlines)
    return container_reading_of(told, vouched=vouching.counts, said=vouching.last_word)


def sizing(world: World, key: ContainerKey, deadlines: Deadlines) -> Sizing:
    """Return what was decided about a container's size. Raise Declined if it released its CPUs in the meantime."""
    container, grant = world.containers.get(key), world.state.assignments.get(key)
    if container is None or grant is None:
        raise Declined(409, "it gave its CPUs back in between")
    told = container_status(world, container, deadlines)
    made_of_it, short = about_size(world, container, grant)
    return Sizing(
        container=key.id,
        name=grant.name,
        cpus=container.place.seen,
        granted=grant.cpus,
        ordered=grant.ordered,
        leaving=told.leaving,
        waits_for=told.waits_for,
        rounded=made_of_it,
        short=short,
    )


def defragmented(before: World, after: World) -> Defragmented:
    """Return the moves between two worlds, of containers that hold CPUs in both."""
    made: list[Exchange] = []
    for key, now in after.state.assignments.items():
        was = before.state.assignments.get(key)
        made += (
            Exchange(container=key.id, name=now.name, lost=move.lost, gained=move.gained, reason=why(move.cause))
            for move in (new_moves(was, now) if was else ())
            if move.lost and move.gained
        )
    if made:
        return Defragmented(moves=tuple(made))
    return Defragmented(notes=(why_none(after),))


def parsed(content: bytes, wanted: type[T]) -> T:
    """Return the value of a body; an empty body gives the defaults. Raise Declined if it is anything else."""
    try:
        return codec.decode(content or b"{}", wanted)
    except codec.UNREADABLE as error:
        raise Declined(400, f"the body is not what is expected: {codec.flaw(error)}") from error
