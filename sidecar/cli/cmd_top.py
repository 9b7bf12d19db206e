"""`top`: how many CPUs each container has and why, live: size, floor, ceiling, use, and takes counting down."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from datetime import UTC, datetime
from typing import Final

from sidecar.cli.cmd_status import (
    below,
    freshness,
    headline,
    painted,
    pending_lines,
    problem_lines,
    state_of,
)
from sidecar.cli.flags import add_config, add_no_color, config_of, print_json
from sidecar.cli.live_page import REFRESH_SECONDS
from sidecar.cli.machine_drawing import Paint, draw, legend, letters_of, marks_of, plain
from sidecar.cli.printout import can_draw, printout, wrapped
from sidecar.cli.status_choice import ALL, Choice, add_choice, choice_of
from sidecar.cli.table import without_empty
from sidecar.decide.settings import PolicyName
from sidecar.status.document import ContainerStatus, SharingStatus, Status
from sidecar.status.last_state import StatusReading
from sidecar.status.problem_list import problems_of
from sidecar.status.sight import Sight
from sidecar.status.status_reader import StatusFollower, read_last_status

_WITHOUT: Final = "containers that ask for no exclusive CPUs"
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
        description="Show the CPUs of each container, their range, and what is being taken, live until Ctrl-C.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--once", action="store_true", help="print it once and exit")
    parser.add_argument(
        "--json", action="store_true", help="print the status document at each change, one JSON object per line"
    )
    add_choice(parser)
    add_no_color(parser)
    add_config(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Show the page. With `--once`, return 1 if no daemon is running: the page is then out of date."""
    state_dir, choice = config_of(args).state_dir, choice_of(args)
    if args.once:
        return _once(state_dir, choice, as_json=args.json)
    if not args.json and can_draw():
        # Only here: it is a large import.
        from sidecar.cli.top.full_screen import full_screen

        options = ["--config", args.config] if args.config else []
        return full_screen(state_dir, [*options, "--state-dir", state_dir], choice)
    with contextlib.suppress(KeyboardInterrupt):
        _print_changes(state_dir, choice, as_json=args.json)
    return 0


def rendered(
    status: Status,
    now: datetime,
    sight: Sight,
    *,
    paint: Paint = plain,
    width: int | None = 100,
    choice: Choice = ALL,
) -> list[str]:
    """Return the whole page as lines: containers of the choice that have or ask for exclusive CPUs, or have a problem,
    and the number of the others.
    """
    status, letters = sight.told(status), letters_of(status)
    chosen = choice.of(status)
    problems = problems_of(chosen)
    troubled = {problem.container for problem in problems}
    shown = [
        each for each in chosen.rows if each.asked or each.sharing is SharingStatus.EXCLUSIVE or each.name in troubled
    ]
    lines = [*headline(status, sight, width), *wrapped(freshness(status, now, sight), width)]
    if status.policy == PolicyName.DYNAMIC:
        lines.append(f"takes so far: {status.acknowledged} acknowledged, {status.forced} forced")
    lines.append("")
    if shown:
        rows = [(letters.get(each.id, " "), *_row(each, now, status.waiting, sight)) for each in shown]
        lines += painted(*without_empty(_HEAD, rows), paint, width)
    others = sum(1 for each in chosen.containers if each not in shown)
    lines.append(f"{sight.clause(_WITHOUT)}: {others}")
    if chosen.units:
        lines.append(f"units of the host: {len(chosen.units)}")
    lines += below([*problem_lines(problems, width), *pending_lines(chosen, now, sight, width)])
    return [*lines, "", *draw(status.machine, marks_of(status), paint, width), "", *legend(status, paint, width)]


def _row(each: ContainerStatus, now: datetime, waiting: int, sight: Sight) -> tuple[str, ...]:
    is_granted, is_elastic = each.sharing is SharingStatus.EXCLUSIVE, each.floor < each.ceiling
    asked = f"0 of {each.asked}" if each.asked else "-"
    return (
        each.name,
        str(each.cpus) or "-",
        str(len(each.granted)) if is_granted else asked,
        f"{each.floor}-{each.ceiling}" if each.ceiling else "-",
        each.scale if is_elastic else "-",
        str(each.weight) if is_elastic else "-",
        f"{each.load.use:.1f}" if each.load else "-",
        sight.state(state_of(each, now, waiting), {each.name}),
    )


def _once(state_dir: str, choice: Choice, *, as_json: bool) -> int:
    last = read_last_status(state_dir, time.time())
    if as_json:
        print_json(choice.of(last.reading))
    else:
        paint, width = printout()
        page = rendered(last.status, datetime.now(UTC), last.sight, paint=paint, width=width, choice=choice)
        sys.stdout.write("\n".join(page) + "\n")
    if last.outdated:
        sys.stderr.write(f"cpuset-sidecar: {last.outdated}\n")
        return 1
    return 0


def _print_changes(state_dir: str, choice: Choice, *, as_json: bool) -> None:
    """Print the status at each change, as pages with an empty line between them or as lines of JSON."""
    before: StatusReading | None = None
    follower = StatusFollower(state_dir)
    while True:
        last = follower.read(time.time())
        chosen = choice.of(last.reading)
        if chosen != before:
            if as_json:
                print_json(chosen)
            else:
                paint, width = printout()
                page = rendered(last.status, datetime.now(UTC), last.sight, paint=paint, width=width, choice=choice)
                sys.stdout.write("\n".join(["", *page] if before else page) + "\n")
            sys.stdout.flush()
            before = chosen
        time.sleep(REFRESH_SECONDS)
