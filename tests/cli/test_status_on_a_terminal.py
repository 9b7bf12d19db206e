"""On a terminal, status is coloured, and `--watch` follows the document until Ctrl-C, leaving the screen as it was."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sidecar.status.describe import status_of
from sidecar.status.status_file import write_status
from state.topology import uniform
from tests.cli.worlds import container, world

FOUR = uniform(cores=4)


class Terminal:
    """The command on a terminal of its own, with its output so far."""

    def __init__(self, *args: str, program: Sequence[str] = ("-m", "sidecar"), **environ_of_it: str) -> None:
        self._side, inner = pty.openpty()
        environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30", **environ_of_it}
        environ.pop("NO_COLOR", None)
        command = [sys.executable, *program, *args]
        self.process = subprocess.Popen(
            command, stdin=inner, stdout=inner, stderr=inner, env=environ, preexec_fn=hear_interrupts
        )
        os.close(inner)
        self.written = ""

    def wait_until(self, is_so: Callable[[str], bool]) -> None:
        """Read until the condition holds for the output; fail after 20 seconds, or when the program ended without."""
        deadline = time.monotonic() + 20
        while not is_so(self.written):
            assert time.monotonic() < deadline, self.written
            if not select.select([self._side], [], [], 0.2)[0]:
                continue
            try:
                self.written += os.read(self._side, 65536).decode(errors="replace")
            except OSError:  # EIO: the program closed its side
                break
        assert is_so(self.written), self.written

    def press(self, keys: str) -> None:
        """Type these keys."""
        os.write(self._side, keys.encode())

    def settings(self) -> object:
        """Return how the terminal is set: echo, lines, signals."""
        return termios.tcgetattr(self._side)[:4]

    def close(self) -> None:
        """Kill the remaining processes."""
        self.process.kill()
        self.process.wait()
        os.close(self._side)


def hear_interrupts() -> None:
    """Restore Ctrl-C: tests that run in the background ignore it, and a child would inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_watch_follows_the_document_until_interrupted(tmp_path: Path) -> None:
    """A new container appears without asking again; Ctrl-C ends it at once and cleanly."""
    write_status(tmp_path, status_of(world(FOUR, container("web", exclusive=2))))
    terminal = Terminal("status", "--watch", "--state-dir", str(tmp_path))
    try:
        terminal.wait_until(lambda text: "settled, alone" in text and "A web" in text)
        assert "second" not in terminal.written
        write_status(tmp_path, status_of(world(FOUR, container("web", exclusive=2), container("second", exclusive=1))))
        terminal.wait_until(lambda text: "B second" in text)
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait_until(lambda text: "\x1b[?1049l" in text)  # back from the alternate screen
        assert terminal.process.wait(20) == 0
        assert "Traceback" not in terminal.written
    finally:
        terminal.close()


def test_a_page_that_is_longer_than_the_screen_says_so_and_scrolls(tmp_path: Path) -> None:
    """The last line has the numbers; the space bar shows the rest; `q` ends it, and the terminal echoes again."""
    names = [f"svc-{number}" for number in range(1, 41)]
    write_status(tmp_path, status_of(world(FOUR, *map(container, names))))
    terminal = Terminal("status", "--watch", "--state-dir", str(tmp_path))
    try:
        before = terminal.settings()
        terminal.wait_until(lambda text: "lines 1-29 of 48" in text)
        assert "svc-40" not in terminal.written
        terminal.press(" ")
        terminal.wait_until(lambda text: "lines 20-48 of 48" in text and "svc-40" in text)
        terminal.press("q")
        assert terminal.process.wait(20) == 0
        assert terminal.settings() == before
    finally:
        terminal.close()


def test_a_terminal_gets_colours(tmp_path: Path) -> None:
    """Each exclusive container has one of its own, in table, map and legend."""
    write_status(tmp_path, status_of(world(FOUR, container("web", exclusive=1), container("db", exclusive=1))))
    terminal = Terminal("status", "--state-dir", str(tmp_path))
    try:
        terminal.wait_until(lambda text: ". shared" in text)
        colours = {mark: set(re.findall(rf"\x1b\[([0-9;]+)m\d{mark}\x1b", terminal.written)) for mark in "AB"}
        assert all(len(found) == 1 for found in colours.values())
        assert colours["A"] != colours["B"]
        terminal.process.wait(20)
    finally:
        terminal.close()
