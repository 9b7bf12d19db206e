"""What an exclusive arrival beside many shared containers costs the daemon: `python -m tests.bench.settling`.

The daemon's own loop, hand, projections and teller, on cgroups that are made for this and removed again (v1, as root)
and without an engine: from when the look that shows the start is in the inbox until the arrival's file says that it is
settled. Each arrival finds the shared pool whole, and is removed again. Medians, and the best, of the thread's own
processor time, so that other work on the machine counts little; in brackets the same by the clock. `--parts` adds the
calls of each part.
"""

from __future__ import annotations

import argparse
import functools
import io
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import trio

from sidecar import allocator
from sidecar.allocator import Allocator
from sidecar.api.owner_answers import OwnerAnswers
from sidecar.apply.hand_orders import HandOrders
from sidecar.board import Board
from sidecar.commit.fallback_books import SparedCheckpoint
from sidecar.commit.journal import Journal
from sidecar.decide.container.grip import Guarded
from sidecar.decide.facts import (
    ContainerRemoved,
    ContainerSeen,
    ContainerView,
    CpusetApplied,
    EngineConnected,
    EngineInfo,
    Fact,
    InventoryTaken,
    Phase,
)
from sidecar.decide.hand_facts import HandReady
from sidecar.decide.moves.settled import is_settled
from sidecar.decide.orders import ApplyCpuset, HoldAnswers, LookAgain, Order, WriteCpuset
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.world import replace
from sidecar.hand.cgroup_hand import CgroupHand
from sidecar.hand.reflex_queue import find_library
from sidecar.log import Log
from sidecar.projection.file_replacer import Replacer, find_replacer
from sidecar.projection.projections import Projections
from sidecar.projection.teller import Teller
from state import codec
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.model import State
from state.topology import uniform
from tests.live.kernelview import online
from tests.support.hand.stages import V1

_PARENT: Final = "/bench-settling"
_MEMORY: Final = "/dev/shm"
_PATIENCE: Final = 30.0
"""Seconds until everything has settled."""

_REST: Final = 0.05
"""Seconds without a decision, after which nothing is under way."""


class Spent(NamedTuple):
    """One arrival, in milliseconds: the thread's processor time, the clock's, and the parts of the first."""

    cpu: float
    clock: float
    parts: dict[str, tuple[int, float]]


class Host:
    """Containers that are cgroups alone, and a daemon without an engine that looks at them when it is asked to."""

    def __init__(self, folder: Path, memory: Path, library: str | None, count: int) -> None:
        self.tickets = itertools.count(1).__next__
        self.keys = [ContainerKey("docker", _id(number)) for number in range(count)]
        world = begin(State(), uniform(cores=len(online())), Settings(policy=PolicyName.STATIC, reserved_count=1))
        self.board = Board(world)
        self.send, self.inbox = trio.open_memory_channel[Fact](10_000)
        self.log = Log(io.StringIO())
        self.hands = HandOrders(self.board, self.send.send_nowait, tickets=self.tickets)
        self.hand = CgroupHand.open(library, "docker", _PARENT)
        self.projections = Projections(
            memory, clock=time.time, replacer=Replacer(None) if library is None else find_replacer()
        )
        self.journal = Journal(folder / "journal")
        self.journal.start_with(lambda: codec.encode(self.board.latest))
        self.allocator = Allocator(
            self.board,
            self.inbox,
            checkpoints=SparedCheckpoint(str(folder), str(memory / ".books")),
            journal=self.journal,
            projections=self.projections,
            owners=OwnerAnswers(lambda _: None),
            start_orders=self.start_all,
            log=self.log,
        )
        self.records: list[ApplyCpuset] = []
        self.is_recorded = True
        self.teller = Teller(self.board, self.projections, lambda *_: None, self.log, brief_seconds=0)

    def start_all(self, orders: Sequence[Order]) -> None:
        """Carry out orders; writes that follow each other are one."""
        for is_write, group in groupby(orders, lambda each: isinstance(each, WriteCpuset)):
            if is_write:
                self.hands.write_many([each for each in group if isinstance(each, WriteCpuset)])
            else:
                for order in group:
                    self.start(order)

    def start(self, order: Order) -> None:
        """Carry out what needs no engine; its looks show the kernel."""
        match order:
            case HoldAnswers():
                self.hands.hold(order)
            case ApplyCpuset():
                self.records.append(order)
                if self.is_recorded:
                    self.record()
            case LookAgain():
                began = self.tickets()
                if (known := self.board.latest.containers.get(order.container)) is not None:
                    self.send.send_nowait(ContainerSeen(self.view(order.container, known.view), began))
            case _:
                pass

    def record(self) -> None:
        """Answer the engine's records: in reality the first ones come after an arrival has settled."""
        self.is_recorded, records = True, self.records
        self.records = []
        for each in records:
            self.send.send_nowait(CpusetApplied(each.container, each.number, each.update.cpus, self.tickets()))

    def view(self, key: ContainerKey, known: ContainerView | None = None) -> ContainerView:
        """Return a look at a container that runs."""
        with suppress(FileNotFoundError):
            text = (V1 / _PARENT[1:] / key.id / "cpuset.cpus").read_text()
            seen = known or ContainerView(engine=key.engine, id=key.id, name=f"c{key.id[:12]}", phase=Phase.RUNNING)
            return replace(
                seen, started_at="1", created_at="1", effective=CPUSet.parse(text.strip()), found_below=_PARENT
            )
        raise RuntimeError(f"{key} has no cgroup")

    async def ready(self) -> None:
        """Begin: all run in the whole pool, written by the hand."""
        self.hands.use(self.hand)
        began = self.tickets()
        info = EngineInfo(name="docker", version="20", api_version="1.41", ncpu=len(online()))
        self.send.send_nowait(EngineConnected(info, began))
        self.send.send_nowait(HandReady(self.hand.parents, self.tickets(), home=self.hand.home))
        self.send.send_nowait(InventoryTaken(tuple(map(self.view, self.keys)), (), self.tickets()))
        await self.whole()

    async def whole(self) -> None:
        """Wait until all shared containers are guarded in the whole pool, and nothing is decided or told any more."""
        pool = online()
        with trio.fail_after(_PATIENCE):
            while True:
                known = self.board.latest.containers
                grips = [known[key].grip for key in self.keys if key in known]
                is_whole = all(isinstance(each, Guarded) and each.cpus == pool for each in grips)
                if is_whole and len(grips) == len(self.keys):
                    break
                await trio.sleep(0.01)
            count = -1
            while count != self.board.count or self.teller.sign() is not None:
                count = self.board.count
                await trio.sleep(_REST)


def _id(number: int) -> str:
    """Return the id of a container: its first 12 digits are those of its directory."""
    return f"{number:012x}{number:052x}"


def _made(id: str) -> Path:
    """Make a container's group as a runtime does."""
    group = V1 / _PARENT[1:] / id
    group.mkdir()
    for name in ("cpuset.mems", "cpuset.cpus"):
        if not (group / name).read_text().strip():
            (group / name).write_text((group.parent / name).read_text())
    return group


async def _arrival(host: Host, number: int, parts: dict[str, tuple[int, float]]) -> Spent:
    key = ContainerKey("docker", _id(len(host.keys) + number))
    group = _made(key.id)
    await trio.sleep(_REST)
    view = replace(host.view(key), labels={"cpuset.exclusive": "1"}, name=f"arrival-{number}")
    told: list[tuple[int, int]] = []
    is_told = trio.Event()
    honest = host.projections.write

    def write(container: str, names: Any, projection: Any) -> None:
        honest(container, names, projection)
        if container == key.handle and projection.settled:
            told.append((time.thread_time_ns(), time.perf_counter_ns()))
            is_told.set()

    host.projections.write = write  # type: ignore[method-assign]
    parts.clear()
    host.is_recorded = False
    cpu, clock = time.thread_time_ns(), time.perf_counter_ns()
    host.send.send_nowait(ContainerSeen(view, host.tickets()))
    with trio.fail_after(_PATIENCE):
        await is_told.wait()
    found = Spent((told[0][0] - cpu) / 1e6, (told[0][1] - clock) / 1e6, dict(parts))
    host.projections.write = honest  # type: ignore[method-assign]
    host.record()
    assert is_settled(host.board.latest, host.board.latest.containers[key])
    group.rmdir()
    host.send.send_nowait(ContainerRemoved(key, host.tickets()))
    await host.whole()
    return found


def _timed(owner: Any, name: str, what: str, parts: dict[str, tuple[int, float]]) -> None:
    honest = getattr(owner, name)

    @functools.wraps(honest)
    def timed(*args: Any, **named: Any) -> Any:
        cpu = time.thread_time_ns()
        try:
            return honest(*args, **named)
        finally:
            times, spent = parts.pop(what, (0, 0.0))
            parts[what] = times + 1, spent + (time.thread_time_ns() - cpu) / 1e6

    setattr(owner, name, timed)


@contextmanager
def _stage(count: int) -> Iterator[tuple[Path, Path]]:
    parent = V1 / _PARENT[1:]
    folder, memory = Path(tempfile.mkdtemp(prefix="bench-settling-")), Path(tempfile.mkdtemp(dir=_MEMORY))
    try:
        parent.mkdir()
        for name in ("cpuset.mems", "cpuset.cpus"):
            (parent / name).write_text((V1 / name).read_text())
        for number in range(count):
            _made(_id(number))
        yield folder, memory
    finally:
        for each in (*parent.iterdir(), parent):
            if each.is_dir():
                each.rmdir()
        for each in (folder, memory):
            shutil.rmtree(each, ignore_errors=True)


async def _measured(count: int, args: argparse.Namespace) -> list[Spent]:
    parts: dict[str, tuple[int, float]] = {}
    if args.parts:
        for owner, name, what in (
            (allocator, "decide", "decide"),
            (SparedCheckpoint, "save", "save"),
            (Journal, "append", "journal"),
            (Projections, "withdraw", "withdraw"),
            (Projections, "write", "tell"),
            (CgroupHand, "hold", "hold"),
            (CgroupHand, "write", "write"),
            (CgroupHand, "write_many", "write many"),
            (Projections, "withdraw_many", "withdraw many"),
        ):
            _timed(owner, name, what, parts)
    library = None if args.without_c else find_library().path
    found: list[Spent] = []
    with _stage(count) as (folder, memory):
        async with trio.open_nursery() as nursery:
            host = Host(folder, memory, library, count)
            try:
                nursery.start_soon(host.allocator.run)
                nursery.start_soon(host.teller.run)
                await host.ready()
                found = [await _arrival(host, number, parts) for number in range(args.rounds)]
            finally:
                host.hand.close()
                nursery.cancel_scope.cancel()
    return found


def main() -> int:
    """Measure, and print a line for each number of shared containers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", default="50,500", help="how many shared containers")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--without-c", action="store_true")
    args = parser.parse_args()
    if os.geteuid() or not V1.is_dir():
        sys.exit("this needs root, and cpusets of cgroup v1")
    for count in map(int, args.shared.split(",")):
        found = trio.run(_measured, count, args)
        cpu, clock = ([getattr(each, name) for each in found] for name in ("cpu", "clock"))
        print(f"{count} shared: {median(cpu):.1f} ms, at best {min(cpu):.1f} ({median(clock):.1f}, {min(clock):.1f})")
        for part in found[0].parts if args.parts else ():
            times = [each.parts[part] for each in found if part in each.parts]
            print(f"    {part}: {median(n for n, _ in times):.0f} calls, {median(ms for _, ms in times):.2f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
