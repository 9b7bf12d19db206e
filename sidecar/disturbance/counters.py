"""What the kernel counts on each CPU: interrupts by line, softirqs by kind, and time that a hypervisor took."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from sidecar.disturbance.trace_lines import RunnerKind, Source

_STEAL: Final = 8
"""The column of `/proc/stat` after the CPU's name (Documentation/filesystems/proc.rst)."""

_CPU: Final = re.compile(r"CPU(\d+)")


class Counted(NamedTuple):
    """Interrupts by CPU and source since the machine started, and the milliseconds stolen from each CPU."""

    interrupts: Mapping[tuple[int, Source], int]
    stolen: Mapping[int, float]

    def since(self, before: Counted) -> Counted:
        """Return what came after `before`."""
        interrupts = {key: count - before.interrupts.get(key, 0) for key, count in self.interrupts.items()}
        stolen = {cpu: now - before.stolen.get(cpu, now) for cpu, now in self.stolen.items()}
        return Counted({key: count for key, count in interrupts.items() if count > 0}, stolen)


def count(proc: str = "/proc") -> Counted:
    """Read the counters; those that cannot be read are missing."""
    found = Counter[tuple[int, Source]]()
    found.update(dict(_table(f"{proc}/interrupts", hard=True)))
    found.update(dict(_table(f"{proc}/softirqs", hard=False)))
    return Counted(found, dict(_stolen(f"{proc}/stat")))


def _table(path: str, *, hard: bool) -> Iterator[tuple[tuple[int, Source], int]]:
    head, *rows = _lines(path) or [""]
    cpus = [int(each) for each in _CPU.findall(head)]
    for row in rows:
        name, colon, rest = row.partition(":")
        words = rest.split()
        counts = words[: len(cpus)]
        if not colon or len(counts) < len(cpus) or not all(word.isdigit() for word in counts):
            # The last lines count errors, of no CPU.
            continue
        source = _named(name.strip(), words[len(cpus) :]) if hard else Source(RunnerKind.SOFTIRQ, name.strip())
        for cpu, word in zip(cpus, counts, strict=True):
            yield (cpu, source), int(word)


def _named(line: str, words: list[str]) -> Source:
    """Return a line of `/proc/interrupts`: a number is a device's, whose name is last; letters are the CPU's own."""
    if line.isdigit():
        return Source(RunnerKind.INTERRUPT, " ".join([line, *words[-1:]]))
    return Source(RunnerKind.VECTOR, " ".join(words) or line)


def _stolen(path: str) -> Iterator[tuple[int, float]]:
    tick = 1000 / os.sysconf("SC_CLK_TCK")
    for line in _lines(path):
        words = line.split()
        if words and words[0].startswith("cpu") and words[0][3:].isdigit() and len(words) > _STEAL:
            yield int(words[0][3:]), int(words[_STEAL]) * tick


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []
