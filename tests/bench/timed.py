"""The daemon as it is, with a stopwatch around its engine: `python -m tests.bench.timed ADDRESS STATE PROJECTIONS OUT`.

Each update is written to OUT as a JSON line: the container, the wall clock in nanoseconds when the newest event of that
container was stamped by the engine and when it was received, and when the update was sent and answered. On SIGTERM it
ends as the daemon does.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import TextIO

import trio

from sidecar.config.config import load
from sidecar.daemon import SWITCH_SECONDS, serve
from sidecar.decide.facts import ContainerView, EngineInfo
from sidecar.decide.orders import Update
from sidecar.engines.docker.docker_engine import DockerEngine, open_docker
from sidecar.log import Log, LogLevel
from sidecar.ports import EngineEvent, KeepsBack, keeps_none


class TimedEngine:
    """A DockerEngine that stamps its events and updates."""

    def __init__(self, engine: DockerEngine, out: TextIO) -> None:
        self._engine = engine
        self._out = out
        self._created: dict[str, tuple[int, int]] = {}

    @property
    def name(self) -> str:
        """The engine's name."""
        return self._engine.name

    async def info(self) -> EngineInfo:
        """Ask the engine."""
        return await self._engine.info()

    async def ping(self) -> None:
        """Ask the engine for what it answers without a lock."""
        await self._engine.info()

    async def containers(self) -> tuple[str, ...]:
        """Ask the engine."""
        return await self._engine.containers()

    @property
    def unstarted(self) -> Collection[str]:
        """Return what its list says."""
        return self._engine.unstarted

    async def inspect(self, container: str) -> ContainerView:
        """Ask the engine."""
        return await self._engine.inspect(container)

    async def glance(self, container: str) -> ContainerView:
        """Ask the engine."""
        return await self._engine.glance(container)

    async def stop(self, container: str) -> None:
        """Ask the engine."""
        await self._engine.stop(container)

    async def signal(self, container: str, signal: str) -> None:
        """Ask the engine."""
        await self._engine.signal(container, signal)

    async def update(self, container: str, update: Update) -> None:
        """Update as the engine does, and write a line about it."""
        sent = time.time_ns()
        try:
            await self._engine.update(container, update)
        finally:
            stamped, received = self._created.pop(container, (0, 0))
            row = {"id": container, "cpus": str(update.cpus), "stamped": stamped, "received": received}
            self._out.write(json.dumps({**row, "sent": sent, "answered": time.time_ns()}) + "\n")
            self._out.flush()

    @asynccontextmanager
    async def events(self, keeps_back: KeepsBack = keeps_none) -> AsyncIterator[AsyncIterator[EngineEvent]]:
        """Yield as the engine does, and record when each `create` came."""
        async with self._engine.events(keeps_back) as events:
            yield self._stamped(events)

    async def _stamped(self, events: AsyncIterator[EngineEvent]) -> AsyncIterator[EngineEvent]:
        async for event in events:
            if event.action == "create":
                self._created[event.container] = (event.time_nano, time.time_ns())
            yield event


async def main(address: str, state: str, projections: str, out: str) -> int:
    """Serve until SIGTERM."""
    flags = {"policy": "static", "reserved": "0", "state_dir": state, "projections": projections, "engine": address}
    config = load(None, {}, flags)
    with open(out, "w", buffering=1) as lines:  # noqa: ASYNC230 - before anything runs
        async with open_docker(address) as engine:
            return await serve(config, Log(level=LogLevel.WARNING), engine=TimedEngine(engine, lines))


if __name__ == "__main__":
    sys.setswitchinterval(SWITCH_SECONDS)  # as the daemon does
    where, books, told, rows = sys.argv[1:5]
    sys.exit(trio.run(main, where, books, told, rows))
