"""`disturbed`: what runs on an owner's CPUs and is not the owner, by name and amount."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from msgspec.structs import asdict

from sidecar.cli.flags import add_config, add_format, add_json, check_format, config_of, print_json
from sidecar.cli.owner_measurement import add_measuring, exit_code, headline, in_ms, measured
from sidecar.cli.printout import printout, wrapped
from sidecar.cli.row_template import Fields, filled
from sidecar.cli.table import table
from sidecar.disturbance.disturbance_report import Disturber, DisturberLine, Method, Report
from sidecar.words.counts import counted
from state import codec

_ROWS: Final = 20
"""Disturbers that the page shows of each owner; `--json` has all."""

_HEAD: Final = ("WHAT", "NAME", "OF", "TIMES", "MS", "LONGEST (MS)", "CPUS")

_EXAMPLES: Final = """examples:
  cpuset-sidecar disturbed
  cpuset-sidecar disturbed db --seconds 30
  cpuset-sidecar disturbed db --json
  cpuset-sidecar disturbed --format '{{.Owner}} {{.What}} {{.Name}} {{.Times}}'
"""


DISTURBER_FIELDS: Final[Fields[DisturberLine]] = Fields(
    {
        ".Owner": lambda each: each.owner,
        ".What": lambda each: str(each.kind),
        ".Name": lambda each: each.name,
        ".Of": lambda each: each.of,
        ".Times": lambda each: str(each.count),
        ".Milliseconds": lambda each: in_ms(each.total_ms),
        ".Longest": lambda each: in_ms(each.longest_ms),
        ".CPUs": lambda each: str(each.cpus),
    },
    lambda each: codec.encode_flat(each).decode(),
)
"""What a template may name of a disturber."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "disturbed",
        description="Measure for some seconds what runs on the CPUs of exclusive containers and is not their own:\n"
        "processes, kernel threads, interrupts, and time that a hypervisor takes.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "container", nargs="?", help="its name, or the beginning of its ID (default: all exclusive ones)"
    )
    add_measuring(parser)
    add_format(parser, DISTURBER_FIELDS, "{{.Owner}}\\t{{.Name}}\\t{{.Times}}")
    add_json(parser)
    add_config(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Measure, and print the report. Return 1 if no daemon vouches for whose CPUs these are, or at Ctrl-C."""
    check_format(args, "json")
    done = measured(args, config_of(args).state_dir, args.container)
    if done is None:
        return 1
    if args.json:
        print_json(done.noted)
    elif args.format:
        told = [DisturberLine(owner=each.name, **asdict(by)) for each in done.report.containers for by in each.by]
        sys.stdout.write("".join(f"{line}\n" for line in filled(args.format, DISTURBER_FIELDS, told)))
    else:
        sys.stdout.write("\n".join(rendered(done.report, printout().width)) + "\n")
    return exit_code(done)


def rendered(report: Report, width: int | None) -> list[str]:
    """Return the page: for each container a line, and a table of what disturbed it."""
    lines: list[str] = []
    for each in report.containers:
        lines += [*([""] if lines else []), *wrapped(headline(each, report), width)]
        rows = [_row(one) for one in each.by[:_ROWS]]
        if rows:
            spare = () if report.method is Method.TRACE else ("OF", "MS", "LONGEST (MS)")
            head = [name for name in _HEAD if name not in spare]
            kept = [[cell for name, cell in zip(_HEAD, row, strict=True) if name not in spare] for row in rows]
            lines += [f"  {line}" for line in table(head, kept, None if width is None else width - 2)]
        if len(each.by) > _ROWS:
            lines.append(f"  and {len(each.by) - _ROWS} more (--json has all)")
        if each.lost:
            lines += wrapped(f"  {counted(each.lost, 'event')} of the kernel's trace were lost: there was more", width)
    lines += [line for note in report.notes for line in wrapped(f"note: {note}", width)]
    return lines


def _row(one: Disturber) -> tuple[str, ...]:
    what = f"{one.kind}, stays" if one.is_bound else str(one.kind)
    return (
        what,
        one.name,
        one.of or "-",
        str(one.count),
        in_ms(one.total_ms),
        in_ms(one.longest_ms),
        str(one.cpus),
    )
