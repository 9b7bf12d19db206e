"""A measurement beside the screen: what it prints is read without waiting, and it never outlives the screen."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sidecar.cli.top.measurement import Measurement
from sidecar.cli.top.measuring_process import SECONDS, MeasuringProcess, measuring

PRINTS = "import sys; print('measured', sys.argv[1:]); sys.exit(3)"
STAYS = "import os, sys, time; open(sys.argv[-1], 'w').write(str(os.getpid())); time.sleep(60)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {STAYS}"


def process(code: str, option: str) -> MeasuringProcess:
    return MeasuringProcess([option], time.monotonic, program=(sys.executable, "-c", code))


def once(made: MeasuringProcess, is_so: Callable[[Measurement], bool]) -> Measurement:
    """Look until it is so."""
    deadline = time.monotonic() + 30
    while not ((seen := made.look()) and is_so(seen)):
        assert time.monotonic() < deadline, seen
        select.select(made.descriptors, [], [], 0.2)
    return seen


def test_what_was_printed_is_shown_with_the_exit_code() -> None:
    """It was asked about one container, for so many seconds."""
    made = process(PRINTS, "--state-dir=x")
    assert made.look() is None
    made.start("abc", "voice")
    over = once(made, lambda seen: seen.code is not None)
    assert (over.name, over.code, made.descriptors) == ("voice", 3, ())
    assert over.printed == f"measured ['disturbed', 'abc', '--seconds', '{SECONDS:g}', '--state-dir=x']\n"


@pytest.mark.parametrize("code", [STAYS, STUBBORN], ids=["heeds SIGTERM", "ignores SIGTERM"])
def test_it_ends_with_the_screen(code: str, tmp_path: Path) -> None:
    """Whatever ends the screen, and however the process behaves."""
    noted = tmp_path / "pid"
    with suppress(ZeroDivisionError), measuring([str(noted)], time.monotonic) as made:
        made._program = (sys.executable, "-c", code)
        made.start("abc", "voice")
        # Another one is not begun meanwhile.
        made.start("def", "other")
        going = once(made, lambda _: noted.exists() and noted.read_text() != "")
        assert (going.name, going.code) == ("voice", None)
        raise ZeroDivisionError
    with pytest.raises(ProcessLookupError):
        os.kill(int(noted.read_text()), 0)


def test_a_program_that_cannot_be_started_is_a_measurement_that_failed() -> None:
    """The screen goes on."""
    made = MeasuringProcess([], time.monotonic, program=("/no/such/program",))
    made.start("abc", "voice")
    assert made.look() == Measurement(
        name="voice", seconds=SECONDS, printed="cannot measure: No such file or directory", code=1
    )
