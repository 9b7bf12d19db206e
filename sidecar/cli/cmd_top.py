"""`top`: how many CPUs each container has and why, live: size, floor, ceiling, use, and takes counting down."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import time
from datetime import UTC, datetime
from typing import Final

from sidecar.cli.cmd_status import freshness, headline, left, state_of
from sidecar.cli.flags import add_config, config_of, print_json
from sidecar.cli.live_page import REFRESH_SECONDS, follow
from sidecar.cli.machine_drawing import Paint, coloured, draw, legend, letters_of, marks_of, plain
from sidecar.cli.table import table
from sidecar.log import printable
from sidecar.status.document import ContainerStatus, SharingStatus, Status
from sidecar.status.status_file import is_daemon_running, read_status
from sidecar.words.counts import cut

_HEAD: Final = (" ", "NAME", "NOW", "SIZE", "RANGE", "SCALE", "WEIGHT", "USE", "STATE")

_EXAMPLES: Final = """examples:
  cpuset-sidecar top
  cpuset-sidecar top --once
  cpuset-sidecar top --json
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "top",
        help="how many CPUs each container has, live",
        description="Show the CPUs of each container, their range, and what is being taken, live until Ctrl-C.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--once", action="store_true", help="print it once and exit")
    parser.add_argument(
        "--json", action="store_true", help="print the status document at each change, one JSON object per line"
    )
    add_config(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Show the page. With `--once`, return 1 if no daemon is running: the page is then out of date."""
    state_dir = config_of(args).state_dir
    if args.once:
        return _once(state_dir, as_json=args.json)
    if not args.json:
        return follow("top", state_dir, _page)
    with contextlib.suppress(KeyboardInterrupt):
        _print_changes(state_dir)
    return 0


def rendered(
    status: Status, now: datetime, *, is_running: bool | None, paint: Paint = plain, width: int = 100
) -> list[str]:
    """Return the whole page as lines: containers that have or ask for exclusive CPUs, and the number of the others."""
    letters = letters_of(status)
    shown = [each for each in status.containers if each.asked or each.sharing is SharingStatus.EXCLUSIVE]
    rows = [(letters.get(each.id, " "), *_row(each, now)) for each in shown]
    lines = [headline(status), freshness(status, now, is_running=is_running)]
    lines.append(f"takes so far: {status.acknowledged} acknowledged, {status.forced} forced")
    lines += [printable(f"problem: {problem}") for problem in status.problems]
    lines.append("")
    if rows:
        head, *painted = table(_HEAD, rows, width)
        lines.append(head)
        lines += [paint(line, row[0]) if row[0] != " " else line for line, row in zip(painted, rows, strict=True)]
    others = len(status.containers) - len(shown)
    lines.append(f"containers that ask for no exclusive CPUs: {others}")
    if pending := [cut(printable(line), width) for each in shown for line in _pending(each, now)]:
        lines += ["", *pending]
    return [*lines, "", *draw(status.machine, marks_of(status), paint, width), "", *legend(status, paint, width)]


def _row(each: ContainerStatus, now: datetime) -> tuple[str, ...]:
    is_granted, is_elastic = each.sharing is SharingStatus.EXCLUSIVE, each.floor < each.ceiling
    return (
        each.name,
        str(each.cpus),
        str(len(each.granted)) if is_granted else f"0 of {each.asked}",
        f"{each.floor}-{each.ceiling}" if each.ceiling else str(each.asked),
        each.scale if is_elastic else "-",
        str(each.weight) if is_elastic else "-",
        f"{each.load.use:.1f}" if each.load else "-",
        state_of(each, now),
    )


def _pending(each: ContainerStatus, now: datetime) -> list[str]:
    """Return what is on its way for a container, and why."""
    lines = []
    if each.leaving:
        take = f"{each.name} must leave {each.leaving.cpus} (take {each.leaving.number})"
        lines.append(f"{take}, {left(each.leaving, now)}: {each.leaving.reason}")
    elif each.waits_for:
        lines.append(f"{each.name} waits for {each.waits_for}")
    return lines


def _page(status: Status, now: datetime, is_running: bool | None, width: int) -> list[str]:
    return rendered(status, now, is_running=is_running, paint=coloured, width=width)


def _once(state_dir: str, *, as_json: bool) -> int:
    status, is_running = read_status(state_dir), is_daemon_running(state_dir)
    if as_json:
        print_json(status)
    else:
        width = max(60, shutil.get_terminal_size((100, 24)).columns)
        sys.stdout.write("\n".join(rendered(status, datetime.now(UTC), is_running=is_running, width=width)) + "\n")
    if is_running is False:
        sys.stderr.write(f"cpuset-sidecar: no daemon is running on {state_dir}\n")
        return 1
    return 0


def _print_changes(state_dir: str) -> None:
    before: Status | None = None
    while True:
        status = read_status(state_dir)
        if status != before:
            print_json(status)
            sys.stdout.flush()
            before = status
        time.sleep(REFRESH_SECONDS)
