"""`cpuset-sidecar watch [NAME|DIR]`: a workload's CPUs as they change, a line each, until Ctrl-C or `--until`."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sidecar.cli.arguments import typed
from sidecar.cli.flags import add_config, last_daemons_config
from sidecar.failures import SidecarError
from sidecar.log import printable
from sidecar.readers import choice, duration
from sidecar.words.past import in_past
from sidecar.workload.find_projection import directory_of, no_name
from sidecar.workload.gates import UNVOUCHED, Open, Shut, Until, gate
from sidecar.workload.why_unvouched import why_unvouched
from state import codec
from state.errors import ProjectionError, ProjectionMissing
from state.own_directory import default_directory, may_come
from state.projection import Projection, Reading, Sharing, read
from state.watch import ProjectionWatch

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001  # it has no public name


def add_parser(subparsers: Subparsers) -> None:
    """Add the command; its `func` takes the Namespace and returns the exit code."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "watch",
        description="Print a line for every change of a workload's CPUs, beginning with the present ones.",
    )
    parser.add_argument(
        "workload",
        nargs="?",
        metavar="NAME|DIR",
        help="a container's name or ID, or a projection directory (a path with a slash); inside a container it may be "
        "left out: then $CPUSET_SIDECAR_DIR, or /run/cpuset-sidecar/by-id/$HOSTNAME",
    )
    parser.add_argument(
        "--until",
        type=typed("--until", choice(Until)),
        metavar="WHEN",
        help="exit with 0 once it is alone on CPUs of its own (alone), what was decided is in force (settled), or it "
        "holds exclusive CPUs (granted), and the daemon vouches for that; with 1 at once if it never will",
    )
    parser.add_argument(
        "--timeout",
        type=typed("--timeout", duration(0.001, 86400)),
        metavar="SECONDS",
        help="with --until: exit with 1 if that takes longer",
    )
    parser.add_argument("--json", action="store_true", help="print each state in full, one JSON object per line")
    add_config(parser, ("state_dir", "projections"))
    parser.set_defaults(func=lambda arguments: _run_with(arguments, parser))


def run(
    directory: str,
    as_json: bool,
    until: Until | None = None,
    timeout: float = math.inf,
    why: Callable[[], str] = lambda: UNVOUCHED,
) -> int:
    """Print each change until interrupted or until the condition holds (0). Return 1 if the directory can never be
    read, or after `timeout` seconds; 2 if it is not a directory. `why` tells why no daemon vouches for it.
    """
    with ProjectionWatch(directory) as watch:
        if os.path.lexists(watch.directory) and not os.path.isdir(watch.directory):
            _complain(f"{watch.directory} is not a directory: give the one with status.json and cpuset")
            return 2
        try:
            return _print_changes(watch, as_json, until, time.monotonic() + timeout, why)
        except KeyboardInterrupt:
            return 0
        except BrokenPipeError:
            # The reader has seen enough. Python would complain once more when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0


def change_line(now: Reading, before: Reading | None, seen_at: datetime) -> str:
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
    state = "alone" if now.alone else "settled" if now.settled else "not settled"
    words += [state] if now.vouched else [f"was {state}", "unvouched"]
    line, reason = "  ".join(words), now.reason if now.vouched else in_past(now.reason, {now.name})
    return f"{line}  ({reason})" if reason else line


def _print_changes(
    watch: ProjectionWatch, as_json: bool, until: Until | None, deadline: float, why: Callable[[], str]
) -> int:
    before: Reading | None = None
    complaint: str | None = None
    while True:
        # The pause is so short only until something was seen: then the watch itself knows when to look.
        pause = 10.0 if before is not None and until is None else 1.0
        found = watch.wait(max(0.0, min(pause, deadline - time.monotonic())))
        if found is not None:
            _print(change_line(found, before, datetime.now().astimezone()), found, as_json)
            if not found.vouched and until is None and (before is None or before.vouched):
                _complain(why())
            before, complaint = found, None
        elif (gone := _unused(watch.directory)) is not None and gone != before:
            _print(change_line(gone, before, datetime.now().astimezone()), gone, as_json)
            before, complaint = gone, None
        if until is not None:
            match gate(watch.directory, until, why):
                case Open(told):
                    if told != before:
                        _print(change_line(told, before, datetime.now().astimezone()), told, as_json)
                    return 0
                case Shut(reason, is_for_good=True):
                    _complain(f"never {until}: {reason}")
                    return 1
                case Shut(reason):
                    if time.monotonic() >= deadline:
                        _complain(f"not {until} in time: {reason}")
                        return 1
        if found is not None:
            continue
        trouble = watch.trouble
        if isinstance(trouble, ProjectionMissing) and before is not None and before.sharing is not Sharing.UNMANAGED:
            # The directory of a container goes with it.
            gone = _gone(before)
            _print(change_line(gone, before, datetime.now().astimezone()), gone, as_json)
            before = gone
        if trouble is not None and str(trouble) != complaint:
            complaint = str(trouble)
            _complain(f"{complaint}; waiting for it" if isinstance(trouble, ProjectionMissing) else complaint)
        if trouble is not None and before is None and _is_hopeless(trouble):
            return 1


def _unused(directory: str) -> Reading | None:
    """Return what is told of a name that no container uses any more; None if one does, or it cannot be read. A watch
    waits for CPUs, and never reports it.
    """
    try:
        told = read(directory)
    except ProjectionError:
        return None
    return told if told.sharing is Sharing.UNMANAGED and not told.cpus else None


def _gone(before: Reading) -> Reading:
    """Return what a name tells whose container is gone, of one that was watched by its id."""
    told = Projection(name=before.name, sharing=Sharing.UNMANAGED, reason="no container uses this projection now")
    return Reading.of(told, vouched=True)


def _print(line: str, projection: Reading, as_json: bool) -> None:
    # A workload may own its directory, and write into its files what it likes.
    sys.stdout.write((codec.encode(projection).decode() if as_json else printable(line)) + "\n")
    sys.stdout.flush()


def _is_hopeless(trouble: ProjectionError) -> bool:
    """Return whether waiting cannot help: the directory may not be entered, or the file not be read."""
    cause: Any = trouble
    while cause is not None:
        if isinstance(cause, PermissionError):
            return True
        cause = cause.__cause__
    return False


def _deadline(now: Reading) -> str:
    return "" if now.deadline_seconds is None else f" within {now.deadline_seconds:g} s"


def _complain(text: str) -> None:
    sys.stderr.write(f"cpuset-sidecar watch: {printable(text)}\n")


def _run_with(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    until: Until | None = arguments.until
    if until is None and arguments.timeout is not None:
        parser.error("--timeout goes with --until")
    timeout = math.inf if arguments.timeout is None else arguments.timeout
    try:
        directory = _directory(arguments)
    except SidecarError as error:
        _complain(str(error))
        return 1

    def why() -> str:
        return why_unvouched(last_daemons_config(arguments), directory)

    return run(directory, arguments.json, until, timeout, why)


def _directory(arguments: argparse.Namespace) -> str:
    """Return the directory of what was typed. Raise SidecarError if there is none, and never will be.

    A name is looked for where the last daemon of this host wrote, which may have ended: what it wrote stays. What is no
    container's, and lies here, is a directory.
    """
    workload: str | None = arguments.workload
    if workload is None:
        directory = default_directory(os.environ)
        if not may_come(directory):
            raise no_name(directory, last_daemons_config(arguments).projections)
        return directory
    if os.sep in workload:
        return workload
    try:
        return directory_of(last_daemons_config(arguments).projections, workload)
    except SidecarError:
        if os.path.lexists(workload):
            return workload
        raise
