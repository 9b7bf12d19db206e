"""What containers with `cpuset.scale: load` use: measured every period, and told where it would change anything.

1. Each round takes a sample of every such container that runs; where there is none, nothing wakes up until there is.
2. A load lies between two samples of one start. Counters that went backwards, or another start, begin anew. So does
   one that was paused, stopped, or could not be read: for that time its use says nothing of what it wants.
3. The time between them is real, on a clock that nobody sets: a round may be late.
4. Nobody uses more than it has: what exceeds that is the clock's and the counter's disagreement, and would ask for a
   CPU too many just where all are busy.
5. The peak halves every half-life, and is kept over restarts for as long as the container has its grant.
6. Pressure must be there over ten seconds and over the period: the average over ten seconds still speaks of the CPUs
   that were missing when they have long come, and one period alone may be a moment's crowd.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import trio

from sidecar.board import Board
from sidecar.decide.facts import Fact, Load, LoadMeasured, Phase
from sidecar.decide.loads import follows_load, is_news
from sidecar.decide.world import Container, World
from sidecar.ports import Usage, Usages

AT_ONCE: Final = 16
"""Samples taken without letting others run: less than a millisecond."""


class Sample(NamedTuple):
    """What a container had used by a time (in seconds), on how many CPUs, since which start."""

    at: float
    usage: Usage
    cpus: int
    started_at: str


class Peak(NamedTuple):
    """The highest use in CPUs, as it counted at a time (in seconds)."""

    use: float = 0.0
    at: float = 0.0

    def after(self, seconds: float, half_life: float) -> float:
        """What is left of it after so many seconds."""
        return float(self.use * 0.5 ** (seconds / half_life))


def load_between(container: str, before: Sample, after: Sample, peak: Peak, half_life: float) -> Load | None:
    """The load between two samples; None where they have nothing to do with each other."""
    seconds = after.at - before.at
    used = after.usage.cpu_nanoseconds - before.usage.cpu_nanoseconds
    # 2. One start.
    if seconds <= 0 or used < 0 or after.started_at != before.started_at:
        return None
    # 3. and 4. Over the real time, and no more than it had.
    use = min(used / (seconds * 1e9), float(max(before.cpus, after.cpus)))
    return Load(
        container=container,
        cpus=after.cpus,
        use=use,
        # 5. The peak.
        peak=max(use, peak.after(after.at - peak.at, half_life)),
        pressure=_pressure(before.usage, after.usage, seconds),
        is_throttled=after.usage.throttled > before.usage.throttled,
    )


def _pressure(before: Usage, after: Usage, seconds: float) -> float:
    # 6. Now, and for a while.
    if before.waiting_microseconds is None or after.waiting_microseconds is None:
        return 0.0
    waited = max(0, after.waiting_microseconds - before.waiting_microseconds)
    return min(waited / (seconds * 1e4), after.pressure)


class LoadMeter:
    """Measures for as long as there is somebody to measure."""

    def __init__(
        self,
        board: Board,
        outbox: trio.MemorySendChannel[Fact],
        *,
        usages: Usages,
        period_seconds: float,
        half_life_seconds: float,
    ) -> None:
        self._board = board
        self._outbox = outbox
        self._usages = usages
        self._period = period_seconds
        self._half_life = half_life_seconds
        self._samples: dict[str, Sample] = {}
        self._peaks: dict[str, Peak] = {}

    async def run(self) -> None:
        """Measure every period, for ever."""
        # 1. Only while there is somebody.
        try:
            async for _ in self._board.worlds():
                while True:
                    if not await self.measure():
                        break
                    await trio.sleep(self._period)
        finally:
            self._usages.retain(())

    async def measure(self) -> int:
        """One round: take samples, and tell the loads that are news. How many containers were looked at."""
        world = self._board.latest
        followed = [id for id in world.state.assignments if follows_load(world, id)]
        running = [one for id in followed if (one := world.containers.get(id)) and one.view.phase is Phase.RUNNING]
        self._usages.retain(followed)
        self._peaks = {id: self._peaks[id] for id in followed if id in self._peaks}
        before, self._samples = self._samples, {}
        loads: list[Load] = []
        for count, container in enumerate(running):
            if count % AT_ONCE == AT_ONCE - 1:
                await trio.lowlevel.checkpoint()
            if load := self._load(container, before.get(container.view.id)):
                loads.append(load)
        await self._tell(self._board.latest, loads)
        return len(running)

    def _load(self, container: Container, before: Sample | None) -> Load | None:
        """The load since the last sample, if there is one; this sample is the next one's last."""
        view, at = container.view, trio.current_time()
        usage = self._usages.usage(view)
        if usage is None:
            return None
        after = Sample(at, usage, len(container.seen), view.started_at)
        self._samples[view.id] = after
        if before is None:
            return None
        load = load_between(view.id, before, after, self._peaks.get(view.id, Peak()), self._half_life)
        if load:
            self._peaks[view.id] = Peak(load.peak, at)
        return load

    async def _tell(self, world: World, loads: list[Load]) -> None:
        if news := tuple(load for load in loads if is_news(world, load)):
            await self._outbox.send(LoadMeasured(news))
