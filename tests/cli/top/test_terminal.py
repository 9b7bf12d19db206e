"""`top` on a real terminal, before a whole daemon: four sizes, keys and mouse, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.top.tmux_screen import TmuxScreen, needs_tmux, tmux_screen
from tests.support.sources import ROOT

pytestmark = [needs_tmux, pytest.mark.xdist_group("tmux"), pytest.mark.timeout(180)]

SIZES = ((80, 24), (100, 30), (132, 43), (250, 70))
TENANTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("voice", {"cpuset.exclusive": "2"}),
    ("<img src=x onerror=alert(1)>", {"cpuset.exclusive": "1"}),
    ("خادم" * 50, {"cpuset.exclusive": "1"}),
    ("日本語コンテナ", {}),
    ("web", {}),
)


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The state directory of a daemon on a simulated engine, with some tenants."""
    folder = tmp_path_factory.mktemp("host")
    command = [sys.executable, "-m", "tests.page.simulated_host", str(folder), "2", "1", "6", "2"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as host:
        assert host.stdin is not None
        assert host.stdout is not None
        for name, labels in TENANTS:
            host.stdin.write(json.dumps(["run", name, labels]) + "\n")
            host.stdin.flush()
            host.stdout.readline()
        yield str(folder / "state")
        host.stdin.close()


def start(screen: TmuxScreen, state_dir: str, before: str = "") -> None:
    """Start it from the shell, and wait for its screen."""
    screen.type(f"clear; {before}{sys.executable} -m sidecar top --state-dir {state_dir}")
    screen.wait_for(lambda text: "q end  ? help" in text and "settled, alone" in text)


def pids(screen: TmuxScreen) -> list[int]:
    """Return the processes of `top` in this terminal: the first one is the one that draws."""
    shell = int(screen.run("display-message", "-p", "#{pane_pid}"))
    children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
    return [int(each) for each in children]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_it_fills_a_terminal_of_any_size_and_leaves_it_as_it_was(
    size: tuple[int, int], state_dir: str, tmp_path: Path
) -> None:
    """Machine, table, the marked one and the keys; then the shell's own screen, with all its settings."""
    with tmux_screen(tmp_path, *size) as screen:
        before, state = screen.settings(1), screen.state()
        start(screen, state_dir)
        assert screen.state() == ("1", "1", "1", "0", "0")
        screen.press("j")
        text = screen.wait_for(lambda text: ">B <img src=x onerror=alert(1)>" in text)
        lines = text.rstrip("\n").split("\n")
        assert len(lines) == size[1]
        assert "socket 0" in text
        assert " A voice" in text
        assert "--- <img src=x" in text or "| <img src=x" in text
        screen.press("q")
        screen.wait_for(lambda text: screen.state() == state and "settled, alone" not in text)
        assert screen.settings(2) == before


@pytest.mark.parametrize("ending", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGKILL", "SIGABRT", "an exception"])
def test_whatever_ends_it_leaves_the_terminal_as_it_was(ending: str, state_dir: str, tmp_path: Path) -> None:
    """Echo, line ends, cursor, mouse and the shell's screen are back, also where it could undo nothing itself. The
    shell is one that does not repair its terminal.
    """
    with tmux_screen(tmp_path, 100, 30, shell="sh -i") as screen:
        before, state = screen.settings(1), screen.state()
        if ending == "an exception":
            broken = "import sidecar.cli.top.full_screen as f, sidecar.__main__ as m; f.history = None; m.main()"
            screen.type(f"clear; {sys.executable} -c {broken!r} top --state-dir {state_dir}")
            screen.wait_for(lambda text: "TypeError" in text)
        else:
            start(screen, state_dir)
            [process] = pids(screen)
            os.kill(process, signal.Signals[ending])
        screen.wait_for(lambda _: screen.state() == state)
        screen.wait_for(lambda _: not pids(screen))
        assert screen.settings(2) == before


def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(state_dir: str, tmp_path: Path) -> None:
    """The whole screen is drawn again, and keys work, though the shell had the terminal."""
    with tmux_screen(tmp_path, 100, 30) as screen:
        before, state = screen.settings(1), screen.state()
        start(screen, state_dir)
        screen.press("C-z")
        screen.wait_for(lambda text: "Stopped" in text)
        assert screen.state() == state
        assert screen.settings(2) == before
        screen.type("fg")
        screen.wait_for(lambda text: "q end  ? help" in text and ">A voice" in text)
        screen.press("j")
        screen.wait_for(lambda text: ">B" in text)
        screen.press("q")
        screen.wait_for(lambda _: screen.state() == state)
        assert screen.settings(3) == before


def test_a_process_that_was_stopped_takes_the_terminal_again(state_dir: str, tmp_path: Path) -> None:
    """SIGSTOP cannot be heard; when it goes on, keys are read without a line and without echo."""
    with tmux_screen(tmp_path, 100, 30) as screen:
        start(screen, state_dir)
        [process] = pids(screen)
        os.kill(process, signal.SIGSTOP)
        screen.wait_for(lambda text: "Stopped" in text)
        screen.type("fg")
        screen.wait_for(lambda text: "q end  ? help" in text and "Stopped" not in text)
        screen.press("j")
        screen.wait_for(lambda text: ">B" in text)


def test_one_that_was_started_in_the_background_takes_the_terminal_in_the_foreground(
    state_dir: str, tmp_path: Path
) -> None:
    """Not before, since the shell has it; and it leaves it as it was."""
    with tmux_screen(tmp_path, 100, 30) as screen:
        before, state = screen.settings(1), screen.state()
        screen.type(f"clear; {sys.executable} -m sidecar top --state-dir {state_dir} &")
        screen.wait_for(lambda _: any(_is_stopped(each) for each in pids(screen)))
        assert screen.state() == state
        screen.type("fg")
        screen.wait_for(lambda text: "q end  ? help" in text and ">A voice" in text)
        screen.press("q")
        screen.wait_for(lambda _: screen.state() == state)
        assert screen.settings(2) == before


def _is_stopped(process: int) -> bool:
    with suppress(OSError):
        return ") T " in Path(f"/proc/{process}/stat").read_text()
    return False


def test_keys_filter_help_details_and_resizing(state_dir: str, tmp_path: Path) -> None:
    """Each in its place, and back; the size of the window is followed."""
    with tmux_screen(tmp_path, 100, 30) as screen:
        start(screen, state_dir)
        screen.press("?")
        screen.wait_for(lambda text: text.startswith("keys") and "the other way round" in text)
        screen.press("Escape")
        screen.wait_for(lambda text: "q end" in text)
        screen.press("/", "w", "e", "b", "Enter")
        text = screen.wait_for(lambda text: "filter web (Escape clears)" in text)
        assert " A voice" not in text
        screen.press("Enter")
        screen.wait_for(lambda text: text.startswith("one container") and "web (" in text)
        screen.press("q", "Escape")
        screen.wait_for(lambda text: "A voice" in text and "web" in text)
        screen.run("resize-window", "-x", "60", "-y", "16")
        text = screen.wait_for(lambda text: len(text.rstrip("\n").split("\n")) == 16 and "q end" in text)
        assert max(map(len, text.split("\n"))) <= 60
        screen.run("resize-window", "-x", "30", "-y", "8")
        screen.wait_for(lambda text: "too small" in text)


def test_a_press_of_the_mouse_marks_and_the_wheel_scrolls(state_dir: str, tmp_path: Path) -> None:
    """As the terminal sends them."""
    with tmux_screen(tmp_path, 100, 30) as screen:
        start(screen, state_dir)
        lines = screen.text().split("\n")
        row = next(number for number, line in enumerate(lines, 1) if "<img" in line)
        screen.run("send-keys", "-l", f"\x1b[<0;10;{row}M\x1b[<0;10;{row}m")
        screen.wait_for(lambda text: ">B <img" in text)
        screen.run("send-keys", "-l", "\x1b[<65;10;10M")
        screen.wait_for(lambda text: "q end" in text)


def test_disturbed_is_measured_beside_the_screen_and_ends_with_it(state_dir: str, tmp_path: Path) -> None:
    """What it says is shown; the screen goes on meanwhile; nothing of it is left when the screen ends."""
    with tmux_screen(tmp_path, 100, 30) as screen:
        start(screen, state_dir)
        screen.press("d")
        screen.wait_for(lambda text: "measuring what else runs on the CPUs of voice" in text)
        screen.press("q")
        screen.wait_for(lambda text: "q end" in text)
        screen.press("q")
        screen.wait_for(lambda _: not pids(screen))
        assert [words for words in _command_lines() if "disturbed" in words and state_dir in words] == []


def _command_lines() -> list[list[str]]:
    """Return the command lines of all processes."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found.append((folder / "cmdline").read_bytes().decode(errors="replace").split("\0"))
    return found


@pytest.mark.parametrize(
    ("environ", "has_colours"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "vt100"}, False)],
    ids=["xterm", "NO_COLOR", "vt100"],
)
def test_colours_are_left_out_where_they_are_not_wanted(
    environ: dict[str, str], has_colours: bool, state_dir: str, tmp_path: Path
) -> None:
    """The letters, the mark and the words stay: no colour is the only sign."""
    with tmux_screen(tmp_path, 100, 30) as screen:
        start(screen, state_dir, " ".join(f"{key}={value}" for key, value in environ.items()) + " ")
        coloured = screen.run("capture-pane", "-p", "-e")
        assert ("\x1b[1m\x1b[32m" in coloured or "\x1b[1;32m" in coloured) is has_colours
        assert ">A voice" in screen.text()
