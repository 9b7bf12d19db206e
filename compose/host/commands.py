"""Run other programs, and report failures in one sentence."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sidecar.cli.sign_of_life import sign_of_life


class HostLacks(Exception):
    """This host cannot do what is asked. The message has the reason and the cure."""


def say(text: str) -> None:
    """Print one line of progress on stderr: stdout is for results."""
    print(f"==> {text}", file=sys.stderr, flush=True)


def output(*command: str, timeout: float = 60) -> str:
    """Return the standard output of a program, stripped. Raise HostLacks with the end of its output if it fails.

    `timeout` is in seconds.
    """
    done = attempt(*command, timeout=timeout)
    if done.returncode != 0:
        raise HostLacks(f"`{' '.join(command)}` failed ({done.returncode}):\n{tail(done.stdout + done.stderr)}")
    return done.stdout.strip()


def attempt(*command: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a program that may fail; a missing program or a timeout is code 127 or 124, as in a shell."""
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout, check=False)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]}: not found")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"{command[0]}: no answer in {timeout:g} s")


def quietly(what: str, command: Sequence[str], *, env: dict[str, str] | None = None, cwd: Path | None = None) -> None:
    """Run a long program without its output; a terminal shows that it goes on. Raise HostLacks with the end of its
    output if it fails.
    """
    with sign_of_life(f"    {what}"):
        done = subprocess.run(
            command,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        words = tail(done.stdout.decode(errors="replace"))
        raise HostLacks(f"cannot {what}: `{' '.join(command)}` ended with {done.returncode}\n{words}")


def tail(text: str, lines: int = 15) -> str:
    """Return the last lines of a program's output, indented: the reason is usually there."""
    return "\n".join("    " + line for line in text.strip().splitlines()[-lines:])


def now_undisturbed() -> None:
    """Ignore Ctrl-C from here on, while this program cleans up: a second one would leave things behind."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def has(program: str) -> bool:
    """Return whether the program can be found."""
    return shutil.which(program) is not None


def cache() -> Path:
    """Return the folder for what was costly to make (`make demo-clean` removes it)."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(base) / "cpuset-sidecar"
    path.mkdir(parents=True, exist_ok=True)
    return path
