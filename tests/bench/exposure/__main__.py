"""How long newcomers may run on an owner's CPU: `python -m tests.bench.exposure [--seconds 30] [--clients 1,8]`.

An owner has one CPU. Clients bring plain short containers without pause; tenants update themselves onto its CPU, or
hold the engine's locks; the engine is restarted with containers that it starts again by their policy. A judge of its
own reads the kernel and knows nothing of the sidecar. Everything runs on an engine that is started for this and removed
again, which needs root and gcc; the columns take turns in one run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Final

from tests.bench.exposure.attacks import Locked, Looped, locked_beside, loops
from tests.bench.exposure.columns import Column
from tests.bench.exposure.engine_restart import Restarted, restarts
from tests.bench.exposure.first_cpus import Firsts, firsts
from tests.bench.exposure.newcomers import Rate, exposures
from tests.bench.own_engine import own_engine
from tests.live.privateengine import PrivateEngine

Row = Rate | Firsts | Looped | Locked | Restarted

PARTS: Final = ("newcomers", "first", "updates", "locks", "restart")


def measured(engine: PrivateEngine, folder: Path, args: argparse.Namespace) -> Iterator[Row]:
    """Measure the parts that were asked for, a row at a time."""
    columns = [Column[each.upper()] for each in args.columns]
    for clients in args.clients if "newcomers" in args.parts else ():
        yield from exposures(engine, folder, clients, args.seconds, columns)
    if "first" in args.parts:
        yield from firsts(engine, folder, args.firsts, columns)
    for count in args.loops if "updates" in args.parts else ():
        yield from loops(engine, folder, count, args.seconds, columns)
    if "locks" in args.parts:
        yield from locked_beside(engine, folder, args.locked, columns)
    if "restart" in args.parts:
        yield from restarts(engine, folder, args.restarted, columns)


def shown(row: Row) -> str:
    """Return a line for people."""
    match row:
        case Rate():
            each = row.exposure
            ratio = f" ({row.ratio:.2f} of bare)" if row.ratio else ""
            return (
                f"{row.clients} clients, {row.column.value}: newcomers on the owner's CPU {each.percent:.2f} % of the "
                f"time, at least one {each.any_percent:.2f} %; {each.ever} of {each.newcomers} ever, at most "
                f"{each.longest_ms:.1f} ms; {row.a_second:.2f} a second{ratio}; "
                f"longest pass {row.longest_pass_ms:.1f} ms"
            )
        case Firsts():
            return f"first instruction, {row.way}, {row.column.value}: off the owner's CPU {row.right} of {row.of}"
        case Looped():
            each = row.exposure
            return (
                f"{row.loops} loops of updates, {row.column.value}: on the owner's CPU {each.percent:.2f} % of the "
                f"time, at least one {each.any_percent:.2f} %; {row.updates_a_second:.0f} updates a second"
            )
        case Locked():
            alone, settled = (f"{at:.0f} ms" if at is not None else "never" for at in (row.alone_ms, row.settled_ms))
            return f"{row.locked} locked, {row.column.value}: the arrival alone after {alone}, settled after {settled}"
        case Restarted():
            each = row.exposure
            owner = "is back" if row.owner_is_back else "is not back"
            return (
                f"{row.restarted} restarted with their engine, {row.column.value}: on the owner's CPU "
                f"{each.percent:.2f} % of the time, at least one {each.any_percent:.2f} %; {each.ever} of "
                f"{each.newcomers} ever; all run after {row.seconds:.1f} s, the owner {owner}"
            )


def as_json(row: Row) -> str:
    """Return a line for programs."""

    def plain(value: object) -> object:
        if isinstance(value, Enum):
            return value.value
        fields = getattr(value, "_asdict", None)
        return {key: plain(each) for key, each in fields().items()} if fields else value

    return json.dumps({"part": type(row).__name__.lower(), "row": plain(row)})


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a line for each row."""
    args = _arguments().parse_args(arguments)
    with own_engine() as (engine, folder):
        for row in measured(engine, folder, args):
            print(as_json(row) if args.json else shown(row), flush=True)
    return 0


def _arguments() -> argparse.ArgumentParser:
    def listed(text: str) -> list[str]:
        return [each.strip() for each in text.split(",")]

    def numbers(text: str) -> list[int]:
        return [int(each) for each in listed(text)]

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30, help="of each row of newcomers and of updates")
    parser.add_argument("--clients", type=numbers, default=[1, 8])
    parser.add_argument("--firsts", type=int, default=200, help="containers of each row of first instructions")
    parser.add_argument("--loops", type=numbers, default=[1, 6], help="containers that are updated in a loop")
    parser.add_argument("--locked", type=int, default=30, help="containers whose lock is held")
    parser.add_argument("--restarted", type=int, default=20, help="containers that restart with their engine")
    names = ", ".join(each.name.lower() for each in Column)
    parser.add_argument("--columns", type=listed, default=["none", "engine", "hand"], help=names)
    parser.add_argument("--parts", type=listed, default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
