"""`status`: which container holds which CPUs: a table, the problems below it, and a map. `--watch` keeps it on the
screen, `--problems` prints the problems alone.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from sidecar.cli.container_fields import CONTAINER_FIELDS, ToldContainer
from sidecar.cli.flags import (
    add_config,
    add_format,
    add_json,
    add_no_color,
    add_wide,
    check_format,
    config_of,
    print_json,
)
from sidecar.cli.live_page import follow
from sidecar.cli.machine_drawing import Paint, coloured, draw, legend, letters_of, marks_of, plain
from sidecar.cli.printout import has_colours, joined, printout, wrapped
from sidecar.cli.row_template import RowTemplate, filled
from sidecar.cli.status_choice import ALL, Choice, add_choice, choice_of, wide_cells
from sidecar.cli.table import table_rows
from sidecar.decide.facts import Phase
from sidecar.decide.settings import PolicyName
from sidecar.status.document import ContainerStatus, EngineStatus, HoleStatus, LeavingStatus, SharingStatus, Status
from sidecar.status.last_state import ContainerReading, rows_read
from sidecar.status.problem_list import Problem, ProblemKind, problems_of
from sidecar.status.sight import Sight
from sidecar.status.status_reader import read_last_status
from sidecar.words.counts import counted, ordinal
from sidecar.words.neighbour_names import may_run_there

_EXAMPLES: Final = """examples:
  cpuset-sidecar status
  cpuset-sidecar status --watch
  cpuset-sidecar status --problems || echo "look at it"
  cpuset-sidecar status --exclusive --format '{{.Name}} {{.CPUs}}'
  cpuset-sidecar status --json | jq '.containers[] | select(.sharing == "exclusive")'

exit codes: 0 a daemon vouches for it, 1 none does, or there is no status; with --problems also 3: there are problems
"""

USUAL_FRONTS: Final = ("/usr/local/bin/cpuset-runc", "/etc/cpuset-sidecar/fronts")
"""Where `install-runtime` puts a front, or its record, if it is told no other place: what installs them need not be
imported where there is none.
"""

_WIDE: Final = ("PROJECT", "SIZE", "RANGE", "USE")
"""What a wide table has more."""

_STEADY: Final = {SharingStatus.STRANGER: "pinned by hand", SharingStatus.UNMANAGED: "left alone"}
"""The state of what the sidecar never moves."""

PROBLEMS_CODE: Final = 3
"""The exit code of `--problems` where there are some: neither a failure of the command nor wrong usage."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "status",
        description="Print which container holds which CPUs: a table, the problems, and a map of the machine.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--watch", action="store_true", help="keep running and show every change (q or Ctrl-C ends)")
    only.add_argument(
        "--problems", action="store_true", help=f"print only what is wrong; exit code {PROBLEMS_CODE} if anything is"
    )
    add_choice(parser)
    add_wide(parser)
    add_format(parser, CONTAINER_FIELDS, "{{.Name}}\\t{{.CPUs}}")
    add_json(parser)
    add_no_color(parser)
    add_config(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print the status. Return 1 if no daemon runs or vouches for it: the status is then out of date."""
    check_format(args, "json", "problems", "watch", "output")
    state_dir = config_of(args).state_dir
    choice = choice_of(args, state_dir)
    if args.watch:
        return follow("--watch", state_dir, partial(_page, choice=choice, is_wide=bool(args.output)))
    last = read_last_status(state_dir, time.time())
    chosen = choice.of(last.status)
    outdated, problems = last.outdated, problems_of(last.sight.told(chosen))
    if outdated:
        problems = (Problem(kind=ProblemKind.DAEMON, text=outdated), *problems)
    paint, width = printout()
    if args.json:
        print_json(problems if args.problems else choice.of(last.reading))
    elif args.problems:
        sys.stdout.write("".join(f"{line}\n" for line in problem_lines(problems, width)))
    elif args.format:
        told = choice.of(last.reading)
        lines = formatted(args.format, rows_read(told), last.status, last.sight)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    else:
        page = rendered(
            last.status,
            datetime.now(UTC),
            last.sight,
            paint=paint,
            width=width,
            choice=choice,
            is_wide=bool(args.output),
            fronts=fronts_clause(),
        )
        sys.stdout.write("\n".join(page) + "\n")
    if outdated:
        sys.stderr.write(f"cpuset-sidecar: {outdated}\n")
        return 1
    return PROBLEMS_CODE if args.problems and problems else 0


def rendered(
    status: Status,
    now: datetime,
    sight: Sight,
    *,
    paint: Paint = plain,
    width: int | None = 100,
    choice: Choice = ALL,
    is_wide: bool = False,
    fronts: str = "",
) -> list[str]:
    """Return the whole page as lines: the table and what is wrong are those of the `choice`. `fronts` is a clause on
    what asks before starts on this host, "" for none.
    """
    status, letters = sight.told(status), letters_of(status)
    chosen = choice.of(status)
    rows = [(letters.get(each.id, " "), *_row(each, now, status, sight, is_wide=is_wide)) for each in chosen.containers]
    more = _WIDE if is_wide else ()
    head: tuple[str, ...] = (" ", "NAME", "ID", "KIND", "CPUS", *more, "STATE")
    if status.engines:
        head = (" ", "ENGINE", *head[1:])
        rows = [(row[0], each.engine, *row[1:]) for each, row in zip(chosen.containers, rows, strict=True)]
    lines = headline(status, sight, width)
    lines += [
        line
        for clause in (sight.clause(fronts), freshness(status, now, sight))
        if clause
        for line in wrapped(clause, width)
    ]
    lines.append("")
    if rows:
        lines += painted(head, rows, paint, width, is_wide=is_wide)
    else:
        lines.append(no_containers(status) if not status.containers else "no containers of this choice")
    if chosen.units:
        # No id: a unit is known by its name.
        told = ((each.id, _row(each, now, status, sight, is_wide=is_wide)) for each in chosen.units)
        units = [(letters.get(id, " "), row[0], *row[2:]) for id, row in told]
        if choice == ALL:
            units += [(" ", each.name, "hole", "-", *("-" for _ in more), each.reason) for each in _holes(status)]
        lines += ["", *painted((" ", "UNIT", "KIND", "CPUS", *more, "STATE"), units, paint, width, is_wide=is_wide)]
    lines += below([*problem_lines(problems_of(chosen), width), *pending_lines(chosen, now, sight, width)])
    lines += below([line for note in status.notes for line in wrapped(f"note: {note}", width)])
    return [*lines, "", *draw(status.machine, marks_of(status), paint, width), "", *legend(status, paint, width)]


def fronts_clause() -> str:
    """Return which fronts are installed on this host, at the usual place; "" for none."""
    if not any(map(os.path.exists, USUAL_FRONTS)):
        return ""
    # Only here: it needs what installs them.
    from sidecar.cli.doctor.front_checks import fronts_here
    from sidecar.words.around import fronts_told

    return fronts_told(fronts_here())


def formatted(template: RowTemplate, rows: Sequence[ContainerReading], status: Status, sight: Sight) -> list[str]:
    """Return the lines of a template for these containers and units. Their state in words is that of the document
    itself, as in the table: a reading of it claims nothing any more that could be told as what was.
    """
    now, known = datetime.now(UTC), {each.id: each for each in status.rows}
    states = ((each.name, state_of(known.get(each.id, each), now, status.waiting)) for each in rows)
    said = [sight.state(state, {name}) for name, state in states]
    return filled(template, CONTAINER_FIELDS, map(ToldContainer, rows, said))


def _row(each: ContainerStatus, now: datetime, status: Status, sight: Sight, *, is_wide: bool) -> tuple[str, ...]:
    cpus = str(each.cpus) if Phase(each.phase).is_live else "-"
    state = sight.state(state_of(each, now, status.waiting), {each.name})
    id = each.id if is_wide else each.id[:12]
    return each.name, id, each.sharing.value, cpus, *(wide_cells(each) if is_wide else ()), state


def _holes(status: Status) -> list[HoleStatus]:
    """Return the units that are not confined, and stand in no row of their own."""
    names = {each.name for each in status.units}
    return [each for each in status.host.holes if each.name not in names] if status.host else []


def painted(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    paint: Paint,
    width: int | None,
    *,
    is_wide: bool = False,
) -> list[str]:
    """Return the lines of a table, each row in the colour of the mark in its first column. IDs go first, unless it is
    wide.
    """
    first, *others = table_rows(head, rows, width, spare=() if is_wide else ("ID",))
    marked = ((row[0], line) for row, lines in zip(rows, others, strict=True) for line in lines)
    return [*first, *(line if mark == " " else paint(line, mark) for mark, line in marked)]


def below(lines: list[str]) -> list[str]:
    """Return lines with an empty one above them; none for none."""
    return ["", *lines] if lines else []


def problem_lines(problems: Iterable[Problem], width: int | None) -> list[str]:
    """Return each problem as a sentence of its own, whole."""
    return [line for each in problems for line in wrapped(_problem(each), width)]


def _problem(each: Problem) -> str:
    match each.kind:
        case ProblemKind.DAEMON:
            return f"problem: {each.text}"
        case ProblemKind.LABEL:
            return f"warning: {each.container}: {each.text}"
        case _:
            return f"problem: {each.container}: {each.kind}: {each.text}"


def pending_lines(status: Status, now: datetime, sight: Sight, width: int | None) -> list[str]:
    """Return what is on its way for each container, and why."""
    lines = []
    for each in status.rows:
        if each.leaving:
            must = sight.clause("must leave")
            take = f"{each.name} {must} {each.leaving.cpus} (take {each.leaving.number})"
            lines += wrapped(f"{take}, {left(each.leaving, now)}: {each.leaving.reason}", width)
        elif each.waits_for:
            lines += wrapped(f"{each.name} {sight.clause('waits for')} {each.waits_for}", width)
    return lines


def left(leaving: LeavingStatus, now: datetime) -> str:
    """Return how long CPUs that are being taken may still be used."""
    if leaving.is_due:
        return "notice over"
    try:
        seconds = (datetime.fromisoformat(leaving.until) - now).total_seconds()
    except (ValueError, TypeError):
        return f"{leaving.notice_seconds:g} s of notice"
    return f"{max(0.0, seconds):.1f} s left"


def headline(status: Status, sight: Sight, width: int | None) -> list[str]:
    """Return the policy, the engine, and the kinds of CPUs: one line if the page is wide enough."""
    engine = f"{status.engine.name} {status.engine.version}" if status.engine else "no engine yet"
    if status.engines:
        engine = ", ".join(map(_engine, status.engines))
    options = f" ({', '.join(status.options)})" if status.options else ""
    parts = [f"policy {status.policy}{options} on {engine}"]
    if status.policy == PolicyName.NONE:
        parts.append(sight.clause("labels are not looked at"))
    for what, cpus in (("reserved", status.reserved), ("shared", status.shared), ("exclusive", status.exclusive)):
        parts.append(f"{what} {cpus or 'none'}")
    return [
        *joined(parts, width),
        *(line for each in (status.hand, status.host, status.around) if each for line in wrapped(each.text, width)),
    ]


def _engine(each: EngineStatus) -> str:
    told = f"{each.name} {each.version}".strip()
    return told if each.is_ready else f"{told} (not ready: {each.why_not})"


def no_containers(status: Status) -> str:
    """Return what is shown in place of containers if there are none: none are known before an engine has told them."""
    return "no containers" if status.is_ready else "no container is known: no engine tells which there are"


def freshness(status: Status, now: datetime, sight: Sight) -> str:
    """Return whether the daemon runs and works, and how old the document is."""
    try:
        age = _age((now - datetime.fromisoformat(status.updated_at)).total_seconds())
    except (ValueError, TypeError):
        age = "some time"
    if sight.is_running is False:
        return f"THE DAEMON IS NOT RUNNING: this is its last state, {age} old"
    if sight.is_last_word:
        if sight.is_running is None:
            return (
                f"NO DAEMON VOUCHES FOR THIS, the last state, {age} old; it cannot be seen from here whether one runs"
            )
        why = "IS STOPPED, STALLED OR STUCK, OR CANNOT WRITE ITS STATUS" if status.is_ready else "WAITS FOR ITS ENGINE"
        return f"THE DAEMON {why}: it does not vouch for this, its last state, {age} old"
    state = (
        "releasing every container"
        if status.is_releasing
        else "running"
        if status.is_ready
        else "waiting for the engine"
    )
    if sight.is_running is None:
        return f"the daemon was {state} {age} ago; it cannot be seen from here whether it still runs"
    return f"the daemon is {state}; the last change was {age} ago"


def _age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def state_of(each: ContainerStatus, now: datetime, waiting: int = 0) -> str:
    """Return the most pressing fact about a container, in a few words; the sentences stand below the table. `waiting`
    is the length of the queue.
    """
    words = [] if each.phase == "running" else [each.phase]
    if each.leaving:
        words.append(f"leaving {each.leaving.cpus}: {left(each.leaving, now)}")
    elif each.pending and not each.is_settled:
        # Of one that is settled, the engine only records what the kernel has already.
        words.append(f"on its way to {each.pending}")
    elif each.trouble:
        words.append("failed")
    elif each.waits_for:
        words.append("waiting")
    elif each.is_settled and each.sharing is SharingStatus.EXCLUSIVE:
        words.append(_settled(each))
    elif each.is_settled:
        words.append(_STEADY.get(each.sharing, "settled"))
    elif Phase(each.phase).is_live:
        words.append(_unsettled(each))
    if each.refusal:
        words.append(f"refused, {ordinal(each.turn)} of {waiting} waiting" if each.turn else "refused")
    if each.is_quota_lifted:
        words.append("quota lifted")
    if warnings := [said for said in each.warnings if said != each.refusal]:
        words.append(counted(len(warnings), "warning"))
    return "; ".join(words)


def _unsettled(each: ContainerStatus) -> str:
    """Return what is true of a live container that nothing holds up, and that is not settled: for some seconds."""
    if each.cpus != each.desired:
        return f"to move to {each.desired}"
    if each.sharing is SharingStatus.SHARED:
        return "in place, to be recorded by the engine"
    return "in place, not yet settled"


def _settled(each: ContainerStatus) -> str:
    """Return what is true of a container with a grant that is in force."""
    if not Phase(each.phase).is_live:
        return "keeps its CPUs"
    if each.is_alone:
        return "settled, alone"
    beside = may_run_there([(other.name, other.sharing.value) for other in each.neighbours], each.neighbour_count)
    return f"settled; {beside}" if beside else "settled"


def _page(
    status: Status, now: datetime, sight: Sight, width: int, *, choice: Choice = ALL, is_wide: bool = False
) -> list[str]:
    paint = coloured if has_colours() else plain
    return rendered(status, now, sight, paint=paint, width=width, choice=choice, is_wide=is_wide)
