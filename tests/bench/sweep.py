"""One exclusive arrival on a host with many shared containers: `python -m tests.bench.sweep [--shared 50,300]`.

Four times of each arrival: until a client that asks without pause has the engine's description of it as running, before
which nobody can know of its start; until the kernel is right, by a judge that reads only the kernel (no other container
may run on the arrival's CPU, and it runs nowhere else); until its projection says `settled`; and until the engine's
records of all shared containers agree. The engine's own events count the updates. The columns and the bare engine take
turns: the same updates by a blocking client, as many at once. An arrival comes when the daemon has looked at everybody;
the projections are on a tmpfs, as on a host. The judge reads without pause where each thread of all containers may run:
on a small machine it takes a CPU from all others, so `--without-judge` leaves it out. On an engine of its own, which
needs root and gcc.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from sidecar.decide.moves.plan import SWEEP_SLOTS
from state.cpuset import CPUSet
from tests.bench.beside.arrivals import once_described
from tests.bench.beside.stopwatch import Note, read_notes
from tests.bench.exposure.columns import EXCLUSIVE, OWNED, READ_ONLY, Column
from tests.bench.exposure.judging import judge
from tests.bench.latency import IMAGE, engine_at
from tests.bench.own_engine import own_engine
from tests.live.engineapi import EngineApi, EngineConnection
from tests.live.kernelview import KernelView, online
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import LAST, SidecarProcess
from tests.live.waiting import eventually

_PATIENCE: Final = 120.0
"""Seconds until everything has settled: 300 updates of a busy engine take half a minute."""


_REST: Final = 1.0
"""Seconds without a decision, after which the daemon has no look under way."""


class Change(NamedTuple):
    """An event of the engine: the wall clock in nanoseconds, what happened, and to which container."""

    at: int
    action: str
    id: str


class Arrival(NamedTuple):
    """One arrival, or the bare engine's updates. Milliseconds after the engine's `start` event, negative before it;
    `create_ms` is how long before it the `create` event was. `bare_ms` is how long the bare engine took; 0 in a column.
    """

    shared: int
    column: str
    create_ms: float = 0
    known_ms: float = 0
    kernel_ms: float | None = None
    settled_ms: float | None = None
    records_ms: float | None = None
    updates: int = 0
    most_updates: int = 0
    """Of one shared container."""
    bare_ms: float = 0
    id: str = ""
    started: int = 0
    """When the engine says that it was started, by the wall clock in nanoseconds."""
    settled: int = 0
    """When its projection was written that says so, by the daemon's clock."""
    steps: tuple[str, ...] = ()
    """With `--steps`: what the daemon did from the start until it was settled."""


def bare_sweep(api: EngineApi, ids: Sequence[str], cpus: CPUSet) -> float:
    """Return the seconds that a blocking client needs to update all, as many at once as the sidecar does."""
    with ThreadPoolExecutor(SWEEP_SLOTS) as pool:
        began = time.perf_counter()
        list(pool.map(lambda id: api.update(id, CpusetCpus=str(cpus)), ids))
        return time.perf_counter() - began


@contextmanager
def heard(socket_path: str) -> Iterator[list[Change]]:
    """Collect the engine's events of containers for the block."""
    changes: list[Change] = []
    connection = EngineConnection(socket_path)
    connection.timeout = None  # silence is no error
    wanted = quote(json.dumps({"type": ["container"], "event": ["create", "start", "update"]}))
    connection.request("GET", f"/v1.41/events?filters={wanted}")
    stream = connection.getresponse()

    def listen() -> None:
        with suppress(OSError, ValueError, AttributeError):  # closed while it reads
            while line := stream.readline():
                event = json.loads(line)
                changes.append(Change(event["timeNano"], event["Action"], event["Actor"]["ID"]))

    threading.Thread(target=listen, daemon=True).start()
    yield changes


def arrivals(
    engine: PrivateEngine, folder: Path, projections: Path, count: int, args: argparse.Namespace
) -> Iterator[Arrival]:
    """Measure arrivals beside so many shared containers, in turns."""
    api = engine_at(engine.socket_path)
    sidecar = SidecarProcess(folder / f"beside-{count}", engine.socket_path)
    sidecar.projections = projections
    if args.steps:
        sidecar.module = "tests.bench.beside.stopwatch"
    sidecar.configure(linger="10s", reconcile_period="10s", projections=str(projections))
    ids = [api.create(f"bench-shared-{number}", IMAGE, "sleep", "3600") for number in range(count)]
    try:
        with ThreadPoolExecutor(SWEEP_SLOTS) as pool:
            list(pool.map(lambda id: api.act(id, "start"), ids))
        for turn in range(args.rounds):
            for column in args.columns:
                sidecar.wrapper = READ_ONLY if column is Column.ENGINE else ()
                sidecar.start()
                found = one_arrival(api, sidecar, folder, ids, f"{column.name}-{turn}", column, judged=args.judged)
                sidecar.terminate()
                if args.steps:
                    found = found._replace(steps=steps_of(read_notes(sidecar.folder), found))
                yield found
            bare = bare_sweep(api, ids, online() - LAST)
            bare_sweep(api, ids, online())
            yield Arrival(count, "bare engine", bare_ms=bare * 1e3)
    finally:
        sidecar.kill()
        with ThreadPoolExecutor(SWEEP_SLOTS) as pool:
            list(pool.map(api.remove, ids))


def one_arrival(
    api: EngineApi,
    sidecar: SidecarProcess,
    folder: Path,
    ids: Sequence[str],
    name: str,
    column: Column,
    *,
    judged: bool,
) -> Arrival:
    """Measure one arrival, and let it go again. If it is not judged, nothing is said of when the kernel was right."""
    rest = str(online() - LAST)
    recorded = {id: str(online()) for id in ids}
    eventually(lambda: _agree(api, recorded), "the pool is whole", seconds=_PATIENCE)
    sidecar.until_quiet()
    journal = sidecar.state_dir / "journal.jsonl"
    eventually(lambda: time.time() - journal.stat().st_mtime > _REST, "the daemon rests", seconds=_PATIENCE)
    ahead = time.time_ns() - time.monotonic_ns()
    with heard(api.socket_path) as changes, ExitStack() as both:
        judging = both.enter_context(judge(folder, OWNED, KernelView().parent(ids[0]))) if judged else None
        id = api.create(f"bench-exclusive-{name}", IMAGE, "sleep", "3600", labels=EXCLUSIVE)
        with once_described(api, id) as known:
            api.act(id, "start")
        settled = eventually(lambda: _settled(sidecar, id), "it is settled", seconds=_PATIENCE)
        eventually(lambda: _agree(api, dict.fromkeys(ids, rest)), "the records agree", seconds=_PATIENCE)
        eventually(lambda: _updated(changes, ids), "the engine told of each", seconds=_PATIENCE)
        alone = judging.end().alone_at(id) if judging else None
        started = next(each.at for each in changes if each.action == "start" and each.id == id)
        created = next(each.at for each in changes if each.action == "create" and each.id == id)
        # An earlier update's event may come this late.
        updates = [each for each in changes if each.action == "update" and each.id in recorded and each.at > created]
        found = Arrival(
            len(ids),
            column.value,
            create_ms=(started - created) / 1e6,
            known_ms=(known[0] - started) / 1e6,
            kernel_ms=None if alone is None else (alone + ahead - started) / 1e6,
            settled_ms=(settled - started) / 1e6,
            records_ms=(max(each.at for each in updates) - started) / 1e6,
            updates=len(updates),
            most_updates=max(Counter(each.id for each in updates).values()),
            id=id,
            started=started,
            settled=settled,
        )
    api.remove(id)
    return found


def steps_of(notes: Sequence[Note], arrival: Arrival) -> tuple[str, ...]:
    """Return what the daemon did from the arrival's start until it was settled: a line for each step, with equal ones
    that follow each other counted. Milliseconds after the start; how long it took, and had a CPU.
    """
    told: list[str] = []
    within = [note for note in notes if arrival.started <= note.end and note.at <= arrival.settled]
    in_turn = sorted(within, key=lambda note: note.at)
    for (what, is_own), group in groupby(in_turn, key=lambda note: (note.what, note.container == arrival.id)):
        notes_of = list(group)
        first, last = notes_of[0], notes_of[-1]
        at, until = ((each - arrival.started) / 1e6 for each in (first.at, last.end))
        took, on_cpu = (sum(getattr(each, name) for each in notes_of) / 1e6 for name in ("took", "on_cpu"))
        told.append(
            f"{at:8.2f} {until:8.2f} took {took:6.2f}, on a CPU {on_cpu:6.2f}: {len(notes_of)} x {what}"
            f"{' of the arrival' if is_own else ''} {first.more}"
        )
    return tuple(told)


def _settled(sidecar: SidecarProcess, id: str) -> int:
    """Return when its projection was written, by the wall clock in nanoseconds, if that says settled, else 0."""
    told = sidecar.projection(id)
    if told is None or not told.settled or told.cpus != LAST:
        return 0
    return int(datetime.fromisoformat(told.updated_at).timestamp() * 1e9)


def _updated(changes: Sequence[Change], ids: Sequence[str]) -> bool:
    """Return whether the engine told of an update of each."""
    return {each.id for each in tuple(changes) if each.action == "update"} >= set(ids)


def _agree(api: EngineApi, recorded: dict[str, str]) -> bool:
    """Return whether the engine's configuration of each container names these CPUs; "" is a pool that is whole."""
    whole = str(online())
    return all((api.inspect(id)["HostConfig"]["CpusetCpus"] or whole) == cpus for id, cpus in recorded.items())


def shown(row: Arrival) -> str:
    """Return a line for people."""
    if row.bare_ms:
        return f"{row.shared} shared, {row.column}: the same updates in {row.bare_ms:.0f} ms"
    steps = "".join(f"\n    {each}" for each in row.steps)
    kernel = "at a time that nobody judged" if row.kernel_ms is None else f"{row.kernel_ms:.1f} ms"
    return (
        f"{row.shared} shared, {row.column}, from the start ({row.create_ms:.0f} ms after `create`): known "
        f"{row.known_ms:.1f} ms, the kernel right {kernel}, settled {row.settled_ms:.1f} ms, records "
        f"{row.records_ms:.0f} ms; {row.updates} updates, at most {row.most_updates} of one{steps}"
    )


def main() -> int:
    """Measure, and print a line per arrival."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", default="50,300", help="how many shared containers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--columns", default="engine,hand", help="engine, hand")
    parser.add_argument("--steps", action="store_true", help="what the daemon does for each arrival")
    parser.add_argument("--without-judge", action="store_false", dest="judged")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.columns = [Column[each.upper()] for each in args.columns.split(",")]
    with own_engine() as (engine, folder), tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        for count in map(int, args.shared.split(",")):
            for row in arrivals(engine, folder, Path(memory) / str(count), count, args):
                print(json.dumps(row._asdict()) if args.json else shown(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
