"""The cost of measuring loads: `python -m tests.bench.load [--containers 200] [--period 2] [--rounds 200]`.

Makes this many cgroups in each hierarchy with the kernel's counters (v1 and v2, below a folder of its own, removed
afterwards), and measures rounds of the real LoadMeter on them: with nothing new, and with everything always new,
including the allocator's step and the journal's line. It prints CPU time, as percent of one CPU for a round every
period, and the cost of reading alone: opening each file again, and from files kept open, as the daemon does. Needs
root.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Final

import trio

from sidecar.board import Board
from sidecar.decide.books.load_sample import Usage
from sidecar.decide.books.load_wish import with_loads
from sidecar.decide.contacts import Ready
from sidecar.decide.container.container import Standing, Wish
from sidecar.decide.container.machine import first_seen
from sidecar.decide.container.place import Place
from sidecar.decide.facts import ContainerView, Fact, Load, LoadMeasured, Phase
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.step import step
from sidecar.decide.world import World, replace
from sidecar.host.cgroup.places import CGROUP, Hierarchy, read, v1_hierarchy, v2_hierarchy
from sidecar.host.cgroup.usage import HostUsages
from sidecar.log import Log
from sidecar.observe.load_meter import LoadMeter
from state.codec import encode
from state.cpuset import CPUSet
from state.demand import Demand, Scale
from state.model import State
from state.topology import uniform
from tests.support.decide.contacts import with_readiness
from tests.support.keys import docker

FOLDER: Final = "cpuset-sidecar-bench"
EACH: Final = 4
"""CPUs of each container."""


@contextmanager
def groups(roots: list[str], ids: list[str]) -> Iterator[None]:
    """Make a cgroup for each container in each of these hierarchies."""
    with ExitStack() as stack:
        for path in (f"{root}/{FOLDER}{name}" for root in roots for name in ("", *(f"/{id}" for id in ids))):
            os.mkdir(path)
            stack.callback(os.rmdir, path)
        yield


def world_of(ids: list[str]) -> World:
    """Return a World in which all of them run, and follow their load."""
    machine = uniform(cores=EACH * (len(ids) + 1))
    settings = Settings(policy=PolicyName.DYNAMIC, reserved_cpus=CPUSet.of(0))
    state = State(policy="dynamic", online=machine.online, reserved=CPUSet.of(0))
    containers = {}
    for place, id in enumerate(ids, 1):
        demand = Demand(container=docker(id), name=id[:12], cpus=EACH, min_cpus=1, max_cpus=8, scale=Scale.LOAD)
        cpus = CPUSet(range(EACH * place, EACH * place + EACH))
        view = ContainerView(
            engine="docker",
            id=id,
            name=id[:12],
            phase=Phase.RUNNING,
            cgroup_parent=f"/{FOLDER}",
            started_at="1",
            effective=cpus,
        )
        wish = Wish(standing=Standing.MANAGED, demand=demand)
        containers[view.key] = first_seen(view, Place(cpus, cpus), wish, place, 1)
        state = state.granted(demand, cpus)
    return with_readiness(World(state=state, topology=machine, settings=settings, containers=containers), Ready(0))


class Busy:
    """The real counters, made to show every container as busy all the time."""

    def __init__(self, usages: HostUsages) -> None:
        self._usages = usages

    def usage(self, view: ContainerView) -> Usage | None:
        """Return the kernel's counters plus the invented use."""
        real = self._usages.usage(view)
        return real and replace(real, cpu_nanoseconds=real.cpu_nanoseconds + round(EACH * trio.current_time() * 1e9))

    def retain(self, containers: Collection[str]) -> None:
        """Do as the real ones."""
        self._usages.retain(containers)


def percent(milliseconds: float, period: float) -> str:
    """Return the share of one CPU, in percent."""
    return f"{milliseconds:6.2f} ms a round: {milliseconds / period / 10:.3f} % of one CPU"


def timed(work: Callable[[], object], rounds: int) -> float:
    """Return the median of its CPU time, in milliseconds."""
    times = []
    for _ in range(rounds):
        began = time.thread_time_ns()
        work()
        times.append((time.thread_time_ns() - began) / 1e6)
    return statistics.median(times)


async def rounds_of(ids: list[str], rounds: int, *, busy: bool) -> float:
    """Return the median CPU time of a round, in milliseconds: all idle, which is no news once known; or all news each
    time, since the World that is measured stays the same, with the cost of the step and of the journal.
    """
    world = with_loads(world_of(ids), [Load(container=docker(id), cpus=EACH, use=0.0, peak=0.0) for id in ids])
    outbox, inbox = trio.open_memory_channel[Fact](1)
    real = HostUsages()
    counters = Busy(real) if busy else real
    meter = LoadMeter(Board(world), outbox, usages=counters, period_seconds=2.0, half_life_seconds=30.0, log=Log())
    assert await meter.measure() == len(ids)
    times, told = [], 0
    for _ in range(rounds):
        began = time.thread_time_ns()
        await meter.measure()
        with suppress(trio.WouldBlock):
            fact = inbox.receive_nowait()
            encode(fact)
            step(world, (fact,))
            told += len(fact.loads) if isinstance(fact, LoadMeasured) else 0
        times.append((time.thread_time_ns() - began) / 1e6)
    assert told == (rounds * len(ids) if busy else 0), f"{told} news of {rounds} rounds"
    real.retain(())
    return statistics.median(times)


def reading(hierarchies: list[tuple[Hierarchy, str]], ids: list[str], rounds: int) -> tuple[float, float]:
    """Return the milliseconds for the bytes of all files: opened again, and kept open."""
    paths = [f"{one.root}/{FOLDER}/{id}/{name}" for id in ids for one, name in hierarchies]
    anew = timed(lambda: [read(path) for path in paths], rounds)
    opened = [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in paths]
    try:
        kept = timed(lambda: [os.pread(each, 65536, 0) for each in opened], rounds)
    finally:
        for each in opened:
            os.close(each)
    return anew, kept


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--containers", type=int, default=200)
    parser.add_argument("--period", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=200)
    args = parser.parse_args()
    v2 = v2_hierarchy(CGROUP)
    places = [
        (v1_hierarchy(CGROUP, "cpuacct", "cpuacct.usage"), "cpuacct.usage"),
        (v1_hierarchy(CGROUP, "cpu", "cpu.stat"), "cpu.stat"),
        (v2, "cpu.pressure"),
    ]
    hierarchies = [(one, name) for one, name in places if one and os.path.exists(f"{one.root}/{name}")]
    if len(hierarchies) <= 1 and v2:
        hierarchies.append((v2, "cpu.stat"))
    ids = [os.urandom(32).hex() for _ in range(args.containers)]
    with groups(sorted({one.root for one, _ in hierarchies}), ids):
        files = ", ".join(f"v{one.version} {name}" for one, name in hierarchies)
        print(f"{args.containers} containers every {args.period:g} s; files of each: {files}")
        anew, kept = reading(hierarchies, ids, args.rounds)
        print(f"reading alone, opened anew: {percent(anew, args.period)}")
        print(f"reading alone, kept open:   {percent(kept, args.period)}")
        for busy, words in ((False, "a round without news:      "), (True, "a round of nothing but news:")):
            print(f"{words}{percent(trio.run(partial(rounds_of, ids, args.rounds, busy=busy)), args.period)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
