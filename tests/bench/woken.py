"""From the write of a projection to a workload that knows its CPUs: `python -m tests.bench.woken [--rounds N]
[--json]`.

Each way to listen is a process of its own with a directory of its own. A round writes one changed projection for each,
in random order, one at a time: the others sleep meanwhile, and all see the same machine. The clock is the monotonic
one, which all processes share. It starts just before `Projections.write`, or before a World is posted to the board that
the daemon's Teller reads, and stops at the listener's first act with the new CPUs. The table also has the time spent in
`write` itself; a listener may know before it returns, since `status.json` comes first.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import trio

from sidecar.board import Board
from sidecar.decide.container.place import Place
from sidecar.decide.world import replace
from sidecar.log import Log
from sidecar.projection.projections import Projections
from sidecar.projection.teller import Teller
from state.cpuset import CPUSet
from state.projection import Projection, Sharing
from state.topology import uniform
from tests.bench.latency import percentile
from tests.bench.woken_listener import WAYS
from tests.support.decide.stories import Story

HERE: Final = Path(__file__).parent

GOAL: Final = (0.001, 0.005)
"""Seconds: the median and p99 that a ProjectionWatch must stay below."""

PATIENCE: Final = 20.0
"""Seconds. Only a listener that hears nothing is waited for so long: longer than it takes to look by itself."""

PAUSE: Final = 0.003
"""Seconds between two writes: all have told what they heard, and sleep again."""

WARM_UP: Final = 50

CPUS: Final = 64

WATCHES: Final = {
    "ProjectionWatch": "plain",
    "ProjectionWatch on trio": "trio",
    "ProjectionWatch on asyncio": "asyncio",
}
BY_HAND: Final = {"inotify by hand, Python": "raw", "inotify by hand, C": "C"}
TOLD: Final = {"Teller, 1 container": 1, "Teller, 1 of 50 containers": 50}
"""By the name of the row: how many containers the world has, of which the last one changes. ProjectionWatch listens."""


class Round(NamedTuple):
    """One write. Nanoseconds of the monotonic clock; `began` is when the projection, or the world, was handed over."""

    row: str
    said: CPUSet
    heard: CPUSet
    began: int
    entered: int
    returned: int
    woken: int


class Timed(Projections):
    """The daemon's own, with a record of when the last write for one container was entered and when it returned."""

    entered = returned = 0

    def __init__(self, root: Path, timed: str) -> None:
        super().__init__(root, clock=time.time)
        self._timed = timed

    def write(self, container: str, names: Iterable[str], projection: Projection) -> None:
        """Write as usual."""
        began = time.monotonic_ns()
        super().write(container, names, projection)
        if container == self._timed:
            self.entered, self.returned = began, time.monotonic_ns()


class Listener:
    """A process that prints what it reads on its standard output."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rest = b""

    async def heard(self) -> tuple[int, CPUSet]:
        """Return the next line: when it knew, and which CPUs."""
        with trio.fail_after(PATIENCE):
            while b"\n" not in self._rest:
                await trio.lowlevel.wait_readable(self._fd)
                if not (more := os.read(self._fd, 4096)):
                    raise AssertionError("the listener ended")
                self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        woken, cpus = line.decode().split()
        return int(woken), CPUSet.parse(cpus)

    def has_more(self) -> bool:
        """Return whether it printed more than was asked for."""
        return bool(self._rest or select.select([self._fd], [], [], 0)[0])


class Subject(NamedTuple):
    """One row: the sink of new CPUs, and the listener that reports when they were known."""

    row: str
    projections: Timed
    hand_over: Callable[[CPUSet], None]
    listener: Listener

    async def round(self, cpus: CPUSet) -> Round:
        """Hand over these CPUs, and wait until they are known."""
        began = time.monotonic_ns()
        self.hand_over(cpus)
        woken, heard = await self.listener.heard()
        return Round(self.row, cpus, heard, began, self.projections.entered, self.projections.returned, woken)


@contextmanager
def listening(command: list[str]) -> Iterator[Listener]:
    """Run the process until the end of the block."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=HERE.parent.parent)
    try:
        assert process.stdout
        yield Listener(process.stdout.fileno())
    finally:
        process.kill()
        process.communicate()


def listener_command(way: str, directory: Path) -> list[str]:
    """Return the command that starts a listener of this way."""
    if way in WAYS:
        return [sys.executable, "-m", "tests.bench.woken_listener", way, str(directory)]
    program = directory.parent.parent / "listener"
    if not program.exists():
        subprocess.run(["gcc", "-O2", "-Wall", "-o", program, HERE / "woken_listener.c"], check=True)
    return [str(program), str(directory)]


def writing(row: str, id: str, projections: Timed) -> Callable[[CPUSet], None]:
    """Write as the Teller does, a projection of ordinary size."""

    def write(cpus: CPUSet) -> None:
        said = Projection(
            container=id,
            name=row,
            policy="static",
            sharing=Sharing.EXCLUSIVE,
            cpus=cpus,
            desired=cpus,
            original=cpus,
            settled=True,
            shared_pool=CPUSet(range(CPUS)) - cpus,
            reason=f"granted {len(cpus)} exclusive CPUs: {cpus}",
        )
        projections.write(id, (), said)

    return write


@asynccontextmanager
async def telling(containers: int, root: Path) -> AsyncIterator[tuple[Timed, Callable[[CPUSet], None], str]]:
    """Run a Teller. Yields its writer, a function that posts a World in which the last container runs on given CPUs,
    and the container's id.
    """
    story = Story(uniform(cores=CPUS))
    for number in range(containers - 1):
        story.arrive(f"shared-{number}")
    last = story.arrive("exclusive", 4)
    story.settle()
    board, projections = Board(story.world), Timed(root, last.key.id)
    teller = Teller(board, projections, lambda where, trouble: None, Log())

    def post(cpus: CPUSet) -> None:
        board.post(story.world.with_container(replace(story.known(last), place=Place(cpus, cpus))))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(teller.run)
        yield projections, post, last.key.id
        nursery.cancel_scope.cancel()


def cpus_of(number: int) -> CPUSet:
    """Return four CPUs, different from those of the number before."""
    return CPUSet(range(number % (CPUS - 4), number % (CPUS - 4) + 4))


async def measured(
    root: Path, *, rounds: int, warm_up: int = WARM_UP, pause: float = PAUSE, seed: int = 1
) -> list[Round]:
    """Measure this many rounds of every row, after warm-up rounds that do not count. AssertionError if a listener reads
    other CPUs.
    """
    rng, found = random.Random(seed), []
    async with AsyncExitStack() as stack:
        subjects = []
        for number, (row, way) in enumerate({**WATCHES, **BY_HAND}.items()):
            if way == "C" and not shutil.which("gcc"):
                continue
            id = f"{number:064x}"[::-1]
            projections = Timed(root / "written", id)
            hand_over = writing(row, id, projections)
            hand_over(cpus_of(0))
            command = listener_command(way, root / "written" / "by-id" / id[:12])
            subjects.append(Subject(row, projections, hand_over, stack.enter_context(listening(command))))
        for row, containers in TOLD.items():
            where = root / f"told-{containers}"
            projections, hand_over, id = await stack.enter_async_context(telling(containers, where))
            hand_over(cpus_of(0))
            command = listener_command("plain", where / "by-id" / id[:12])
            subjects.append(Subject(row, projections, hand_over, stack.enter_context(listening(command))))
        for subject in subjects:
            _, cpus = await subject.listener.heard()
            assert cpus == cpus_of(0)
        for number in range(1, warm_up + rounds + 1):
            for subject in rng.sample(subjects, len(subjects)):
                await trio.sleep(pause)
                one = await subject.round(cpus_of(number))
                assert one.heard == one.said, one
                if number > warm_up:
                    found.append(one)
        await trio.sleep(pause)
        for subject in subjects:
            assert not subject.listener.has_more(), subject.row
    return found


class Row(NamedTuple):
    """Milliseconds: of `write`, from handing over to woken, and from the return of `write` to woken."""

    row: str
    rounds: int
    write: tuple[float, float]
    """Median and p99."""
    woken: tuple[float, float, float, float]
    """Median, p95, p99 and the slowest."""
    after: tuple[float, float]
    """Median and p99; less than nothing where the listener was faster than the rest of `write`."""


def row_of(rounds: list[Round]) -> Row:
    """Return the figures of rounds of one row."""

    def figures(nanoseconds: Iterable[int], *shares: float) -> list[float]:
        milliseconds = [each / 1e6 for each in nanoseconds]
        return [percentile(milliseconds, share) for share in shares]

    write = figures((one.returned - one.entered for one in rounds), 0.5, 0.99)
    woken = figures((one.woken - one.began for one in rounds), 0.5, 0.95, 0.99, 1)
    after = figures((one.woken - one.returned for one in rounds), 0.5, 0.99)
    return Row(
        rounds[0].row, len(rounds), (write[0], write[1]), (woken[0], woken[1], woken[2], woken[3]), (after[0], after[1])
    )


def is_met(row: Row) -> bool:
    """Return whether a ProjectionWatch reaches the goal; the other rows have none."""
    median, _, p99, _ = row.woken
    return row.row not in WATCHES or (median < 1e3 * GOAL[0] and p99 < 1e3 * GOAL[1])


def main(arguments: list[str]) -> int:
    """Print the table; return 1 if the goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--pause", type=float, default=PAUSE, help="seconds between two writes")
    parser.add_argument("--root", default="/dev/shm", help="where to write; a tmpfs, as /run is")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(arguments)
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=args.root) as scratch:
        found = trio.run(partial(measured, Path(scratch), rounds=args.rounds, pause=args.pause))
    rows = [row_of([one for one in found if one.row == row]) for row in dict.fromkeys(one.row for one in found)]
    if args.json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
    else:
        print_table(rows)
        print(f"load of the machine: {before:.2f} before, {os.getloadavg()[0]:.2f} after")
    return 0 if all(is_met(row) for row in rows) else 1


def print_table(rows: list[Row]) -> None:
    """Print the table, in milliseconds."""
    print(
        f"{'milliseconds':30}{'write':>8}{'p99':>8}{'woken':>10}{'p95':>8}{'p99':>8}{'worst':>8}{'after':>10}{'p99':>8}"
    )
    for row in sorted(rows, key=lambda row: row.woken):
        figures = "".join(f"{each:8.3f}" for each in row.write) + "  " + "".join(f"{each:8.3f}" for each in row.woken)
        print(f"{row.row:30}{figures}  " + "".join(f"{each:8.3f}" for each in row.after))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
