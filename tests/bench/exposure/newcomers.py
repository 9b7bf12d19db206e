"""Clients that create and start plain short containers without pause, and the exposure of these beside an owner."""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.exposure.columns import OWNED, Column, Scene, scene
from tests.bench.exposure.judging import Exposure, Notes, added, exposure_of, judge
from tests.bench.latency import IMAGE
from tests.live.privateengine import PrivateEngine

_COMMAND: Final = ("sleep", "0.1")
"""What a newcomer does. Short, so that its birth is a large part of its life."""

_SLICES: Final = 3
"""How often the columns take turns."""


class Rate(NamedTuple):
    """The exposure with so many clients in one column; `a_second` counts containers that have come and gone."""

    clients: int
    column: Column
    exposure: Exposure
    a_second: float
    ratio: float
    """To the same without a sidecar, in the same run; 0 where that was not measured."""
    longest_pass_ms: float
    """Of the judge: the time that it cannot see into."""


def exposures(
    engine: PrivateEngine, folder: Path, clients: int, seconds: float, columns: Sequence[Column]
) -> Iterator[Rate]:
    """Measure so many clients for that time in each column; the columns take turns."""
    found: dict[Column, list[tuple[float, Exposure, int, float]]] = {each: [] for each in columns}
    for turn, column in itertools.product(range(_SLICES), columns):
        with scene(engine, column, folder / f"{column.name}-{clients}-{turn}") as here:
            finished, notes, took = _slice(here, folder, clients, seconds / _SLICES)
        found[column].append((took, exposure_of(notes, (here.owner,)), finished, notes.longest / 1e6))
    rates = {each: sum(row[2] for row in rows) / sum(row[0] for row in rows) for each, rows in found.items()}
    bare = rates.get(Column.NONE, 0.0)
    for column, rows in found.items():
        together = added([(took, exposure) for took, exposure, _, _ in rows])
        if rates[column] and not together.newcomers:
            raise RuntimeError(f"{column.value}: the judge saw none of the newcomers")
        ratio = rates[column] / bare if bare else 0.0
        yield Rate(clients, column, together, rates[column], ratio, max(row[3] for row in rows))


def _slice(here: Scene, folder: Path, clients: int, seconds: float) -> tuple[int, Notes, float]:
    """Let the clients work; return how many containers came and went, the judge's notes, and the seconds."""
    until = time.monotonic() + seconds
    with ThreadPoolExecutor(clients) as pool, judge(folder, OWNED, here.parent_of(here.owner)) as judging:
        began = time.monotonic()
        working = [pool.submit(_client, here, number, until) for number in range(clients)]
        finished = sum(each.result() for each in working)
        took = time.monotonic() - began
        return finished, judging.end(), took


def _client(here: Scene, number: int, until: float) -> int:
    """Bring containers until then, by the API and by `docker run` in turn; return how many."""
    ways: tuple[Callable[[Scene, str], None], ...] = (_created_and_started, _docker_run)
    for count in itertools.count():
        if time.monotonic() >= until:
            return count
        ways[(number + count) % 2](here, f"new-{number}-{count}")
    raise AssertionError


def _created_and_started(here: Scene, name: str) -> None:
    id = here.create(name, *_COMMAND, CpusetCpus=here.pin)
    here.api.act(id, "start")
    here.api.act(id, "wait")
    here.api.remove(id)


def _docker_run(here: Scene, name: str) -> None:
    flags = ["--rm", "--network", "none", "--name", name, *([f"--cpuset-cpus={here.pin}"] if here.pin else [])]
    command = ["docker", "run", *flags, IMAGE, *_COMMAND]
    environment = {**os.environ, "DOCKER_HOST": f"unix://{here.api.socket_path}"}
    subprocess.run(command, check=True, capture_output=True, env=environment)
