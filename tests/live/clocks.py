"""Wall clocks that jump: one that a single process sees, and the machine's own, where that is allowed."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import time
from pathlib import Path
from typing import Final

import pytest

MAY_SET: Final = "CPUSET_TESTS_MAY_SET_CLOCK"
"""Set to 1 on a machine whose clock may be set: a virtual one, that nobody else uses."""

_SOURCE: Final = Path(__file__).with_name("fakeclock.c")


class FakeClock:
    """Seen only by processes that are started with `wrapper`: the engine and the tests keep their own."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("a clock for one process needs a C compiler")
        library, self._file = folder / "fakeclock.so", folder / "fakeclock"
        done = subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"],
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            pytest.skip(f"a clock for one process cannot be compiled here: {done.stderr[-300:]}")
        self._seconds = 0
        self.put_back()
        self.wrapper = ("env", f"LD_PRELOAD={library}", f"CPUSET_FAKE_CLOCK={self._file}")

    def jump(self, seconds: int) -> None:
        """Set the clock forward, or backward."""
        self._seconds += seconds
        self._write()

    def put_back(self) -> None:
        """Undo all jumps."""
        self._seconds = 0
        self._write()

    def _write(self) -> None:
        # Not truncated: the file is mapped.
        opened = os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(opened, struct.pack("=q", self._seconds), 0)
        os.close(opened)


class MachineClock:
    """The machine's own clock. Skips where setting it is not allowed."""

    wrapper: tuple[str, ...] = ()

    def __init__(self) -> None:
        if os.environ.get(MAY_SET) != "1":
            pytest.skip(f"needs a machine whose clock may be set ({MAY_SET}=1); a fake clock does the same here")
        self._jumped = 0

    def jump(self, seconds: int) -> None:
        """Set the clock forward, or backward."""
        time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME) + seconds)
        self._jumped += seconds

    def put_back(self) -> None:
        """Undo all jumps; the time that passed meanwhile is kept."""
        self.jump(-self._jumped)


Clock = FakeClock | MachineClock
