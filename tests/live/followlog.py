"""The log of a follower, and what it proves: the projection was true, and each notice was as long as promised."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from state import codec
from state.cpuset import EMPTY, CPUSet
from tests.live.waiting import INSTANT


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What the follower saw, and since when. Times in seconds of CLOCK_MONOTONIC.

    `before` and `after` are the CPUs that the kernel allowed it around its reading of the files; `file` is the file
    `cpuset`, the others are those of `status.json`. `on` is a CPU on which it ran. It saw something else in the look
    that began at `unlike`, and this in the one from `began` to `ended`. `first` is the first look of a process.
    """

    unlike: float
    began: float
    ended: float
    before: CPUSet
    after: CPUSet
    on: int
    file: CPUSet = EMPTY
    generation: int = 0
    sharing: str = ""
    cpus: CPUSet = EMPTY
    desired: CPUSet = EMPTY
    leaving: CPUSet = EMPTY
    arriving: CPUSet = EMPTY
    deadline_seconds: float | None = None
    settled: bool = False
    first: bool = False


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """A signal that it received, when, and what `status.json` said then."""

    signal: str
    at: float
    generation: int = 0
    leaving: CPUSet = EMPTY


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """It wrote this generation into `ack`, just after `at`."""

    acknowledged: int
    at: float


class Notice(NamedTuple):
    """A promise about CPUs that went, and whether it was kept. Times in seconds.

    `promised` is what the file of this generation said. `seconds` is from the end of the look that first saw it, to the
    beginning of the last look that still had all the CPUs: they went no sooner. `blind` is how long it had not looked
    before it saw it: it may have been written that much sooner. They were there until `had_until`, and were gone by
    `gone_at`.
    """

    cpus: CPUSet
    generation: int
    promised: float
    seconds: float
    blind: float
    had_until: float
    gone_at: float

    @property
    def is_kept(self) -> bool:
        """Whether a workload that looks without a break would have seen the whole promised time. Where a look may take
        as long as that, what is not certainly broken is kept.
        """
        unsure = self.gone_at - self.had_until if INSTANT else 0.0
        return self.seconds + self.blind + unsure >= self.promised


class FollowLog(NamedTuple):
    """A log as far as it is written."""

    looks: tuple[Look, ...]
    heard: tuple[Heard, ...]
    acknowledged: tuple[Acknowledged, ...]
    instant: float = INSTANT

    def losses(self) -> list[tuple[Notice, ...]]:
        """Return, for each loss of granted CPUs, all promises about it, in order; none for a loss without notice.
        Losing a shared CPU is no loss, nor is losing one for an `instant`.
        """
        found: list[tuple[Notice, ...]] = []
        granted = EMPTY
        for number, look in enumerate(self.looks):
            if look.first:
                granted = EMPTY
            elif (lost := (self.looks[number - 1].after - look.after) & granted) and (
                lost := lost - self._had_around(number, is_after=True)
            ):
                found.append(_notices(self.looks[: number + 1], lost))
                # What it has once more for an instant, it was not granted again.
                granted -= lost
            # Where it merely starts, not confined yet, it has been granted nothing.
            if look.sharing == "exclusive" and (look.settled or granted):
                granted |= look.cpus & (look.desired | look.leaving)
        return found

    def untruths(self, unvouched: Collection[int] = ()) -> list[str]:
        """Return each look in which a file named a CPU that the process lacked, or in which it ran where it may not.
        Files of the generations `unvouched` tell what was true when the sidecar was killed, and are not judged so.
        """
        found: list[str] = []
        for number, look in enumerate(self.looks):
            had, told = look.before | look.after, look.cpus | look.file | look.leaving
            if look.generation not in unvouched and not (told <= had or told <= had | self._had_around(number)):
                found.append(f"told {look.cpus} (file {look.file}, leaving {look.leaving}), and had {had}: {look}")
            if not look.leaving <= look.cpus:
                found.append(f"something leaves that is not there: {look}")
        for earlier, later in zip(self.looks, self.looks[1:], strict=False):
            if later.generation < earlier.generation:
                found.append(f"the generation fell from {earlier.generation} to {later.generation}")
        return found

    def _had_around(self, number: int, *, is_after: bool = False) -> CPUSet:
        """Return the CPUs that it had within an instant around this look, or after it; none if there is no instant."""
        look, had = self.looks[number], EMPTY
        others = self.looks[number + 1 if is_after else 0 :] if self.instant else ()
        for other in others:
            if other.ended > look.began - self.instant and other.began < look.ended + self.instant:
                had |= other.before | other.after
        return had


def read_log(path: Path) -> FollowLog:
    """Read the file so far, except an incomplete line at the end."""
    looks: list[Look] = []
    heard: list[Heard] = []
    acknowledged: list[Acknowledged] = []
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        lines = []
    for line in lines:
        if not line.endswith(b"\n"):
            continue
        if b'"signal"' in line:
            heard.append(codec.decode(line, Heard))
        elif b'"acknowledged"' in line:
            acknowledged.append(codec.decode(line, Acknowledged))
        else:
            looks.append(codec.decode(line, Look))
    return FollowLog(tuple(looks), tuple(heard), tuple(acknowledged))


def _notices(looks: Sequence[Look], lost: CPUSet) -> tuple[Notice, ...]:
    """Return the notices of the loss that the last of these looks found. Each generation that announced it is a
    promise, from when it was first seen.
    """
    *earlier, gone = looks
    # Before the order is sent, the files name what stays, and nothing as leaving.
    while earlier and not lost & earlier[-1].cpus:
        earlier.pop()
    first_seen: dict[int, Look] = {}
    for look in reversed(earlier):
        if not lost <= look.leaving:
            break
        first_seen[look.generation] = look
    return tuple(
        Notice(
            cpus=lost,
            generation=look.generation,
            promised=look.deadline_seconds or 0.0,
            seconds=gone.unlike - look.ended,
            blind=look.ended - look.unlike,
            had_until=gone.unlike,
            gone_at=gone.ended,
        )
        for look in reversed(first_seen.values())
    )
