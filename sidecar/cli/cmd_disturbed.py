"""`disturbed`: what runs on an owner's CPUs and is not the owner, by name and amount."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from sidecar.cli.arguments import typed
from sidecar.cli.flags import add_config, add_json, config_of, print_json
from sidecar.cli.printout import printout, wrapped
from sidecar.cli.table import table
from sidecar.disturbance.account import ExclusiveCPUs
from sidecar.disturbance.disturbance_report import Disturbed, Disturber, Method, Report
from sidecar.disturbance.measuring import measure
from sidecar.disturbance.trace_instance import PLACES
from sidecar.failures import SidecarError
from sidecar.natural_order import natural
from sidecar.readers import duration
from sidecar.status.document import ContainerStatus, Status
from sidecar.status.find_container import find
from sidecar.status.status_reader import read_last_status
from sidecar.words.counts import counted, named

_SECONDS: Final = (0.1, 3600.0)

_ROWS: Final = 20
"""Disturbers that the page shows of each owner; `--json` has all."""

_HEAD: Final = ("WHAT", "NAME", "OF", "TIMES", "MS", "LONGEST (MS)", "CPUS")

_EXAMPLES: Final = """examples:
  cpuset-sidecar disturbed
  cpuset-sidecar disturbed db --seconds 30
  cpuset-sidecar disturbed db --json
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "disturbed",
        help="what runs on an exclusive container's CPUs and is not its own",
        description="Measure for some seconds what runs on the CPUs of exclusive containers and is not their own:\n"
        "processes, kernel threads, interrupts, and time that a hypervisor takes.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "container", nargs="?", help="its name, or the beginning of its ID (default: all exclusive ones)"
    )
    parser.add_argument(
        "--seconds",
        type=typed("--seconds", duration(*_SECONDS)),
        default=10.0,
        metavar="N",
        help="how long to measure, as 30, 500ms or 1m (default: 10)",
    )
    parser.add_argument(
        "--tracefs", metavar="DIR", help=f"where the kernel's tracefs is mounted (default: {' or '.join(PLACES)})"
    )
    add_json(parser)
    add_config(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Measure, and print the report. Return 1 if no daemon vouches for whose CPUs these are, or at Ctrl-C."""
    last = read_last_status(config_of(args).state_dir, time.time())
    owners = _owners(last.reading, args.container)
    names = {each.id: each.name for each in last.reading.containers}
    try:
        report = measure(
            owners,
            names,
            args.seconds,
            tracefs=(args.tracefs,) if args.tracefs else PLACES,
            progress=_progress(args.seconds),
        )
    except KeyboardInterrupt:
        sys.stderr.write("cpuset-sidecar: interrupted: nothing was measured\n")
        return 1
    if args.json:
        print_json(report)
    else:
        sys.stdout.write("\n".join(rendered(report, printout().width)) + "\n")
    if last.outdated:
        sys.stderr.write(f"cpuset-sidecar: {last.outdated}\n")
        return 1
    return 0


def _owners(status: Status, wanted: str | None) -> Sequence[ExclusiveCPUs]:
    """Return the containers to measure. SidecarError if there is none."""
    if wanted is not None:
        found = find(status.containers, wanted)
        if not _is_owner(found):
            raise SidecarError(f"{found.name} has no CPUs of its own: `cpuset-sidecar explain {found.name}` tells why")
        return (_owner(found),)
    owners = [_owner(each) for each in status.containers if _is_owner(each)]
    if not owners:
        raise SidecarError("no container has CPUs of its own, so none can be disturbed")
    return sorted(owners, key=lambda each: natural(each.name))


def _is_owner(each: ContainerStatus) -> bool:
    return bool(each.granted)


def _owner(each: ContainerStatus) -> ExclusiveCPUs:
    return ExclusiveCPUs(each.id, each.name, each.granted)


def _progress(seconds: float) -> Callable[[float], None]:
    """Return what shows on a terminal that the measurement goes on."""
    if not sys.stderr.isatty():
        return lambda _: None

    def show(left: float) -> None:
        said = f"measuring, {left:.0f} of {seconds:g} s left" if left > 0 else ""
        sys.stderr.write(f"\r\x1b[K{said}")
        sys.stderr.flush()

    return show


def rendered(report: Report, width: int | None) -> list[str]:
    """Return the page: for each container a line, and a table of what disturbed it."""
    lines: list[str] = []
    for each in report.containers:
        lines += [*([""] if lines else []), *wrapped(_headline(each, report), width)]
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


def _headline(each: Disturbed, report: Report) -> str:
    said = [f"{each.name}, {named(each.cpus)}, {report.seconds:.1f} s"]
    if each.foreign_ms is not None and each.share is not None:
        said.append(f"others ran there for {_ms(each.foreign_ms)} ms ({_percent(each.share)})")
    if each.waited_ms is not None:
        said.append(f"it waited {_ms(each.waited_ms)} ms for a CPU")
    if each.stolen_ms:
        said.append(f"a hypervisor took {_ms(each.stolen_ms)} ms")
    return "; ".join(said)


def _row(one: Disturber) -> tuple[str, ...]:
    what = f"{one.kind}, stays" if one.is_bound else str(one.kind)
    return (
        what,
        one.name,
        one.of or "-",
        str(one.count),
        _ms(one.total_ms),
        _ms(one.longest_ms),
        str(one.cpus),
    )


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 1 else f"{value:.1f}"


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
