"""`top`: how many CPUs each container has and why, live: size, floor, ceiling, use, and takes counting down."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from datetime import UTC, datetime
from typing import Final, NamedTuple

from sidecar.cli.cmd_status import (
    below,
    formatted,
    freshness,
    headline,
    painted,
    pending_lines,
    problem_lines,
    state_of,
)
from sidecar.cli.container_fields import CONTAINER_FIELDS
from sidecar.cli.flags import add_config, add_format, add_no_color, add_wide, check_format, config_of
from sidecar.cli.live_page import REFRESH_SECONDS
from sidecar.cli.machine_drawing import Paint, draw, legend, letters_of, marks_of, plain
from sidecar.cli.printout import can_draw, printout, wrapped
from sidecar.cli.row_template import RowTemplate
from sidecar.cli.status_choice import ALL, Choice, add_choice, choice_of
from sidecar.cli.table import without_empty
from sidecar.decide.settings import PolicyName
from sidecar.status.document import ContainerStatus, SharingStatus, Status
from sidecar.status.last_state import StatusReading, rows_read
from sidecar.status.problem_list import problems_of
from sidecar.status.sight import Sight
from sidecar.status.status_reader import LastStatus, StatusFollower, read_last_status
from state import codec

_WITHOUT: Final = "containers with no known request for exclusive CPUs"
_HEAD: Final = (" ", "NAME", "NOW", "SIZE", "RANGE", "SCALE", "WEIGHT", "USE", "STATE")
_WIDE: Final = ("ID", "PROJECT")
"""What a wide table has more, before the state."""

_EXAMPLES: Final = """examples:
  cpuset-sidecar top
  cpuset-sidecar top --once
  cpuset-sidecar top --once -o wide
  cpuset-sidecar top --format '{{.Name}} {{.CPUs}} {{.Use}}'
  cpuset-sidecar top --json
"""


class _Form(NamedTuple):
    """How the page is printed: by a template, as a wide table, as JSON; or as the plain page."""

    template: RowTemplate | None
    is_wide: bool
    is_json: bool

    @property
    def is_plain(self) -> bool:
        return self == _Form(None, is_wide=False, is_json=False)


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
    add_wide(parser)
    add_format(parser, CONTAINER_FIELDS, "{{.Name}}\\t{{.CPUs}}\\t{{.Use}}")
    add_no_color(parser)
    add_config(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Show the page. With `--once`, return 1 if no daemon vouches for it: the page is then out of date."""
    check_format(args, "json", "output")
    state_dir = config_of(args).state_dir
    choice = choice_of(args, state_dir)
    form = _Form(args.format, is_wide=bool(args.output), is_json=args.json)
    if args.once:
        return _once(state_dir, choice, form)
    if form.is_plain and can_draw():
        # Only here: it is a large import.
        from sidecar.cli.top.full_screen import full_screen

        options = ["--config", args.config] if args.config else []
        return full_screen(state_dir, [*options, "--state-dir", state_dir], choice)
    with contextlib.suppress(KeyboardInterrupt):
        _print_changes(state_dir, choice, form)
    return 0


def rendered(
    status: Status,
    now: datetime,
    sight: Sight,
    *,
    paint: Paint = plain,
    width: int | None = 100,
    choice: Choice = ALL,
    is_wide: bool = False,
) -> list[str]:
    """Return the whole page as lines: containers of the choice that have or ask for exclusive CPUs, or have a problem,
    and the number of the others.
    """
    status, letters = sight.told(status), letters_of(status)
    chosen = choice.of(status)
    problems, shown = problems_of(chosen), _shown(chosen)
    lines = [*headline(status, sight, width), *wrapped(freshness(status, now, sight), width)]
    if status.policy == PolicyName.DYNAMIC:
        lines.append(f"takes so far: {status.acknowledged} acknowledged, {status.forced} forced")
    lines.append("")
    if shown:
        rows = [(letters.get(each.id, " "), *_row(each, now, status.waiting, sight, is_wide=is_wide)) for each in shown]
        if is_wide:
            lines += painted((*_HEAD[:-1], *_WIDE, _HEAD[-1]), rows, paint, width, is_wide=True)
        else:
            lines += painted(*without_empty(_HEAD, rows), paint, width)
    others = sum(1 for each in chosen.containers if each not in shown)
    lines.append(f"{sight.clause(_WITHOUT)}: {others}")
    if chosen.units:
        lines.append(f"units of the host: {len(chosen.units)}")
    lines += below([*problem_lines(problems, width), *pending_lines(chosen, now, sight, width)])
    return [*lines, "", *draw(status.machine, marks_of(status), paint, width), "", *legend(status, paint, width)]


def _shown(status: Status) -> list[ContainerStatus]:
    """Return what has or asks for exclusive CPUs, or has a problem."""
    troubled = {problem.container for problem in problems_of(status)}
    return [
        each for each in status.rows if each.asked or each.sharing is SharingStatus.EXCLUSIVE or each.name in troubled
    ]


def _row(each: ContainerStatus, now: datetime, waiting: int, sight: Sight, *, is_wide: bool) -> tuple[str, ...]:
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
        *((each.id, each.project or "-") if is_wide else ()),
        sight.state(state_of(each, now, waiting), {each.name}),
    )


def _once(state_dir: str, choice: Choice, form: _Form) -> int:
    last = read_last_status(state_dir, time.time())
    sys.stdout.write("".join(f"{line}\n" for line in _lines(last, choice, form)))
    if last.outdated:
        sys.stderr.write(f"cpuset-sidecar: {last.outdated}\n")
        return 1
    return 0


def _lines(last: LastStatus, choice: Choice, form: _Form) -> list[str]:
    """Return what is printed of a document."""
    chosen = choice.of(last.reading)
    if form.is_json:
        return [codec.encode(chosen).decode()]
    if form.template:
        shown = {each.id for each in _shown(chosen)}
        rows = [each for each in rows_read(chosen) if each.id in shown]
        return formatted(form.template, rows, last.status, last.sight)
    paint, width = printout()
    now = datetime.now(UTC)
    return rendered(last.status, now, last.sight, paint=paint, width=width, choice=choice, is_wide=form.is_wide)


def _print_changes(state_dir: str, choice: Choice, form: _Form) -> None:
    """Print the status at each change, pages with an empty line between them."""
    before: StatusReading | None = None
    follower = StatusFollower(state_dir)
    while True:
        last = follower.read(time.time())
        chosen = choice.of(last.reading)
        if chosen != before:
            lines = _lines(last, choice, form)
            is_page = not form.is_json and form.template is None
            sys.stdout.write("".join(f"{line}\n" for line in (["", *lines] if before and is_page else lines)))
            sys.stdout.flush()
            before = chosen
        time.sleep(REFRESH_SECONDS)
