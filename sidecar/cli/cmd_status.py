"""`status`: which container holds which CPUs, as a table and a map; `--watch` keeps it on the screen."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from datetime import UTC, datetime
from typing import Final

from sidecar.cli.flags import add_config, add_json, config_of, print_json
from sidecar.cli.live_page import follow
from sidecar.cli.machine_drawing import Paint, coloured, draw, legend, letters_of, marks_of, plain
from sidecar.cli.table import table
from sidecar.decide.facts import Phase
from sidecar.log import printable
from sidecar.status.document import ContainerStatus, LeavingStatus, SharingStatus, Status
from sidecar.status.status_file import is_daemon_running, read_status

_EXAMPLES: Final = """examples:
  cpuset-sidecar status
  cpuset-sidecar status --watch
  cpuset-sidecar status --json | jq '.containers[] | select(.sharing == "exclusive")'
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "status",
        help="which container holds which CPUs: a table and a map",
        description="Print which container holds which CPUs: a table, and a map of sockets, nodes, caches and cores.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--watch", action="store_true", help="keep running and show every change (Ctrl-C ends)")
    add_json(parser)
    add_config(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print the status. Return 1 if no daemon is running: the status is then out of date."""
    state_dir = config_of(args).state_dir
    if args.watch:
        return follow("--watch", state_dir, _page)
    status = read_status(state_dir)
    is_running = is_daemon_running(state_dir)
    if args.json:
        print_json(status)
    else:
        paint = coloured if sys.stdout.isatty() and "NO_COLOR" not in os.environ else plain
        width = max(60, shutil.get_terminal_size((100, 24)).columns)
        sys.stdout.write(
            "\n".join(rendered(status, datetime.now(UTC), is_running=is_running, paint=paint, width=width)) + "\n"
        )
    if is_running is False:
        sys.stderr.write(f"cpuset-sidecar: no daemon is running on {state_dir}\n")
        return 1
    return 0


def rendered(
    status: Status, now: datetime, *, is_running: bool | None, paint: Paint = plain, width: int = 100
) -> list[str]:
    """Return the whole page as lines."""
    letters = letters_of(status)
    rows = [
        (
            letters.get(each.id, " "),
            each.name,
            each.id[:12],
            each.sharing.value,
            str(each.cpus) if Phase(each.phase).is_live else "-",
            state_of(each, now),
        )
        for each in status.containers
    ]
    lines = [headline(status), freshness(status, now, is_running=is_running)]
    lines += [printable(f"problem: {problem}") for problem in status.problems]
    lines += [printable(f"note: {note}") for note in status.notes]
    lines.append("")
    if rows:
        painted = table((" ", "NAME", "ID", "KIND", "CPUS", "STATE"), rows, width)
        lines.append(painted[0])
        lines += [paint(line, row[0]) if row[0] != " " else line for line, row in zip(painted[1:], rows, strict=True)]
    else:
        lines.append("no containers")
    return [*lines, "", *draw(status.machine, marks_of(status), paint, width), "", *legend(status, paint, width)]


def left(leaving: LeavingStatus, now: datetime) -> str:
    """Return how long CPUs that are being taken may still be used."""
    if leaving.is_due:
        return "notice over"
    try:
        seconds = (datetime.fromisoformat(leaving.until) - now).total_seconds()
    except (ValueError, TypeError):
        return f"{leaving.notice_seconds:g} s of notice"
    return f"{max(0.0, seconds):.1f} s left"


def headline(status: Status) -> str:
    """Return one line with the policy, the engine, and the kinds of CPUs."""
    engine = f"{status.engine.name} {status.engine.version}" if status.engine else "no engine yet"
    options = f" ({', '.join(status.options)})" if status.options else ""
    parts = [f"policy {status.policy}{options} on {engine}"]
    for what, cpus in (("reserved", status.reserved), ("shared", status.shared), ("exclusive", status.exclusive)):
        parts.append(f"{what} {cpus or 'none'}")
    return printable(" | ".join(parts))


def freshness(status: Status, now: datetime, *, is_running: bool | None) -> str:
    """Return whether the daemon runs, and how old the document is."""
    try:
        age = _age((now - datetime.fromisoformat(status.updated_at)).total_seconds())
    except (ValueError, TypeError):
        age = "some time"
    if is_running is False:
        return f"THE DAEMON IS NOT RUNNING: this is its last state, {age} old"
    state = (
        "releasing every container"
        if status.is_releasing
        else "running"
        if status.is_ready
        else "waiting for the engine"
    )
    if is_running is None:
        return f"the daemon was {state} {age} ago; it cannot be seen from here whether it still runs"
    return f"the daemon is {state}; the last change was {age} ago"


def _age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def state_of(each: ContainerStatus, now: datetime) -> str:
    """Return the most pressing fact about a container, in a few words."""
    words = [] if each.phase == "running" else [each.phase]
    if each.leaving:
        words.append(f"leaving {each.leaving.cpus}: {left(each.leaving, now)}")
    elif each.pending:
        words.append(f"on its way to {each.pending}")
    elif each.trouble:
        words.append(f"failed: {each.trouble}")
    elif each.waits_for:
        words.append(f"waits for {each.waits_for}")
    elif each.is_settled and each.sharing is SharingStatus.EXCLUSIVE:
        words.append("settled, alone" if each.phase in ("running", "paused") else "keeps its CPUs")
    elif each.is_settled and each.sharing is SharingStatus.SHARED:
        words.append("settled")
    if each.refusal:
        words.append(f"refused: {each.refusal}")
    if each.is_quota_lifted:
        words.append("quota lifted")
    if each.warnings and not each.refusal:
        more = f" (and {len(each.warnings) - 1} more)" if each.warnings[1:] else ""
        words.append(f"warning: {each.warnings[0]}{more}")
    return "; ".join(words)


def _page(status: Status, now: datetime, is_running: bool | None, width: int) -> list[str]:
    return rendered(status, now, is_running=is_running, paint=coloured, width=width)
