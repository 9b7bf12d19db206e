"""Where a newcomer may run at its first instruction: one after the other, four at once, and under load."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.exposure.columns import OWNED, Column, Scene, scene
from tests.bench.latency import HERE
from tests.bench.strict import busy
from tests.live.privateengine import PrivateEngine
from tests.live.waiting import eventually

_FIRST: Final = re.compile(r"first \d+ \d+ ([\d,]+)")

_AT_ONCE: Final = 4

_TURNS: Final = 2
"""How often the columns take turns."""


class Firsts(NamedTuple):
    """How many of the newcomers were off the owner's CPU when their program began."""

    way: str
    column: Column
    right: int
    of: int


WAYS: Final = {"one after the other": (1, False), "four at once": (_AT_ONCE, False), "under load": (1, True)}
"""How many at once, and whether two busy processes for each CPU run beside them."""


def firsts(engine: PrivateEngine, folder: Path, rounds: int, columns: Sequence[Column]) -> Iterator[Firsts]:
    """Start so many containers of each way in each column; the columns take turns."""
    program = folder / "first_instruction"
    subprocess.run(["gcc", "-O2", "-static", "-o", str(program), str(HERE / "first_instruction.c")], check=True)
    for way, (at_once, is_busy) in WAYS.items():
        right: dict[Column, list[bool]] = {each: [] for each in columns}
        for turn, column in itertools.product(range(_TURNS), columns):
            place = folder / f"{column.name}-{turn}-{way.replace(' ', '-')}"
            with scene(engine, column, place) as here, ThreadPoolExecutor(at_once) as pool, busy(is_wanted=is_busy):
                names = [f"first-{number}" for number in range(turn, rounds, _TURNS)]
                right[column] += pool.map(lambda name, here=here: _is_right(here, program, name), names)
        for column, all_of_it in right.items():
            yield Firsts(way, column, sum(all_of_it), len(all_of_it))


def first_cpus(printed: str) -> frozenset[int] | None:
    """Return the CPUs of the first instruction, from what the program printed; None: nothing yet."""
    found = _FIRST.search(printed)
    return frozenset(map(int, found[1].split(","))) if found else None


def _is_right(here: Scene, program: Path, name: str) -> bool:
    """Create and start one at once; return whether its first instruction was off the owner's CPU."""
    id = here.create(name, "/probe", Binds=[f"{program}:/probe:ro"])
    here.api.act(id, "start")

    def printed() -> frozenset[int] | None:
        found = here.api.ask("GET", f"containers/{id}/logs", stdout="1")
        return first_cpus(found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found))

    cpus = eventually(printed, f"{name} prints", seconds=60)
    here.api.remove(id)
    return OWNED not in cpus
