"""`doctor --quiet`: what would make an owner's CPUs quiet, by a measurement of what runs there."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Final

from sidecar.cli.flags import config_of, print_json
from sidecar.cli.owner_measurement import exit_code, headline, in_ms, measured
from sidecar.cli.printout import LEAST_WIDTH, printout, wrapped
from sidecar.disturbance.disturbance_report import Report
from sidecar.disturbance.remedies import QuietReport, Remedy, quiet_report
from sidecar.disturbance.switch_positions import read_positions
from sidecar.words.counts import counted

_GROUPS: Final[tuple[tuple[str, Callable[[Remedy], bool]], ...]] = (
    ("at once:", lambda one: bool(one.command) and not one.needs_reboot),
    ("only by a reboot, with the kernel's command line:", lambda one: one.needs_reboot),
    ("by no switch:", lambda one: not one.command and not one.needs_reboot),
)

_NAMED: Final = 6
"""Disturbers that the page names of each switch; `--json` has all."""


def run_quiet(args: argparse.Namespace) -> int:
    """Measure, and print what would silence what was found. Nothing is changed. The code is that of `disturbed`."""
    done = measured(args, config_of(args).state_dir, args.quiet)
    if done is None:
        return 1
    report = quiet_report(done.noted if args.json else done.report, read_positions(done.exclusive))
    if args.json:
        print_json(report)
    else:
        sys.stdout.write("\n".join(quiet_lines(report, printout().width)) + "\n")
    return exit_code(done)


def quiet_lines(report: QuietReport, width: int | None) -> list[str]:
    """Return the page: a line that sums up, then each switch with what it silences, by when it can be set."""
    whole = Report(method=report.method, seconds=report.seconds, containers=(report.container,), notes=report.notes)
    lines = wrapped(headline(report.container, whole), width)
    amounts = max((len(_amount(each)) for each in report.remedies), default=0)
    for title, belongs in _GROUPS:
        if found := [each for each in report.remedies if belongs(each)]:
            lines.append(title)
            for each in found:
                lines += _told(each, amounts, width)
    if not report.remedies:
        lines.append("nothing else ran there")
    return [*lines, *(line for note in report.notes for line in wrapped(f"note: {note}", width))]


def _told(each: Remedy, amounts: int, width: int | None) -> Iterator[str]:
    margin = " " * (amounts + 4)
    room = None if width is None else max(LEAST_WIDTH, width - len(margin))
    first, *more = wrapped(_silenced(each), room, indent="")
    yield f"  {_amount(each):>{amounts}}  {first}"
    yield from (margin + line for line in more)
    if each.command:
        # Whole, however long it is: it is there to be copied.
        yield from (margin + line for line in wrapped(each.command, None))
    yield from (margin + line for line in wrapped(each.says, room, indent=""))


def _silenced(each: Remedy) -> str:
    shown = ", ".join(each.silences[:_NAMED])
    more = len(each.silences) - _NAMED
    return f"{shown} and {more} more (--json has all)" if more > 0 else shown


def _amount(each: Remedy) -> str:
    return counted(each.count, "time") if each.total_ms is None else f"{in_ms(each.total_ms)} ms"
