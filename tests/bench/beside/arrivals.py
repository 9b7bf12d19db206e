"""One arrival: it asks for a CPU, is created, started, told that it is settled and alone, and removed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from tests.bench.latency import IMAGE
from tests.live.engineapi import EngineApi
from tests.live.sidecarprocess import SidecarProcess
from tests.live.waiting import eventually
from tests.live.watching import WAITING


class Arrival(NamedTuple):
    """One arrival; all but `id` and `load` are nanoseconds of the wall clock, 0 for what was not measured."""

    id: str
    created: int
    """When its creation was asked for."""
    asked: int
    """When its start was asked for."""
    answered: int
    """When that was answered."""
    started: int
    """When the engine says that it was started."""
    known: int
    """When a client that asked from the beginning had the engine's description of it as running."""
    told: int
    load: float

    @property
    def daemons_part(self) -> float:
        """The seconds from when a client had that description until the arrival was told; 0 if it was told before."""
        return max(0, self.told - self.known) / 1e9

    @property
    def until_told(self) -> float:
        """The seconds from its start, by the engine's clock, until it was told."""
        return max(0, self.told - self.started) / 1e9


def arrival(api: EngineApi, sidecar: SidecarProcess | None, name: str) -> Arrival:
    """Let one arrive, and remove it."""
    created = time.time_ns()
    id = api.create(name, IMAGE, "sleep", "3600", labels=WAITING)
    with once_described(api, id) as known:
        asked = time.time_ns()
        api.act(id, "start")
        answered = time.time_ns()
    told = 0
    if sidecar is not None:
        eventually(lambda: (it := sidecar.projection(id)) and it.settled and it.alone, "it is told", seconds=60)
        seen = sidecar.projection(id)
        told = int(datetime.fromisoformat(seen.updated_at).timestamp() * 1e9) if seen else 0
    started_at = datetime.fromisoformat(api.inspect(id)["State"]["StartedAt"][:26] + "+00:00")
    load = float(Path("/proc/loadavg").read_text().split()[0])
    api.remove(id)
    return Arrival(id, created, asked, answered, int(started_at.timestamp() * 1e9), known[0], told, load)


@contextmanager
def once_described(api: EngineApi, id: str) -> Iterator[list[int]]:
    """Ask for its description during the block, without pause, and until it says that it runs. Then the list has that
    time, in nanoseconds of the wall clock.
    """
    known: list[int] = []

    def until_described() -> None:
        while not api.inspect(id)["State"]["Running"]:
            pass
        known.append(time.time_ns())

    asking = threading.Thread(target=until_described)
    asking.start()
    yield known
    asking.join()
