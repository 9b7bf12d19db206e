"""Two attacks by tenants: containers that update themselves onto the owner's CPU in a loop, and containers whose lock
in the engine is held by a slow copy.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.exposure.columns import OWNED, Column, Scene, scene
from tests.bench.exposure.judging import Exposure, Notes, added, exposure_of, judge
from tests.live.engineapi import ApiError, lock_held
from tests.live.privateengine import PrivateEngine
from tests.live.waiting import eventually

_PACE: Final = 1 / 70
"""Seconds between two updates of one loop, if the engine is that fast."""

_LIMIT: Final = 70.0
"""Seconds after which an arrival beside locked containers counts as stuck."""

_SLICES: Final = 2
"""How often the columns take turns."""


class Looped(NamedTuple):
    """So many loops in one column: the time of the attackers on the owner's CPU, and how many updates they made."""

    loops: int
    column: Column
    exposure: Exposure
    updates_a_second: float


class Locked(NamedTuple):
    """An exclusive arrival beside so many locked containers; milliseconds after its start was asked for, None: not
    within 70 s. `alone` is the judge's word, `settled` the projection's.
    """

    locked: int
    column: Column
    alone_ms: float | None
    settled_ms: float | None


def loops(
    engine: PrivateEngine, folder: Path, count: int, seconds: float, columns: Sequence[Column]
) -> Iterator[Looped]:
    """Let so many containers be updated to the owner's CPU for that time in each column; the columns take turns."""
    found: dict[Column, list[tuple[float, Exposure]]] = {each: [] for each in columns}
    updates = dict.fromkeys(columns, 0)
    for turn, column in itertools.product(range(_SLICES), columns):
        with scene(engine, column, folder / f"loops-{column.name}-{count}-{turn}") as here:
            ids = [_running(here, f"evil-{number}") for number in range(count)]
            until = time.monotonic() + seconds / _SLICES
            parent = here.parent_of(here.owner)
            with ThreadPoolExecutor(count) as pool, judge(folder, OWNED, parent) as judging:
                began = time.monotonic()
                updates[column] += sum(pool.map(lambda id, at=here, end=until: _updated(at, id, end), ids))
                found[column].append((time.monotonic() - began, exposure_of(judging.end(), (here.owner,))))
    for column, rows in found.items():
        yield Looped(count, column, added(rows), updates[column] / sum(took for took, _ in rows))


def locked_beside(engine: PrivateEngine, folder: Path, count: int, columns: Sequence[Column]) -> Iterator[Locked]:
    """Let one exclusive container arrive beside so many whose lock is held, in each column with a sidecar."""
    for column in columns:
        if column in (Column.NONE, Column.APART):
            continue
        with scene(engine, column, folder / f"locks-{column.name}-{count}", has_owner=False) as here:
            ids = [_running(here, f"slow-{number}") for number in range(count)]
            with ExitStack() as held, judge(folder, OWNED, here.parent_of(ids[0])) as judging:
                for id in ids:
                    held.enter_context(lock_held(here.api, id))
                id = here.create_exclusive("arrival")
                began = time.monotonic_ns()
                here.api.act(id, "start")
                settled = _until_settled(here, id)
                notes = judging.end()
            yield Locked(count, column, _after(began, notes, id), None if settled is None else (settled - began) / 1e6)


def _running(here: Scene, name: str) -> str:
    """Start a plain container; return its id once it lives."""
    id = here.create(name)
    here.api.act(id, "start")
    return id


def _updated(here: Scene, id: str, until: float) -> int:
    """Update one container to the owner's CPU, again and again; return how often."""
    count = 0
    while time.monotonic() < until:
        began = time.monotonic()
        with suppress(ApiError):
            here.api.update(id, CpusetCpus=str(OWNED))
        count += 1
        time.sleep(max(0.0, _PACE - (time.monotonic() - began)))
    return count


def _until_settled(here: Scene, id: str) -> int | None:
    """Wait until the arrival's projection says settled; return the monotonic clock then, None after the limit."""
    assert here.sidecar is not None
    sidecar = here.sidecar

    def look() -> int:
        told = sidecar.projection(id)
        return time.monotonic_ns() if told and told.settled and told.cpus else 0

    with suppress(AssertionError):
        return eventually(look, "it is settled", seconds=_LIMIT)
    return None


def _after(began: int, notes: Notes, id: str) -> float | None:
    """Return the milliseconds from then until the container was alone."""
    at = notes.alone_at(id)
    return None if at is None else max(0, at - began) / 1e6
