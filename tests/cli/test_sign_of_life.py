"""What takes more than a second shows on a terminal that it goes on, and leaves nothing of that; a pipe has nothing."""

from __future__ import annotations

import argparse
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.__main__ import COMMANDS, parser
from tests.cli.test_status_on_a_terminal import Terminal
from tests.support.sources import ROOT

SHORT = ("status", "ack", "state", "completion", "help")
"""Commands that read a file or two."""

BY_THEMSELVES = ("run", "top", "events", "page", "watch", "exec", "disturbed")
"""Commands that stay, or show by themselves how far they are."""

PROGRAM = """
import sys, time
from sidecar.cli.sign_of_life import sign_of_life
seconds, said = float(sys.argv[1]), sys.argv[2:]
with sign_of_life("counting sheep"):
    for text in said:
        time.sleep(seconds)
        sys.stdout.write(text.replace("/", "\\n"))
    time.sleep(seconds)
print("done")
"""

ERASE = "\x1b[K"


@contextmanager
def terminal(*args: str, program: tuple[str, ...] = ("-c", PROGRAM), **environ: str) -> Iterator[Terminal]:
    made = Terminal(*args, program=program, **environ)
    try:
        yield made
    finally:
        made.close()


def on_screen(written: str) -> list[str]:
    """Return the lines that stay on a terminal after this was written to it."""
    lines = written.replace("\r\n", "\n").split("\n")
    return [line.rpartition("\r" + ERASE)[2] for line in lines]


def test_it_counts_the_seconds_and_leaves_nothing() -> None:
    """The line goes before what is printed, and at the end."""
    with terminal("2.2", "one/", "two/") as shown:
        shown.wait_until(lambda text: "done\r\n" in text)
        assert shown.process.wait(20) == 0
        seconds = [int(each) for each in re.findall(r"counting sheep, (\d+) s", shown.written)]
        assert seconds[0] == 1
        assert seconds == sorted(seconds)
        assert seconds[-1] >= 6
        assert on_screen(shown.written) == ["one", "two", "done", ""]


def test_what_is_short_shows_nothing() -> None:
    with terminal("0.2", "one/") as shown:
        shown.wait_until(lambda text: "done\r\n" in text)
        assert shown.written.replace("\r", "") == "one\ndone\n"


def test_a_line_that_is_not_ended_yet_is_left_alone() -> None:
    """Until it ends: the sign would stand behind it, and erase it."""
    with terminal("1.6", "half ", "of it/") as shown:
        shown.wait_until(lambda text: "done\r\n" in text)
        assert on_screen(shown.written) == ["half of it", "done", ""]
        assert "half of it" in shown.written.replace("\r", "")


def test_a_narrow_terminal_has_it_on_one_line() -> None:
    """One that wraps could not be erased."""
    with terminal("2.2", COLUMNS="12") as shown:
        shown.wait_until(lambda text: "done\r\n" in text)
        assert "counting sh" in shown.written
        assert "counting she" not in shown.written
        assert on_screen(shown.written) == ["done", ""]


def test_a_terminal_that_cannot_erase_has_one_line() -> None:
    with terminal("2.6", TERM="dumb") as shown:
        shown.wait_until(lambda text: "done\r\n" in text)
        assert shown.written.replace("\r", "") == "counting sheep ...\ndone\n"


def test_a_pipe_has_none() -> None:
    """Neither stdout nor stderr."""
    command = [sys.executable, "-c", PROGRAM, "1.6", "one/"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("one\ndone\n", "")


def test_an_engine_that_does_not_answer_is_seen_to_be_waited_for(tmp_path: Path) -> None:
    """The real command."""
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent.sock"))
        silent.listen(8)
        where = ("--engine", f"unix://{tmp_path}/silent.sock", "--state-dir", str(tmp_path))
        with terminal("doctor", *where, program=("-m", "sidecar")) as shown:
            shown.wait_until(lambda text: "looking at engine, machine and settings, 3 s" in text)
            shown.press("\x03")
            shown.process.wait(20)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_shows_it_or_is_known_to_be_short(name: str) -> None:
    """A new one has to be one of these."""
    [commands] = [each for each in parser(*COMMANDS)._actions if isinstance(each, argparse._SubParsersAction)]
    is_shown = bool(commands.choices[name].get_default("doing"))
    assert [is_shown, name in SHORT, name in BY_THEMSELVES].count(True) == 1
