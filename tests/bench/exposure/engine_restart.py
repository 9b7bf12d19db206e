"""An engine that is restarted, with containers that it starts again by their policy before it answers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.exposure.columns import ALWAYS, OWNED, Column, Scene, scene
from tests.bench.exposure.judging import Exposure, exposure_of, judge
from tests.live.kernelview import KernelView
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import LAST
from tests.live.waiting import eventually

_LIMIT: Final = 120.0
"""Seconds until all of them run again."""

_SETTLED_SECONDS: Final = 3.0
"""How long the judge looks on when all of them run."""

_LINGER: Final = "10m"
"""The CPU stays the owner's while its engine is away, so that whatever is there meanwhile counts."""


class Restarted(NamedTuple):
    """So many containers across a restart of their engine, in one column."""

    restarted: int
    column: Column
    exposure: Exposure
    owner_is_back: bool
    """On its CPU: not waited for beside a daemon that is dead, or dies before it can answer."""
    seconds: float
    """From the engine's end until all run again."""


def restarts(engine: PrivateEngine, folder: Path, count: int, columns: Sequence[Column]) -> Iterator[Restarted]:
    """Restart the engine with so many containers beside an owner, in each column."""
    for column in columns:
        with scene(engine, column, folder / f"restart-{column.name}-{count}", linger=_LINGER) as here:
            ids = [here.create(f"always-{number}", CpusetCpus=here.pin, **ALWAYS) for number in range(count)]
            for id in ids:
                here.api.act(id, "start")
            _until_running(ids)
            with judge(folder, OWNED, here.parent_of(here.owner)) as judging:
                began = time.monotonic()
                engine.stop()
                engine.start()
                _until_running(ids)
                took = time.monotonic() - began
                is_back = column not in (Column.DEAD, Column.KILLED) and _is_back(here)
                time.sleep(_SETTLED_SECONDS)
                notes = judging.end()
            if (returned := len(notes.returned((here.owner,)))) < count:
                raise RuntimeError(f"{column.value}: the judge saw {returned} of {count} return")
            yield Restarted(count, column, exposure_of(notes, (here.owner,)), is_back, took)


def _until_running(ids: Sequence[str]) -> None:
    eventually(lambda: len(KernelView().all_allowed(ids)) == len(ids), "all of them run", seconds=_LIMIT)


def _is_back(here: Scene) -> bool:
    """Wait until the owner is on its CPU again; return whether it is."""
    try:
        return eventually(lambda: KernelView().allowed(here.owner) == LAST, "the owner is back", seconds=_LIMIT)
    except AssertionError:
        return False
