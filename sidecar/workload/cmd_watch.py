"""`cpuset-sidecar watch [DIR]`: a workload's CPUs as they change, a line each, until Ctrl-C or until it has them."""

from __future__ import annotations

import argparse
import enum
import math
import os
import sys
import time
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sidecar.cli.arguments import typed
from sidecar.readers import choice, duration
from state import codec
from state.errors import ProjectionError, ProjectionMissing
from state.projection import Projection, Sharing, read
from state.watch import ProjectionWatch

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001  # it has no public name


def add_parser(subparsers: Subparsers) -> None:
    """Add the command; its `func` takes the Namespace and returns the exit code."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "watch",
        help="print a workload's CPUs as they change",
        description="Print a line for every change of a workload's CPUs, beginning with the present ones.",
    )
    parser.add_argument(
        "directory",
        nargs="?",
        metavar="DIR",
        help="the projection directory; by default $CPUSET_SIDECAR_DIR, or /run/cpuset-sidecar/by-id/$HOSTNAME",
    )
    parser.add_argument(
        "--until",
        type=typed("--until", choice(Until)),
        metavar="WHEN",
        help="exit with 0 once it holds exclusive CPUs (granted), or runs on exactly them and alone (settled)",
    )
    parser.add_argument(
        "--timeout",
        type=typed("--timeout", duration(0.001, 86400)),
        metavar="SECONDS",
        help="with --until: exit with 1 if that takes longer",
    )
    parser.add_argument("--json", action="store_true", help="print each state in full, one JSON object per line")
    parser.set_defaults(func=_run_with)


def run(directory: str | None, as_json: bool, until: Until | None = None, timeout: float = math.inf) -> int:
    """Print each change until interrupted or until the condition holds (0). Return 1 if the directory can never be
    read, or after `timeout` seconds; 2 if it is not a directory.
    """
    with ProjectionWatch(directory) as watch:
        if os.path.lexists(watch.directory) and not os.path.isdir(watch.directory):
            _complain(f"{watch.directory} is not a directory: give the one with status.json and cpuset")
            return 2
        try:
            return _print_changes(watch, as_json, until, time.monotonic() + timeout)
        except KeyboardInterrupt:
            return 0
        except BrokenPipeError:
            # The reader has seen enough. Python would complain once more when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0


class Until(enum.StrEnum):
    """What to wait for."""

    GRANTED = "granted"
    SETTLED = "settled"


def change_line(now: Projection, before: Projection | None, seen_at: datetime) -> str:
    """Return one change as a line: the time, what is in force, and what changed."""
    words = [seen_at.strftime("%H:%M:%S.%f")[:-3], now.sharing.value, f"cpus {now.cpus}"]
    if before is not None:
        if gained := now.cpus - before.cpus:
            words.append(f"+{gained}")
        if lost := before.cpus - now.cpus:
            words.append(f"-{lost}")
    if now.arriving:
        words.append(f"arriving {now.arriving}")
    if now.leaving:
        words.append(f"leaving {now.leaving}{_deadline(now)}")
    words.append("settled" if now.settled else "not settled")
    line = "  ".join(words)
    return f"{line}  ({now.reason})" if now.reason else line


def _print_changes(watch: ProjectionWatch, as_json: bool, until: Until | None, deadline: float) -> int:
    before: Projection | None = None
    complaint: str | None = None
    while True:
        # The pause is so short only until something was seen: then the watch itself knows when to look.
        pause = 10.0 if before is not None and until is None else 1.0
        found = watch.wait(max(0.0, min(pause, deadline - time.monotonic())))
        if found is not None:
            _print(change_line(found, before, datetime.now().astimezone()), found, as_json)
            before, complaint = found, None
        if until is not None and (reached := _reached(watch.directory, until)):
            if reached != before:
                _print(change_line(reached, before, datetime.now().astimezone()), reached, as_json)
            return 0
        if found is not None:
            continue
        trouble = watch.trouble
        if time.monotonic() >= deadline:
            _complain(f"not {until} in time: {trouble or _reason(watch.directory)}")
            return 1
        if trouble is not None and str(trouble) != complaint:
            complaint = str(trouble)
            _complain(f"{complaint}; waiting for it" if isinstance(trouble, ProjectionMissing) else complaint)
        if trouble is not None and before is None and _is_hopeless(trouble):
            return 1


def _print(line: str, projection: Projection, as_json: bool) -> None:
    sys.stdout.write((codec.encode(projection).decode() if as_json else line) + "\n")
    sys.stdout.flush()


def _reached(directory: str, until: Until) -> Projection | None:
    """Return what the directory says, if the condition holds. Not what is in force is asked here: before it starts,
    nothing is.
    """
    with suppress(ProjectionError):
        found = read(directory)
        is_so = found.settled if until is Until.SETTLED else found.sharing is Sharing.EXCLUSIVE
        return found if is_so else None
    return None


def _reason(directory: str) -> str:
    with suppress(ProjectionError):
        return read(directory).reason or "it gives no reason"
    return "there is no projection"


def _is_hopeless(trouble: ProjectionError) -> bool:
    """Return whether waiting cannot help: the directory may not be entered, or the file not be read."""
    cause: Any = trouble
    while cause is not None:
        if isinstance(cause, PermissionError):
            return True
        cause = cause.__cause__
    return False


def _deadline(now: Projection) -> str:
    return "" if now.deadline_seconds is None else f" within {now.deadline_seconds:g} s"


def _complain(text: str) -> None:
    sys.stderr.write(f"cpuset-sidecar watch: {text}\n")


def _run_with(arguments: argparse.Namespace) -> int:
    until: Until | None = arguments.until
    if until is None and arguments.timeout is not None:
        _complain("--timeout goes with --until")
        return 2
    timeout = math.inf if arguments.timeout is None else arguments.timeout
    return run(arguments.directory, arguments.json, until, timeout)
