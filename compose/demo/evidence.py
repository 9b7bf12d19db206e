"""What the workloads' own output proves: pure functions from lines to findings.

The claim: from the moment that the exclusive container read `settled`, it ran on its CPUs alone. Proved by:

1. its own /proc/self/status, each second: the CPUs that it may use are those in its projection;
2. the noisy containers' own records: none of their processes was on those CPUs while it was settled. A container that
   started in the meantime may have run there until the sidecar learned of it (the strict start prevents this): such a
   time is reported, and must end within LATE_NS;
3. its counters beside the plain container's, over the same time. Both are judged by what they show, and by a margin
   that is no chance. What else used the CPU meanwhile, outside the engine, is named with its share: a cpuset does not
   keep that off, so it may be the reason why the margin is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from sidecar.words.counts import counted

Line = dict[str, Any]

LATE_NS = 500_000_000

MARGIN = 0.1
"""How much more of its CPU the exclusive workload must get than the plain one: the rest varies from run to run."""

NOTABLE = 0.02
"""The share of a CPU from which its use by others is worth a line: an idle host's own needs are below."""


@dataclass(frozen=True)
class Span:
    """A time, in CLOCK_MONOTONIC nanoseconds, in which the exclusive container was settled on `cpus`."""

    since: int
    until: int
    cpus: frozenset[int]

    def overlap(self, first: int, last: int) -> int:
        """Return how much of [first, last] lies in this span; 0 if nothing."""
        return max(0, min(last, self.until) - max(first, self.since))


@dataclass(frozen=True)
class Figures:
    """How a steady workload fared, per second on average."""

    allowed: tuple[str, ...]
    seconds: int
    share: float
    stalls: float
    longest_ms: float
    waited_ms: float
    preempted: float


def cpus_of(text: str) -> frozenset[int]:
    """Parse a CPU list as the kernel writes it: "0-2,5"."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def settled_spans(lines: Sequence[Line], end: int) -> list[Span]:
    """Return when the exclusive container was settled, by the projections that it read and the times when it read them.

    `end` closes the last span.
    """
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
    """Return the seconds of work that lie wholly inside one of the spans."""
    spans = list(spans)
    return [
        line
        for line in lines
        if line["kind"] == "worked" and any(span.since <= line["began"] and line["at"] <= span.until for span in spans)
    ]


def figures(seconds: Sequence[Line]) -> Figures | None:
    """Return the averages over some seconds of work; None over none."""
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
    """A noisy process on a settled CPU: its longest possible time, and when it ended after its container's start."""

    cpu: int
    length_ns: int
    ended_after_birth_ns: int

    @property
    def is_late_start(self) -> bool:
        """Whether this is a new container that was not yet pinned."""
        return self.ended_after_birth_ns <= LATE_NS


def intrusions(lines: Sequence[Line], spans: Sequence[Span]) -> list[Intrusion]:
    """Return where a noisy container ran, by its own records, although it must not."""
    found: list[Intrusion] = []
    birth = 0
    for line in lines:
        if line["kind"] == "started":
            birth = line["at"]  # a restart counts as well
        elif line["kind"] == "ran":
            for cpu, (first, last) in line["seen"].items():
                for span in spans:
                    if int(cpu) in span.cpus and span.since <= last and first < span.until:
                        ended = min(last, span.until)
                        found.append(Intrusion(int(cpu), max(1, span.overlap(first, last)), ended - birth))
    return found


@dataclass(frozen=True)
class Outside:
    """What used the exclusive CPUs beside their container: the share of the time, what a hypervisor stole, programs."""

    share: float
    stolen: float
    programs: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """What it was; "" if it is not worth a line."""
        parts = []
        if self.share >= NOTABLE:
            names = f" ({', '.join(self.programs)})" if self.programs else ""
            parts.append(f"processes outside the container used {self.share:.0%} of its CPU{names}")
        if self.stolen >= NOTABLE:
            parts.append(f"the hypervisor took {self.stolen:.0%} of it")
        return ", and ".join(parts)


@dataclass(frozen=True)
class Finding:
    """One sentence of the claim, and whether the evidence supports it."""

    is_true: bool
    text: str


@dataclass(frozen=True)
class Verdict:
    """The counters of both steady workloads, and the findings. All findings must be true."""

    settled_seconds: float
    own: Figures | None
    beside: Figures | None
    findings: tuple[Finding, ...]
    outside: str
    """What else used its CPU, as a clause; "" for nothing that is worth a line, or if that is not known."""
    late_ms: float
    """How long at most a new neighbour was on a settled CPU, in milliseconds; 0 if none was."""

    @property
    def is_true(self) -> bool:
        """Whether the claim holds."""
        return all(finding.is_true for finding in self.findings)


def judge(
    exclusive: Sequence[Line],
    plain: Sequence[Line],
    noisy: Mapping[str, Sequence[Line]],
    samples: Sequence[tuple[int, int]],
    until: int,
    outside: Outside | None = None,
) -> Verdict:
    """Weigh the lines of the exclusive, the plain and each noisy container, written before `until`.

    `samples` are moments and CPUs at which /proc showed a running thread of a noisy container; there are none
    if the engine is on another host.
    """
    spans = settled_spans(exclusive, until)
    granted = frozenset[int]().union(*(span.cpus for span in spans))
    seconds = whole_seconds(exclusive, spans)
    own, beside = figures(seconds), figures(whole_seconds(plain, spans))
    found = [intrusion for lines in noisy.values() for intrusion in intrusions(lines, spans)]
    late = [intrusion for intrusion in found if intrusion.is_late_start]
    notes = [line for lines in noisy.values() for line in lines if line["kind"] == "ran"]
    before = sum(
        1 for line in notes if spans and line["at"] < spans[0].since and granted & {int(c) for c in line["seen"]}
    )
    births = [line["at"] for lines in noisy.values() for line in lines if line["kind"] == "started"]
    seen = [cpu for at, cpu in samples if any(span.since <= at < span.until for span in spans)]
    there = [at for at, cpu in samples if any(span.since <= at < span.until and cpu in span.cpus for span in spans)]
    unexcused = [at for at in there if not any(birth <= at <= birth + LATE_NS for birth in births)]

    where = ",".join(map(str, sorted(granted)))
    findings = [
        Finding(bool(seconds), f"it was settled on CPU {where} for {counted(len(seconds), 'whole second')}"),
        Finding(
            all(cpus_of(line["allowed"]) in {span.cpus for span in spans} for line in seconds),
            "its own /proc/self/status said so in each of them, and listed no other CPU",
        ),
        Finding(
            bool(notes) and len(found) == len(late),
            f"no noisy process ran there, by {len(notes)} of their records ({before} earlier ones show that they had)",
        ),
    ]
    if seen:
        findings.append(
            Finding(not unexcused, f"nor by the host's /proc: {len(unexcused)} of {counted(len(seen), 'sample')}")
        )
    said = outside.sentence if outside else ""
    if own and beside:
        findings.append(_compared(own, beside, said))
    return Verdict(
        settled_seconds=sum(span.until - span.since for span in spans) / 1e9,
        own=own,
        beside=beside,
        findings=tuple(findings),
        outside=said,
        late_ms=max((intrusion.length_ns for intrusion in late), default=0) / 1e6,
    )


def _compared(own: Figures, beside: Figures, outside: str) -> Finding:
    """Judge the shares of the CPU time, and name what else used the CPU where the margin is missing."""
    shares = f"{own.share:.0%} of its CPU; the plain workload got {beside.share:.0%} of a shared one"
    if own.share >= beside.share + MARGIN:
        return Finding(is_true=True, text=f"it got {shares}")
    cause = f": {outside}" if outside else ", and nothing else that used it was seen"
    return Finding(is_true=False, text=f"it got only {shares}{cause}")
