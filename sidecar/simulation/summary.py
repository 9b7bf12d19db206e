"""Summary: a history in figures: how many CPUs each container had on average, how often they moved, and how fast."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from sidecar.simulation.happenings import Frame, Happening, What
from sidecar.simulation.virtual_host import Simulation


class ContainerSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One container over the `seconds` in which it ran.

    `average`, `least` and `most` are the CPUs that it could run on; `used` is its average use of them, if its work was
    always on those CPUs. `moves` counts changes of its grant. `waits` are the seconds from each decision until it ran
    exactly there, alone.
    """

    name: str
    seconds: float
    average: float
    least: int
    most: int
    used: float
    moves: int
    waits: tuple[float, ...] = ()


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The whole history. `waits_median` and `waits_most` are over all containers, None if none waited."""

    seconds: float
    moves: int
    acknowledged: int
    forced: int
    waits_median: float | None
    waits_most: float | None
    containers: tuple[ContainerSummary, ...]
    broken: tuple[str, ...] = ()


def summary_of(simulation: Simulation) -> Summary:
    """Return the figures up to now."""
    names = list(dict.fromkeys(each.name for frame in simulation.frames for each in frame.holdings))
    found = tuple(_one(name, simulation.frames, simulation.log, simulation.now) for name in names)
    waits = [wait for each in found for wait in each.waits]
    return Summary(
        seconds=simulation.now,
        moves=sum(each.moves for each in found),
        acknowledged=simulation.world.state.acknowledged,
        forced=simulation.world.state.forced,
        waits_median=median(waits) if waits else None,
        waits_most=max(waits, default=None),
        containers=found,
        broken=tuple(simulation.broken),
    )


def _one(name: str, frames: Sequence[Frame], log: Sequence[Happening], now: float) -> ContainerSummary:
    ends = [frame.at for frame in frames[1:]] + [now]
    seconds = size = used = 0.0
    sizes: list[int] = []
    moves, granted = 0, None
    for frame, end in zip(frames, ends, strict=True):
        held = next((each for each in frame.holdings if each.name == name), None)
        if held and held.granted is not None and granted is not None and held.granted != granted:
            moves += 1
        granted = held.granted if held else None
        if held is None or not held.cpus or end <= frame.at:
            continue
        lasted, count = end - frame.at, len(held.cpus)
        seconds, size, used = seconds + lasted, size + count * lasted, used + min(held.wants, count) * lasted
        sizes.append(count)
    return ContainerSummary(
        name=name,
        seconds=round(seconds, 6),
        average=round(size / seconds, 3) if seconds else 0.0,
        least=min(sizes, default=0),
        most=max(sizes, default=0),
        used=round(used / seconds, 3) if seconds else 0.0,
        moves=moves,
        waits=tuple(
            e.seconds for e in log if e.container == name and e.what == What.IN_PLACE and e.seconds is not None
        ),
    )
