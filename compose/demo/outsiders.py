"""What else used the exclusive CPUs: time and names, from the host's /proc. A cpuset keeps containers off a CPU, and
nothing else: the host's processes, another engine's containers, kernel threads, and the hypervisor below may use it.

`Lookout` samples, `Outside` is the pure answer.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compose.demo.evidence import Outside, Span
from compose.demo.sampler import Sampler, on_cpu

PERIOD_SECONDS: Final = 0.2
"""A look at every thread of a host takes some milliseconds, which are themselves time on a CPU."""

MOST_NAMES: Final = 3

_TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

_WORKING: Final = (0, 1, 2, 5, 6)
"""Fields of a line of /proc/stat behind its name: user, nice, system, irq, softirq (proc(5)). `guest` is in `user`."""

_STOLEN: Final = 7


@dataclass(frozen=True)
class Sweep:
    """One look, at a moment of CLOCK_MONOTONIC in nanoseconds: how long each CPU has worked and how long it was stolen
    since the machine started, in nanoseconds, and the programs that were running or ready on each CPU.
    """

    at: int
    worked: Mapping[int, int]
    stolen: Mapping[int, int]
    programs: Mapping[int, tuple[str, ...]]


def outside_of(sweeps: Sequence[Sweep], spans: Iterable[Span], own_share: float) -> Outside | None:
    """Return what used the CPUs of these spans beside the container, whose share of each is `own_share`; or None."""
    worked = stolen = length = 0
    names: Counter[str] = Counter()
    for span in spans:
        within = [sweep for sweep in sweeps if span.since <= sweep.at < span.until]
        for sweep in within:
            names.update({name for cpu in span.cpus for name in sweep.programs.get(cpu, ())})
        if len(within) < 2:
            continue
        first, last = within[0], within[-1]
        for cpu in span.cpus:
            length += last.at - first.at
            worked += last.worked.get(cpu, 0) - first.worked.get(cpu, 0)
            stolen += last.stolen.get(cpu, 0) - first.stolen.get(cpu, 0)
    if not length:
        return None
    most = [name for name, _ in names.most_common(MOST_NAMES)]
    return Outside(max(0.0, worked / length - own_share), stolen / length, tuple(most))


def busy(stat: str) -> tuple[dict[int, int], dict[int, int]]:
    """Return how long each CPU has worked, and how long it was stolen, from the text of /proc/stat."""
    worked, stolen = {}, {}
    for line in stat.splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit():
            ticks = [int(field) for field in fields]
            worked[int(name[3:])] = sum(ticks[place] for place in _WORKING) * _TICK_NS
            stolen[int(name[3:])] = ticks[_STOLEN] * _TICK_NS
    return worked, stolen


class Lookout:
    """Samples from `start` to `stop`. The processes `apart` are the container's own, which do not count."""

    def __init__(self) -> None:
        self._apart: frozenset[int] = frozenset()
        self._sweeps: list[Sweep] = []
        self._sampler = Sampler(PERIOD_SECONDS, self._sweep)

    def start(self, apart: Collection[int]) -> None:
        """Begin sampling. Without any process `apart`, the engine is on another host: there is nothing to see here."""
        self._apart = frozenset(apart)
        if apart:
            self._sampler.start()

    def stop(self) -> None:
        """End sampling; the sweeps stay."""
        self._sampler.stop()

    @property
    def sweeps(self) -> list[Sweep]:
        """What was seen so far."""
        return list(self._sweeps)

    def _sweep(self) -> None:
        at = time.monotonic_ns()
        worked, stolen = busy(Path("/proc/stat").read_text())
        self._sweeps.append(Sweep(at, worked, stolen, self._programs()))

    def _programs(self) -> dict[int, tuple[str, ...]]:
        found: dict[int, list[str]] = {}
        for process in Path("/proc").glob("[0-9]*"):
            if int(process.name) in self._apart:
                continue
            # It may end during the look.
            with suppress(OSError, IndexError):
                for task in (process / "task").iterdir():
                    if seen := on_cpu((task / "stat").read_text()):
                        found.setdefault(seen[0], []).append(seen[1])
        return {cpu: tuple(names) for cpu, names in found.items()}
