"""`cpuset-sidecar watch [DIR]`: a workload's CPUs as they change, a line a change, until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

from state import codec
from state.errors import ProjectionError, ProjectionMissing
from state.projection import Projection
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
    parser.add_argument("--json", action="store_true", help="print each state whole, one JSON object a line")
    parser.set_defaults(func=_run_with)


def run(directory: str | None, as_json: bool) -> int:
    """Print each change until interrupted (0). 1 where the directory can never be read; 2 where it is no directory."""
    with ProjectionWatch(directory) as watch:
        if os.path.lexists(watch.directory) and not os.path.isdir(watch.directory):
            _complain(f"{watch.directory} is not a directory; give the one that holds status.json and cpuset")
            return 2
        try:
            return _print_changes(watch, as_json)
        except KeyboardInterrupt:
            return 0
        except BrokenPipeError:
            # Whoever read has seen enough. Python would complain once more when it flushes at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0


def change_line(now: Projection, before: Projection | None, seen_at: datetime) -> str:
    """One change for people: the time, what is in force, and what is different from before."""
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


def _print_changes(watch: ProjectionWatch, as_json: bool) -> int:
    before: Projection | None = None
    complaint: str | None = None
    while True:
        # The pause is so short only until something was seen: then the watch itself knows when to look.
        found = watch.wait(1.0 if before is None else 10.0)
        if found is not None:
            line = codec.encode(found).decode() if as_json else change_line(found, before, datetime.now().astimezone())
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
            before, complaint = found, None
            continue
        trouble = watch.trouble
        if trouble is not None and str(trouble) != complaint:
            complaint = str(trouble)
            _complain(f"{complaint}; waiting for it" if isinstance(trouble, ProjectionMissing) else complaint)
        if trouble is not None and before is None and _is_hopeless(trouble):
            return 1


def _is_hopeless(trouble: ProjectionError) -> bool:
    """Whether waiting cannot help: the directory may not be entered, or the file not be read."""
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
    return run(arguments.directory, arguments.json)
