"""A terminal in tmux: a program in it, its keys, and its screen as text. A shell is below, as it is for people."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.sources import ROOT

PATIENCE_SECONDS: Final = 40.0

_BASH: Final = "bash --norc --noprofile"

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux: .ci/run installs it")


class TmuxScreen:
    """One screen on a server of its own."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux.sock")

    def run(self, *words: str) -> str:
        """Run a command of tmux."""
        command = ["tmux", "-S", self._socket, "-f", "/dev/null", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout

    def type(self, line: str) -> None:
        """Type a line into the shell, and Enter."""
        self.run("send-keys", "-l", line)
        self.run("send-keys", "Enter")

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self.run("send-keys", *keys)

    def text(self) -> str:
        """Return the screen, without spaces at the ends of lines."""
        return self.run("capture-pane", "-p")

    def state(self) -> tuple[str, ...]:
        """Return whether the alternate screen, the mouse and the cursor are on, and line ends wrap."""
        formats = ("alternate_on", "mouse_any_flag", "mouse_sgr_flag", "cursor_flag", "wrap_flag")
        return tuple(self.run("display-message", "-p", " ".join(f"#{{{each}}}" for each in formats)).split())

    def wait_for(self, is_so: Callable[[str], bool]) -> str:
        """Return the screen once it is so; fail with it otherwise."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so(text := self.text()):
            assert time.monotonic() < deadline, text
            time.sleep(0.05)
        return text

    def settings(self, number: int) -> str:
        """Return how the terminal is set, by `stty -a` in the shell, which is asked for the `number`th time."""
        self.type(f"clear; stty -a; echo asked-{number}")
        text = self.wait_for(lambda text: f"\nasked-{number}" in text)
        return text[text.index("speed") : text.index(f"\nasked-{number}")]


@contextmanager
def tmux_screen(folder: Path, width: int, height: int, shell: str = _BASH) -> Iterator[TmuxScreen]:
    """Yield a screen of this size with a shell in it."""
    screen = TmuxScreen(folder)
    size = ["-x", str(width), "-y", str(height)]
    screen.run("-u", "new-session", "-d", *size, "-c", str(ROOT), f"LANG=C.UTF-8 exec {shell}")
    try:
        screen.wait_for(lambda text: bool(text.strip()))
        yield screen
    finally:
        screen.run("kill-server")
