"""What the bench of exposure prints: every row for people and for programs, and the CPUs of a first instruction."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sidecar.words.hands import no_hand
from tests.bench.exposure.__main__ import Row, as_json, shown
from tests.bench.exposure.attacks import Locked, Looped
from tests.bench.exposure.columns import NO_HAND, Column
from tests.bench.exposure.engine_restart import Restarted
from tests.bench.exposure.first_cpus import Firsts, first_cpus
from tests.bench.exposure.judging import Exposure
from tests.bench.exposure.newcomers import Rate
from tests.bench.latency import HERE

EXPOSURE = Exposure(percent=240.0, any_percent=99.0, ever=3, newcomers=4, longest_ms=64.5)

ROWS: list[tuple[Row, str]] = [
    (Rate(8, Column.NONE, EXPOSURE, 12.0, 1.0, 0.5), "240.00 % of the time, at least one 99.00 %; 3 of 4 ever"),
    (Firsts("four at once", Column.HAND, 199, 200), "with the hand: off the owner's CPU 199 of 200"),
    (Looped(6, Column.ENGINE, EXPOSURE, 70.0), "6 loops of updates, engine alone"),
    (Locked(30, Column.ENGINE, None, 12.0), "alone after never, settled after 12 ms"),
    (
        Restarted(20, Column.DEAD, EXPOSURE, owner_is_back=False, seconds=9.0),
        "all run after 9.0 s, the owner is not back",
    ),
]


@pytest.mark.parametrize(("row", "words"), ROWS)
def test_a_row_is_for_people_and_for_programs(row: Row, words: str) -> None:
    """Both name the column; the program's has all fields, those of the exposure included."""
    assert words in shown(row)
    told = json.loads(as_json(row))
    assert told["row"].keys() == set(row._fields)
    assert told["row"]["column"] == row.column.value
    if "exposure" in told["row"]:
        assert told["row"]["exposure"] == EXPOSURE._asdict()


def test_a_daemon_without_a_hand_is_recognised() -> None:
    """By the line that it logs: its figures would stand in the wrong column."""
    assert no_hand("there is no mount").startswith(NO_HAND)


def test_the_first_line_of_the_program_names_its_cpus() -> None:
    assert first_cpus("") is None
    assert first_cpus("first 2 1795360317496774 0,11\nchanged 1 500\n") == frozenset({0, 11})


@pytest.mark.skipif(not shutil.which("gcc"), reason="there is no gcc")
def test_the_program_tells_where_it_runs(tmp_path: Path) -> None:
    """Its first act is to print the CPUs that it was started with."""
    program, last = tmp_path / "first", max(os.sched_getaffinity(0))
    subprocess.run(["gcc", "-O1", "-o", str(program), str(HERE / "first_instruction.c")], check=True)
    with subprocess.Popen(["taskset", "-c", str(last), str(program)], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert first_cpus(running.stdout.readline()) == frozenset({last})
        running.kill()
