"""The CPU use of containers with `cpuset.scale: load`: measured every period, and reported if it would change anything.

1. Each round takes a sample of every such running container; while there is none, nothing wakes up.
2. The difference of two samples is a load (`decide.books.load_sample`). A container that was paused, stopped, or could
   not be read begins again: its use in that time does not show what it wants.
3. The time is that of a clock that cannot be set.
4. The peak is kept over restarts, as long as the container has its grant.
"""

from __future__ import annotations

from typing import Final

import trio

from sidecar.board import Board
from sidecar.crashes import Crashes
from sidecar.decide.books.load_sample import Peak, Sample, load_between
from sidecar.decide.books.load_wish import follows_load, is_news
from sidecar.decide.container.container import Container
from sidecar.decide.facts import Fact, Load, LoadMeasured, Phase
from sidecar.decide.world import World
from sidecar.host_ports import Usages
from sidecar.log import Log
from state.key import ContainerKey

AT_ONCE: Final = 16
"""Samples taken without letting other tasks run: less than a millisecond."""


class LoadMeter:
    """Measures while there are containers to measure."""

    def __init__(
        self,
        board: Board,
        outbox: trio.MemorySendChannel[Fact],
        *,
        usages: Usages,
        period_seconds: float,
        half_life_seconds: float,
        log: Log,
    ) -> None:
        self._board = board
        self._outbox = outbox
        self._crashes = Crashes(board, log)
        self._usages = usages
        self._period = period_seconds
        self._half_life = half_life_seconds
        self._samples: dict[ContainerKey, Sample] = {}
        self._peaks: dict[ContainerKey, Peak] = {}

    async def run(self) -> None:
        """Measure every period, until cancelled."""
        # 1. Only while there is a container to measure.
        try:
            async for _ in self._board.worlds():
                while True:
                    if not await self.measure():
                        break
                    await trio.sleep(self._period)
        finally:
            self._usages.retain(())

    async def measure(self) -> int:
        """Take samples, and report the loads that are news. Return how many containers were looked at."""
        world = self._board.latest
        followed = [key for key in world.state.assignments if follows_load(world, key)]
        running = [one for key in followed if (one := world.containers.get(key)) and one.view.phase is Phase.RUNNING]
        self._usages.retain({key.id for key in followed})
        self._peaks = {key: self._peaks[key] for key in followed if key in self._peaks}
        before, self._samples = self._samples, {}
        loads: list[Load] = []
        for count, container in enumerate(running):
            if count % AT_ONCE == AT_ONCE - 1:
                await trio.lowlevel.checkpoint()
            with self._crashes.contained(container.view.key, "measurement"):
                if load := self._load(container, before.get(container.view.key)):
                    loads.append(load)
        await self._tell(self._board.latest, loads)
        return len(running)

    def _load(self, container: Container, before: Sample | None) -> Load | None:
        """Return the load since the last sample, None if there is none; the new sample is kept for the next round."""
        view, at = container.view, trio.current_time()
        usage = self._usages.usage(view)
        if usage is None:
            return None
        after = Sample(at, usage, len(container.place.seen), view.started_at)
        self._samples[view.key] = after
        if before is None:
            return None
        load = load_between(view.key, before, after, self._peaks.get(view.key, Peak()), self._half_life)
        if load:
            self._peaks[view.key] = Peak(load.peak, at)
        return load

    async def _tell(self, world: World, loads: list[Load]) -> None:
        if news := tuple(load for load in loads if is_news(world, load)):
            await self._outbox.send(LoadMeasured(news))
