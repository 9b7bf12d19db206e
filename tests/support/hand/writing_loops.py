"""Programs that write a cpuset in a loop, as fast as the kernel lets them: `writing_loop.c`, compiled."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

_SOURCE: Final = Path(__file__).with_name("writing_loop.c")


class Loops(NamedTuple):
    """So many programs that write these lines in turn, with a pause in microseconds after each."""

    programs: int
    pause_us: int
    lines: tuple[str, ...]


def build(folder: Path) -> Path:
    """Return the program; skip without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    made = folder / "writing-loop"
    subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-o", str(made), str(_SOURCE)], check=True)
    return made


@contextmanager
def writing(program: Path, file: Path, loops: Loops) -> Iterator[None]:
    """Have them write a file while the block runs."""
    command = [str(program), str(loops.pause_us), str(file), *loops.lines]
    started = [subprocess.Popen(command) for _ in range(loops.programs)]
    try:
        yield
        assert [each.poll() for each in started] == [None] * loops.programs, "a loop ended by itself"
    finally:
        for each in started:
            each.kill()
            each.wait()
