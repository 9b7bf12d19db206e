"""`top` before a daemon on a real engine, on terminals of four sizes in tmux: what happens is seen on the screen, and
the terminal is left as it was.
"""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path

import pytest

from tests.cli.top.test_terminal import pids
from tests.cli.top.tmux_screen import needs_tmux, tmux_screen
from tests.live.containers import SLEEP, Containers
from tests.live.sidecarprocess import LAST, SidecarProcess

pytestmark = [pytest.mark.live, needs_tmux, pytest.mark.timeout(180)]

SHELL = 100, 30
"""The size of the shell before and after: a small one has no room for its settings."""

SIZES = ((80, 24), (120, 40), (250, 70), (40, 12))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_screen_follows_what_the_engine_does_and_is_gone_after_a_signal(
    size: tuple[int, int], running: SidecarProcess, workloads: Containers, tmp_path: Path
) -> None:
    """A container comes, has its CPU alone, and goes; so does the daemon. Its screen is printed, to be looked at."""
    workloads.run("web", *SLEEP)
    named = f"A {workloads.prefix}"[:9]
    with tmux_screen(tmp_path, *SHELL) as screen:
        before, state = screen.settings(1), screen.state()
        screen.run("resize-window", "-x", str(size[0]), "-y", str(size[1]))
        screen.type("clear; " + shlex.join(running.command_line("top")))
        screen.wait_for(lambda text: "q end" in text and "shared" in text)
        voice = workloads.create("voice", *SLEEP, labels={"cpuset.exclusive": "1"})
        workloads.api.act(voice, "start")
        running.until(voice, lambda it: it.is_settled and it.cpus == LAST, "it has its CPU")
        text = screen.wait_for(lambda text: named in text and "settled, al" in text)
        print(f"\n{text}")
        lines = text.rstrip("\n").split("\n")
        assert (len(lines), max(map(len, lines)) <= size[0]) == (size[1], True)
        assert f"{LAST}A" in text
        running.kill()
        screen.wait_for(lambda text: "DAEMON IS NOT RUNNING" in text)
        running.start()
        screen.wait_for(lambda text: "the daemon is running" in text and named in text)
        workloads.api.remove(voice)
        screen.wait_for(lambda text: named not in text and "shared" in text)
        for process in pids(screen):
            os.kill(process, signal.SIGTERM)
        screen.wait_for(lambda _: screen.state() == state and not pids(screen))
        screen.run("resize-window", "-x", str(SHELL[0]), "-y", str(SHELL[1]))
        assert screen.settings(2) == before
