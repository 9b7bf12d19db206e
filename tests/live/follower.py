"""The workload of the stories: it runs inside a container, and records its projection and where it may run.

    python follower.py DIRECTORY LOG [--ack SECONDS] [--hear SIGNAL] [--pause SECONDS]

It looks repeatedly, with a pause between two looks, and each time in this order: the CPUs that the kernel allows it,
the file `cpuset`, `status.json`, and the kernel again. A look that differs from the one before is a line of the log,
one JSON object, with three times (CLOCK_MONOTONIC, which containers share with their host):

- `unlike`: when the previous look began: the difference arose after that;
- `began`, `ended`: around this look.

The first line of a process is marked `first`.

With `--ack` it acknowledges this many seconds after it first saw CPUs leaving. With `--hear` it records each such
signal, and the content of the file then. The file `LOG.busy` sets how many of its children are busy.

It needs Python's standard library only, and never sets its own affinity: so the CPUs that the kernel allows it are
exactly the container's cpuset.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

_BUSY_PAUSE = 0.1
"""Seconds between two looks at how many children shall be busy."""


class Follower:
    """Looks, records what is new, and answers as it was asked to."""

    def __init__(self, directory: Path, log: Path, ack_after: float | None, pause: float) -> None:
        self._directory = directory
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._orders = Path(f"{log}.busy")
        self._ack_after = ack_after
        self._pause = pause
        self._to_ack: tuple[float, int] | None = None
        self._busy: list[int] = []

    def run(self) -> None:
        """Follow indefinitely."""
        last: dict[str, Any] = {}
        first: dict[str, Any] = {"first": True}
        began_before = time.monotonic()
        counted = 0.0
        while True:
            began = time.monotonic()
            seen = self._look()
            ended = time.monotonic()
            if seen != last:
                self._note(seen | {"unlike": began_before, "began": began, "ended": ended} | first)
                last, first = seen, {}
            self._answer(seen, ended)
            if began - counted > _BUSY_PAUSE:
                counted = began
                self._employ()
            began_before = began
            time.sleep(self._pause)

    def heard(self, number: int, _frame: object) -> None:
        """Record a signal: when it came, and what the file says."""
        at = time.monotonic()
        told = self._told()
        self._note({"signal": signal.Signals(number).name, "at": at} | told)

    def _look(self) -> dict[str, Any]:
        before = allowed()
        file = self._read("cpuset")
        told = self._told()
        on = runs_on()
        return {"before": before, "file": file.strip(), "on": on, "after": allowed()} | told

    def _told(self) -> dict[str, Any]:
        text = self._read("status.json")
        if not text:
            return {"generation": 0}
        told = json.loads(text)
        names = ("generation", "sharing", "cpus", "desired", "leaving", "arriving", "deadline_seconds", "settled")
        return {name: told[name] for name in names}

    def _read(self, name: str) -> str:
        try:
            return (self._directory / name).read_text()
        except FileNotFoundError:
            return ""

    def _answer(self, seen: dict[str, Any], now: float) -> None:
        """Acknowledge what is leaving, in time. A file that is rewritten meanwhile is answered with its number."""
        if self._ack_after is None or not seen.get("leaving"):
            self._to_ack = None
            return
        due, answered = self._to_ack or (now + self._ack_after, 0)
        if now >= due and answered != seen["generation"]:
            answered = seen["generation"]
            made = self._directory / "ack"
            written_at = time.monotonic()
            made.write_text(f"{answered}\n")
            self._note({"acknowledged": answered, "at": written_at})
        self._to_ack = (due, answered)

    def _employ(self) -> None:
        try:
            wanted = int(self._orders.read_text() or 0)
        except FileNotFoundError:
            return
        while len(self._busy) < wanted:
            self._busy.append(spinning())
        while len(self._busy) > wanted:
            child = self._busy.pop()
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def _note(self, line: dict[str, Any]) -> None:
        os.write(self._log, json.dumps(line).encode() + b"\n")


def allowed() -> str:
    """Return the CPUs that the kernel lets this process run on: Cpus_allowed_list (proc_pid_status(5))."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("Cpus_allowed_list:"):
                return line.split()[1]
    raise ValueError("/proc/self/status has no Cpus_allowed_list")


def runs_on() -> int:
    """Return the CPU that it ran on last: field 39 (proc_pid_stat(5)), counted after the name, which may have
    spaces.
    """
    with open("/proc/self/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[36])


def spinning() -> int:
    """Start a child that only uses a CPU; return its pid."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        while True:
            pass
    return child


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("log", type=Path)
    parser.add_argument("--ack", type=float, default=None)
    parser.add_argument("--hear", default="")
    parser.add_argument("--pause", type=float, default=0.001)
    args = parser.parse_args()
    follower = Follower(args.directory, args.log, args.ack, args.pause)
    if args.hear:
        signal.signal(signal.Signals[f"SIG{args.hear}"], follower.heard)
    follower.run()


if __name__ == "__main__":
    main()
