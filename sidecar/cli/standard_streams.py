"""The standard streams of a command, whatever it was started with: each is there, and a failure to print has a name.

1. Python has None for a stream that was closed (`>&-`). It is replaced by one that fails when it is used: stdin cannot
   be read, stdout cannot be written. What is said to a closed stderr is lost, as was asked for. The descriptor is
   taken, too: otherwise the next file that is opened would become the program's stdout.
2. What cannot be printed raises OutputUnwritable, and no OSError: some of these mean something else on their way up,
   and argparse ignores them all. Only a reader that left (`head`) stays a BrokenPipeError, which is no failure.
3. What is still in a buffer at the end is written before the exit code is known; what cannot be is dropped, because
   Python would try it again at its exit, and complain.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sidecar.failures import OutputUnwritable, SidecarError
from state import files


class _Output(io.FileIO):
    """The file below stdout, which names its failures (2)."""

    def write(self, data: Any) -> int:  # a buffer, a type of Python 3.12
        """Write some of the data. Raise OutputUnwritable or BrokenPipeError."""
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            why = "it is not open for writing" if error.errno == errno.EBADF else files.reason(error)
            raise OutputUnwritable(f"stdout cannot be written: {why}") from error


def set_up() -> None:
    """Replace the streams that are closed, and stdout by one that names its failures."""
    # A test that captures stdout has put another one there.
    is_own = sys.stdout is sys.__stdout__
    # 1. In the order of their descriptors: the lowest free one is taken.
    if sys.stdin is None:
        sys.stdin = open(os.open(os.devnull, os.O_WRONLY), encoding="utf-8")  # noqa: SIM115 - until the program ends
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the program ends
    if is_own and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _named(sys.stdout)


@contextmanager
def written() -> Iterator[None]:
    """Write all that the block printed, also if it ended by SystemExit, as argparse does after a help (3).

    Raise OutputUnwritable or BrokenPipeError.
    """
    try:
        yield
    except SystemExit:
        sys.stdout.flush()
        raise
    sys.stdout.flush()


def drop_unwritable() -> None:
    """Write what is left in the buffers; drop what cannot be written (3)."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, SidecarError):
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _named(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """Return a stream onto the same file, with the same properties, that names its failures."""
    raw = _Output(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        # Under `python -u` there is no buffer.
        raw if stream.write_through else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
