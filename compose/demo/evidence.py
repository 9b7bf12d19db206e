"""What the workloads' own lines prove: pure functions from lines to findings.

The claim: from the moment that the exclusive container was told `settled`, it ran on its CPUs alone. Proved by:

1. its own /proc/self/status, each second: the CPUs that it may use are the ones that it was told;
2. the noisy containers' own notes: none of their processes was on those CPUs while it was settled. A container that was
   born meanwhile may have been there at its first instructions, until its birth was heard of (the strict start closes
   this): such a moment is named, and must be over within LATE_NS;
3. its counters beside the plain container's, over the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

Line = dict[str, Any]

LATE_NS = 500_000_000


@dataclass(frozen=True)
class Span:
    """A time, in CLOCK_MONOTONIC nanoseconds, in which the exclusive container was settled on `cpus`."""

    since: int
    until: int
    cpus: frozenset[int]

    def overlap(self, first: int, last: int) -> int:
        """How much of [first, last] lies in this span; 0 if nothing."""
        return max(0, min(last, self.until) - max(first, self.since))


@dataclass(frozen=True)
class Figures:
    """How a steady workload fared, a second on average."""

    allowed: tuple[str, ...]
    seconds: int
    share: float
    stalls: float
    longest_ms: float
    waited_ms: float
    preempted: float


def cpus_of(text: str) -> frozenset[int]:
    """A CPU list as the kernel writes it: "0-2,5"."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def settled_spans(lines: Sequence[Line], end: int) -> list[Span]:
    """When the exclusive container was settled, by what it was told and when it read it; `end` closes the last span."""
    spans: list[Span] = []
    open_since: tuple[int, str] | None = None
    for line in lines:
        if line["kind"] != "told":
            continue
        is_settled = line["settled"] and line["sharing"] == "exclusive"
        if open_since and not (is_settled and line["cpus"] == open_since[1]):
            spans.append(Span(open_since[0], line["at"], cpus_of(open_since[1])))
            open_since = None
        if is_settled and open_since is None:
            open_since = (line["at"], line["cpus"])
    if open_since:
        spans.append(Span(open_since[0], end, cpus_of(open_since[1])))
    return spans


def whole_seconds(lines: Iterable[Line], spans: Iterable[Span]) -> list[Line]:
    """The seconds of work that lie wholly inside one of the spans."""
    spans = list(spans)
    return [
        line
        for line in lines
        if line["kind"] == "worked" and any(span.since <= line["began"] and line["at"] <= span.until for span in spans)
    ]


def figures(seconds: Sequence[Line]) -> Figures | None:
    """The averages over some seconds of work; None over none."""
    if not seconds:
        return None
    return Figures(
        allowed=tuple(sorted({line["allowed"] for line in seconds})),
        seconds=len(seconds),
        share=mean(line["share"] for line in seconds),
        stalls=mean(line["stalls"] for line in seconds),
        longest_ms=max(line["longest_ms"] for line in seconds),
        waited_ms=mean(line["waited_ms"] for line in seconds),
        preempted=mean(line["preempted"] for line in seconds),
    )


@dataclass(frozen=True)
class Intrusion:
    """A noisy process on a settled CPU: how long at most, and how long after its container was born it ended."""

    cpu: int
    length_ns: int
    ended_after_birth_ns: int

    @property
    def is_late_start(self) -> bool:
        """Whether this is a newcomer that was not yet pinned, not one that ought to have known."""
        return self.ended_after_birth_ns <= LATE_NS


def intrusions(lines: Sequence[Line], spans: Sequence[Span]) -> list[Intrusion]:
    """Where one noisy container's own notes say that it was where it must not be."""
    found: list[Intrusion] = []
    birth = 0
    for line in lines:
        if line["kind"] == "started":
            birth = line["at"]  # a restart is a birth too
        elif line["kind"] == "ran":
            for cpu, (first, last) in line["seen"].items():
                for span in spans:
                    if int(cpu) in span.cpus and span.since <= last and first < span.until:
                        ended = min(last, span.until)
                        found.append(Intrusion(int(cpu), max(1, span.overlap(first, last)), ended - birth))
    return found
