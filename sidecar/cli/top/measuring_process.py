"""`disturbed` as a process of its own, so that the screen goes on meanwhile. It ends with the screen.

It is in another session: Ctrl-C and a hangup are the screen's, which tells it to end. It then ends the kernel's trace.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from sidecar.cli.top.measurement import Measurement

SECONDS: Final = 5.0
"""How long it measures: long enough for what comes once a second, short enough to wait for."""

PROGRAM: Final = (sys.executable, "-m", "sidecar")

_END_SECONDS: Final = 2.0
"""How long it may take to end the kernel's trace."""

_MOST_PRINTED: Final = 256 * 1024
"""Bytes: a page of twenty disturbers has 2 KiB."""


class MeasuringProcess:
    """The last measurement: it goes on, or it is over."""

    def __init__(self, options: Sequence[str], clock: Callable[[], float], program: Sequence[str] = PROGRAM) -> None:
        """Measure nothing yet. `options` are those of the state directory; `clock` counts seconds."""
        self._options = tuple(options)
        self._program = tuple(program)
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self._printed = b""
        self._made: Measurement | None = None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What to wait for."""
        return (self._process.stdout.fileno(),) if self._process and self._process.stdout else ()

    def start(self, id: str, name: str) -> None:
        """Measure this container, unless a measurement goes on."""
        if self._process:
            return
        command = [*self._program, "disturbed", id, "--seconds", f"{SECONDS:g}", *self._options]
        self._made = Measurement(name=name, seconds=SECONDS)
        self._printed, self._began = b"", self._clock()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this program, without a shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            self._made = msgspec.structs.replace(self._made, printed=f"cannot measure: {error.strerror}", code=1)

    def look(self) -> Measurement | None:
        """Read what was printed since, without waiting. Return the measurement as it is now."""
        if self._process and self._process.stdout and self._made:
            os.set_blocking(self._process.stdout.fileno(), False)
            with contextlib.suppress(BlockingIOError):
                while part := os.read(self._process.stdout.fileno(), 65536):
                    self._printed = (self._printed + part)[:_MOST_PRINTED]
                self._end(self._made)
        if self._process and self._made:
            self._made = msgspec.structs.replace(self._made, passed=self._clock() - self._began)
        return self._made

    def stop(self) -> None:
        """End what goes on."""
        if process := self._process:
            self._process = None
            process.terminate()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()

    def _end(self, made: Measurement) -> None:
        """Keep what was printed: its end was reached."""
        assert self._process is not None
        self._process.communicate()
        printed = self._printed.decode(errors="replace")
        self._made = msgspec.structs.replace(made, printed=printed, code=self._process.returncode)
        self._process = None


@contextmanager
def measuring(options: Sequence[str], clock: Callable[[], float]) -> Iterator[MeasuringProcess]:
    """Yield what measures; at the end of the block nothing is measured any more."""
    process = MeasuringProcess(options, clock)
    try:
        yield process
    finally:
        process.stop()
