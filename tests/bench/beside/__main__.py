"""What an arrival waits for beside a hostile tenant: `python -m tests.bench.beside [--rounds 8] [--turns 3]`.

An arrival asks for a CPU, is created, started and removed. Columns take turns: the bare engine and the engine with a
sidecar, each beside nobody, beside a tenant that only starts plain containers, and beside one that does everything
hostile at random. Without a sidecar a client asks the engine to describe the arrival from its start on: when that is
answered is when anybody can know of it. With one, the same, and when the arrival is told that it is settled and alone.
A column may be another checkout of the program with this bench in it, and may have a weight, as a container and a
service have one: `--columns bare,sidecar,sidecar@100,sidecar@1000,/tmp/before` compares all of these in one run.
Everything runs on an engine that is started for this and removed again, which needs root.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from sidecar.config.keys import KEYS
from tests.bench.beside.arrivals import Arrival, arrival
from tests.bench.beside.stopwatch import Note, read_notes
from tests.bench.beside.tenant import hostile_tenant
from tests.bench.beside.weighed import weighed
from tests.bench.latency import engine_at
from tests.bench.own_engine import own_engine
from tests.live.engineapi import ApiError
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import SidecarProcess
from tests.live.waiting import eventually
from tests.support.attacks import UNMANAGED, Attack

TENANTS: Final = {"nobody": (), "busy": (Attack.CROWD,), "hostile": tuple(Attack)}

_MEMORY: Final = "/dev/shm"

BARE: Final = "bare"
SIDECAR: Final = "sidecar"

_WARM_SECONDS: Final = 3.0
"""How long a tenant acts before the first arrival: as many containers as it will have."""


class Row(NamedTuple):
    """The arrivals of one column."""

    column: str
    tenant: str
    arrivals: list[Arrival]
    cpu_percent: float


@contextmanager
def served(engine: PrivateEngine, folder: Path, column: str) -> Iterator[SidecarProcess]:
    """Run a daemon with a stopwatch, of this checkout or another one, in a group of the column's weight."""
    tree, _, weight = column.partition("@")
    with weighed(int(weight or 0)) as before:
        sidecar = SidecarProcess(folder, engine.socket_path)
        sidecar.wrapper = (*before, *sidecar.wrapper)
        if tree != SIDECAR:
            sidecar.wrapper = (*sidecar.wrapper, "env", "-C", tree, f"PYTHONPATH={tree}")
        with _running(sidecar, folder):
            yield sidecar


@contextmanager
def _running(sidecar: SidecarProcess, folder: Path) -> Iterator[None]:
    sidecar.module = "tests.bench.beside.stopwatch"
    # As it ships: inventories are rare, and projections are in memory.
    memory = folder / "memory" if not Path(_MEMORY).is_dir() else Path(_MEMORY, f"cpuset-bench-{folder.name}")
    sidecar.projections = memory
    sidecar.configure(
        unmanaged=[f"*-{UNMANAGED}"], reconcile_period=KEYS["reconcile_period"].default, projections=str(memory)
    )
    try:
        sidecar.start(until_ready=False)
        eventually(lambda: sidecar.has_logged("ready") or not sidecar.is_running, "it is ready", seconds=120)
        if not sidecar.is_running:
            sys.exit(f"the sidecar ended: {sidecar.log()}")
        yield
        sidecar.terminate()
    finally:
        sidecar.kill()
        shutil.rmtree(memory, ignore_errors=True)


def measured(engine: PrivateEngine, folder: Path, tenant: str, args: argparse.Namespace, turn: int, column: str) -> Row:
    """Measure the arrivals of one turn of one column."""
    api = engine_at(engine.socket_path)
    api.network = args.network
    with ExitStack() as stack:
        sidecar = None if column == BARE else stack.enter_context(served(engine, folder, column))
        acts = TENANTS[tenant]
        stack.enter_context(
            hostile_tenant(engine.socket_path, engine.cgroup_parent, turn, acts) if acts else nullcontext()
        )
        time.sleep(_WARM_SECONDS)
        began, cpu = time.monotonic(), _cpu(sidecar)
        names = [f"arrival-{turn}-{_word(column)}-{tenant}-{number}" for number in range(args.rounds)]
        found = [arrival(api, sidecar, name) for name in names]
        percent = (_cpu(sidecar) - cpu) / (time.monotonic() - began) * 100
    for each in api.ask("GET", "containers/json", all="1"):
        with suppress(ApiError):
            api.remove(each["Id"])
    return Row(column, tenant, found, percent)


def _word(column: str) -> str:
    """Return a column as a part of names."""
    return Path(column).name.replace("@", ".")


def _cpu(sidecar: SidecarProcess | None) -> float:
    if sidecar is None:
        return 0.0
    tasks = Path(f"/proc/{sidecar.pid}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in tasks) / 1e9


def steps(each: Arrival, notes: Sequence[Note]) -> list[tuple[str, int]]:
    """Return what happened for an arrival, by the wall clock."""
    own = [note for note in notes if note.container == each.id]
    told = [("client: create", each.created), ("client: start", each.asked), ("engine: started", each.started)]
    told += [("client: start answered", each.answered), ("client: described", each.known), ("told", each.told)]
    for note in own:
        more = f" {note.more}" if note.more else ""
        if note.took:
            told.append((f"> {note.what}", note.at))
        told.append((f"< {note.what}{more} {note.took / 1e6:.1f} ms, on a CPU {note.on_cpu / 1e6:.1f}", note.end))
    return sorted(told, key=lambda step: step[1])


def shown(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each column."""
    for (column, tenant), own in itertools.groupby(sorted(rows, key=lambda row: row[:2]), key=lambda row: row[:2]):
        turns = list(own)
        every = [each for row in turns for each in row.arrivals]
        cells = [
            ("start asked to answered", [each.answered - each.asked for each in every]),
            ("started to described", [each.known - each.started for each in every]),
            ("started to told", [each.told - each.started for each in every if each.told]),
            ("described to told", [each.told - each.known for each in every if each.told]),
        ]
        told = "; ".join(f"{name} {_ms(values)}" for name, values in cells if values)
        load = median(each.load for each in every)
        cpu = median(row.cpu_percent for row in turns)
        yield f"{column}, {tenant}: {told}; daemon {cpu:.0f} % of a CPU; load {load:.1f}"


def _ms(values: Sequence[int]) -> str:
    ordered = sorted(each / 1e6 for each in values)
    return f"{median(ordered):.0f} ({ordered[0]:.0f} to {ordered[-1]:.0f})"


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8, help="arrivals of each turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--tenants", default=",".join(TENANTS))
    parser.add_argument("--columns", default=f"{BARE},{SIDECAR}")
    parser.add_argument("--network", default="host")
    parser.add_argument("--steps", action="store_true", help="print the steps of each arrival")
    parser.add_argument("--keep", default="", help="a folder for the notes")
    args = parser.parse_args()
    rows = []
    with own_engine() as (engine, folder):
        for turn in range(args.turns):
            for tenant in args.tenants.split(","):
                for column in args.columns.split(","):
                    name = f"{turn}-{tenant}-{_word(column)}"
                    row = measured(engine, folder / name, tenant, args, turn, column)
                    rows.append(row)
                    print(*shown([row]), flush=True)
                    if column != BARE:
                        _look_into(row, folder / name, args, name)
    print("--- all turns")
    for line in shown(rows):
        print(line)
    return 0


def _look_into(row: Row, folder: Path, args: argparse.Namespace, name: str) -> None:
    notes = read_notes(folder)
    if args.keep:
        kept = Path(args.keep)
        kept.mkdir(exist_ok=True, parents=True)
        (kept / f"{name}.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in notes))
        (kept / f"{name}.arrivals.json").write_text(json.dumps(row.arrivals))
    if args.steps:
        for each in row.arrivals:
            print(f"  {each.id[:12]}")
            for what, at in steps(each, notes):
                print(f"    {(at - each.started) / 1e6:8.1f} {what}")


if __name__ == "__main__":
    sys.exit(main())
