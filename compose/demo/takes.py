"""What elastic workloads' own lines prove about the policy `dynamic`: pure functions from lines to findings.

The claims, each from what the workloads wrote themselves:

1. every CPU that a workload lost had been announced to it as leaving before;
2. a workload that acknowledges is never forced: it was off the CPUs by then, and did not return before they were
   granted again;
3. a workload that never acknowledges keeps its CPUs for the whole notice; then they are taken, and counted as forced;
4. none was on a CPU of another. (A new workload may be, at its first instructions: evidence.py explains why);
5. each always had its original CPUs.

Only the number of takes that the sidecar counted as forced is not from their lines; the two must agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compose.demo.evidence import LATE_NS, Finding, Intrusion, Line, Span, cpus_of
from sidecar.words.counts import counted

Words = Mapping[str, Sequence[Line]]
"""The lines of each workload, by its name."""


@dataclass(frozen=True)
class Take:
    """CPUs that a workload lost, by its own lines; times are CLOCK_MONOTONIC nanoseconds, None if there is no such
    line.

    `told` is when it read that the last of them was leaving, `notice` how many seconds it was promised then, `said`
    when it acknowledged, `gone` when it read that it no longer has them.
    """

    cpus: frozenset[int]
    told: int | None
    notice: float
    said: int | None
    gone: int

    @property
    def seconds(self) -> float:
        """From reading about the loss to the loss; 0 if it did not read about it."""
        return 0.0 if self.told is None else (self.gone - self.told) / 1e9


def takes(lines: Sequence[Line]) -> list[Take]:
    """Return what a workload lost while it ran, in order."""
    found: list[Take] = []
    held = frozenset[int]()
    told: dict[int, tuple[int, float]] = {}
    said: dict[int, int] = {}
    for line in lines:
        if line["kind"] == "started":
            held, told, said = frozenset(), {}, {}
        elif line["kind"] == "acknowledged":
            said |= {cpu: int(line["at"]) for cpu in cpus_of(line["cpus"])}
        elif line["kind"] == "told":
            now, leaving = owned(line), cpus_of(line["leaving"])
            if lost := held - now:
                found.append(_take(lost, told, said, line["at"]))
            # What is no longer leaving has been lost, or may stay after all.
            told = {cpu: when for cpu, when in told.items() if cpu in leaving}
            said = {cpu: when for cpu, when in said.items() if cpu in leaving}
            for cpu in leaving - told.keys():
                told[cpu] = line["at"], line["deadline"] or 0.0
            held = now
    return found


def _take(lost: frozenset[int], told: Mapping[int, tuple[int, float]], said: Mapping[int, int], gone: int) -> Take:
    is_told, is_said = lost <= told.keys(), lost <= said.keys()
    return Take(
        cpus=lost,
        told=max(told[cpu][0] for cpu in lost) if is_told else None,
        notice=max(told[cpu][1] for cpu in lost) if is_told else 0.0,
        said=max(said[cpu] for cpu in lost) if is_said else None,
        gone=gone,
    )


def owned(line: Line) -> frozenset[int]:
    """Return a workload's exclusive CPUs by a line about its projection, including those that are leaving.

    CPUs that it still shares while it waits for its grant are left out.
    """
    if line["sharing"] != "exclusive":
        return frozenset()
    return cpus_of(line["cpus"]) & (cpus_of(line["desired"]) | cpus_of(line["leaving"]))


def growths(lines: Sequence[Line]) -> int:
    """Return how often a workload was granted CPUs in addition to those that it had."""
    count, held = 0, frozenset[int]()
    for line in lines:
        if line["kind"] == "told":
            now = owned(line)
            count += bool(held and now - held)
            held = now
        elif line["kind"] == "started":
            held = frozenset()
    return count


def own_spans(lines: Sequence[Line], until: int) -> list[Span]:
    """Return when which CPUs were a workload's alone, and its to keep: reported, settled, and not leaving."""
    spans: list[Span] = []
    since, cpus = 0, frozenset[int]()
    for line in [*lines, {"kind": "ended", "at": until}]:
        if line["kind"] not in ("told", "started", "ended"):
            continue
        now = owned(line) - cpus_of(line["leaving"]) if line["kind"] == "told" and line["settled"] else frozenset[int]()
        if now != cpus:
            if cpus:
                spans.append(Span(since, line["at"], cpus))
            since, cpus = line["at"], now
    return spans


def visits(lines: Sequence[Line]) -> Iterator[tuple[int, int, int, int]]:
    """Yield where the busy processes of a workload were by their own records: CPU, first and last time there, and the
    container's start before it.
    """
    birth = 0
    for line in lines:
        if line["kind"] == "started":
            birth = line["at"]
        elif line["kind"] == "ran":
            for cpu, first, last in line["seen"]:
                yield cpu, first, last, birth


def intruders(lines: Sequence[Line], spans: Sequence[Span]) -> list[Intrusion]:
    """Return where a workload was on CPUs of another in these spans."""
    return [
        Intrusion(cpu, max(1, span.overlap(first, last)), min(last, span.until) - birth)
        for cpu, first, last, birth in visits(lines)
        for span in spans
        if cpu in span.cpus and span.since <= last and first < span.until
    ]


def away_spans(lines: Sequence[Line], until: int) -> list[Span]:
    """Return when a workload must be off which CPU: from its acknowledgement until it is granted the CPU again."""
    away: dict[int, int] = {}
    spans: list[Span] = []
    for line in [*lines, {"kind": "ended", "at": until}]:
        back = frozenset[int]()
        if line["kind"] == "acknowledged":
            away |= {cpu: int(line["at"]) for cpu in cpus_of(line["cpus"]) if cpu not in away}
        elif line["kind"] == "told":
            back = owned(line) - cpus_of(line["leaving"])
        elif line["kind"] in ("started", "ended"):
            back = frozenset(away)
        spans += [Span(away.pop(cpu), line["at"], frozenset({cpu})) for cpu in sorted(back & away.keys())]
    return spans


def strayed(lines: Sequence[Line]) -> bool:
    """Return whether a workload with exclusive CPUs ever lacked one of its original ones."""
    told = [line for line in lines if line["kind"] == "told" and line["sharing"] == "exclusive"]
    # A CPU that it has not been given yet is not lost.
    had = frozenset[int]()
    for line in told:
        original = cpus_of(line["original"])
        if had & original - cpus_of(line["cpus"]) or cpus_of(line["leaving"]) & original:
            return True
        had = original & cpus_of(line["cpus"])
    return False


def judge(words: Words, deaf: str, forced: Mapping[str, int], until: int) -> list[Finding]:
    """Judge the whole story. `deaf` is the workload that never acknowledges; `forced` is the sidecar's count."""
    by_name = {name: takes(lines) for name, lines in words.items()}
    polite = {name: found for name, found in by_name.items() if name != deaf}
    every = [take for found in by_name.values() for take in found]
    said = [take for found in polite.values() for take in found]
    unannounced = [take for take in every if take.told is None]
    count = sum(len(take.cpus) for take in every)
    return [
        Finding(
            bool(every) and not unannounced,
            f"all CPUs taken ({count}, in {counted(len(every), 'take')}) had been announced as leaving",
        ),
        *_of_the_polite(words, said, polite.keys(), forced, until),
        _of_the_deaf(deaf, by_name.get(deaf, []), forced),
        *of_all(words, until),
        Finding(
            any(growths(lines) for lines in words.values()),
            "how often each one grew again when there was room: "
            + ", ".join(f"{name} {growths(lines)}" for name, lines in words.items()),
        ),
    ]


def _of_the_polite(
    words: Words, said: Sequence[Take], names: Iterable[str], forced: Mapping[str, int], until: int
) -> Iterator[Finding]:
    beyond = sum(forced.get(name, 0) for name in names)
    slowest = max((take.seconds for take in said), default=0.0)
    yield Finding(
        bool(said) and beyond == 0 and all(take.said is not None for take in said),
        f"acknowledged in time: {counted(len(said), 'take')}, {beyond} forced, the longest {slowest * 1000:.0f} ms",
    )
    back = [each for name in names for each in intruders(words[name], away_spans(words[name], until))]
    yield Finding(not back, f"each had left the CPUs it acknowledged: {counted(len(back), 'record')} of the contrary")


def _of_the_deaf(deaf: str, found: Sequence[Take], forced: Mapping[str, int]) -> Finding:
    kept = [take for take in found if take.said is None and take.seconds >= take.notice - LATE_NS / 1e9]
    beyond = forced.get(deaf, 0)
    times = ", ".join(f"{take.seconds:.1f} s of {take.notice:.1f}" for take in found)
    return Finding(
        bool(found) and len(kept) == len(found) == beyond,
        f"{deaf} never acknowledged, and kept its CPUs until the notice was over ({times or 'none'}): {beyond} forced",
    )


def of_all(words: Words, until: int) -> Iterator[Finding]:
    """Yield what holds in every story: none on a CPU of another, and none without its original CPUs."""
    found = [
        intrusion
        for owner, lines in words.items()
        for spans in [own_spans(lines, until)]
        for other, theirs in words.items()
        if other != owner
        for intrusion in intruders(theirs, spans)
    ]
    notes = sum(line["kind"] == "ran" for lines in words.values() for line in lines)
    late = sum(intrusion.is_late_start for intrusion in found)
    excused = f" ({late} of a newly started one, before it was pinned)" if late else ""
    yield Finding(
        bool(notes) and len(found) == late and any(own_spans(lines, until) for lines in words.values()),
        f"none was on a CPU of another, according to {notes} of their own records{excused}",
    )
    astray = [name for name, lines in words.items() if strayed(lines)]
    yield Finding(not astray, f"each always had its original CPUs{': not ' + ', '.join(astray) if astray else ''}")


def judge_small(words: Words, holder: str, waiter: str, forced: Mapping[str, int], until: int) -> list[Finding]:
    """Judge the story with one CPU to grant: `holder` has it, `waiter` waits until `holder` ends."""
    told = [line for line in words[waiter] if line["kind"] == "told"]
    waits = [line for line in told if line["sharing"] == "shared" and "asked for" in line["reason"]]
    has = [line for line in told if owned(line) and line["settled"]]
    ends = [line["at"] for line in words[holder] if line["kind"] == "ended"]
    lost = [take for lines in words.values() for take in takes(lines)]
    beyond = sum(forced.values())
    return [
        Finding(bool(waits), f"{waiter} was told that it waits, and for what"),
        Finding(
            bool(has and ends and waits) and waits[0]["at"] < ends[0] < has[0]["at"],
            f"{waiter} was given its CPU after {holder} had ended, and not before",
        ),
        *of_all(words, until),
        Finding(not lost and beyond == 0, f"none lost its CPUs: {counted(len(lost), 'take')}, {beyond} forced"),
    ]
