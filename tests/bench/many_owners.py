"""How long one decision takes on large machines with many owners: `python -m tests.bench.many_owners [--json]`.

Two hundred containers ask for one to eight CPUs each, some of them for whole cores or for CPUs of one NUMA node, beside
500 shared containers. Thirty of them leave, their successors come, a NUMA node goes offline and comes back, people
order a defragmentation. An engine that carries out every order answers, one fact in a burst; then all timers end. The
table shows, of each of these bursts, the worst single decision and the total until nothing is left to do, in processor
time of the thread.

On 256 CPUs, 200 containers do not get all that they ask for: under `static` most of them wait in the queue, which is
asked in each decision; under `dynamic` each has its floor of one CPU or one core.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sidecar.decide.facts import (
    ContainerRemoved,
    ContainerSeen,
    ContainerView,
    CpusetApplied,
    DefragmentRequested,
    EngineConnected,
    EngineInfo,
    Fact,
    InventoryTaken,
    Phase,
    Purpose,
    TimerEnded,
    TopologyRead,
)
from sidecar.decide.moves.plan import SLOTS
from sidecar.decide.orders import ApplyCpuset, LookAgain, Order, StartTimer
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.step import step
from sidecar.decide.world import World, replace
from state.key import ContainerKey
from state.model import State
from state.topology import Topology, uniform, with_online

OWNERS: Final = 200
SHARED: Final = 500
LEAVERS: Final = 30

MACHINES: Final = {
    256: uniform(packages=2, cores=64, threads=2),
    1024: uniform(packages=8, cores=64, threads=2),
}
"""By the number of CPUs: sockets of 64 cores with two threads each."""

WORST_SECONDS: Final = {256: 0.05, 1024: 0.2}
"""By CPUs of the machine: no single decision may take longer."""

Facts = Sequence[Fact]
Meter = Callable[[World, Facts], tuple[World, tuple[Order, ...], float]]
"""Takes a step; returns its result and what it cost."""


class Burst(NamedTuple):
    """What one burst cost: decisions, the worst one, and the total, each in milliseconds."""

    cpus: int
    policy: str
    burst: str
    decisions: int
    worst: float
    total: float


def timed(world: World, facts: Facts) -> tuple[World, tuple[Order, ...], float]:
    """Take a step; return its result and its processor time in milliseconds."""
    began = time.thread_time()
    world, orders = step(world, facts)
    return world, orders, 1000 * (time.thread_time() - began)


def counted(world: World, facts: Facts) -> tuple[World, tuple[Order, ...], float]:
    """Take a step; return its result and how many functions were called and left, Python's and C's."""
    heard = itertools.count()
    sys.setprofile(lambda *_: next(heard))
    try:
        world, orders = step(world, facts)
    finally:
        sys.setprofile(None)
    return world, orders, next(heard)


class BusyWorld:
    """A host with many containers, whose engine carries out every order at once."""

    def __init__(self, machine: Topology, policy: PolicyName, meter: Meter = timed) -> None:
        self.costs: list[float] = []
        self._machine = machine
        self._meter = meter
        self._ticket = itertools.count(1)
        self._timers: dict[StartTimer, None] = {}
        self._world = begin(State(), machine, Settings(policy=policy, reserved_count=2))
        self.play([[EngineConnected(EngineInfo(name="bench", version="0", api_version="1.41", ncpu=256), 0)]])

    @property
    def world(self) -> World:
        """What the decisions know now."""
        return self._world

    def play(self, bursts: Iterable[Facts]) -> list[float]:
        """Decide on these bursts, one after the other, and on their consequences until nothing is left to do; return
        what each decision cost.
        """
        self.costs, waiting = [], deque[Fact]()
        for facts in bursts:
            waiting += self._decide(facts)
            # The engine answers a few orders until the next burst.
            for _ in range(min(SLOTS, len(waiting))):
                waiting += self._decide([waiting.popleft()])
        while waiting or self._timers:
            ended, self._timers = ({}, self._timers) if waiting else (self._timers, {})
            waiting += [TimerEnded(each.container, each.purpose, each.number) for each in ended]
            waiting += self._decide([waiting.popleft()])
        return self.costs

    def seen(self, view: ContainerView) -> ContainerSeen:
        """Return the fact of a look that shows this."""
        return ContainerSeen(view, next(self._ticket))

    def gone(self, key: ContainerKey) -> ContainerRemoved:
        """Return the fact of a removal."""
        return ContainerRemoved(key, next(self._ticket))

    def inventory(self, views: tuple[ContainerView, ...]) -> InventoryTaken:
        """Return the fact of an inventory that shows these containers."""
        return InventoryTaken(views, (), next(self._ticket))

    def started(self, key: ContainerKey) -> ContainerSeen:
        """Return the fact of a look at a container that has started where it is configured."""
        container = self._world.containers[key]
        cpus = container.place.configured
        view = replace(container.view, phase=Phase.RUNNING, started_at=key.id[:4], cpuset=str(cpus), effective=cpus)
        return self.seen(view)

    def _decide(self, facts: Facts) -> list[Fact]:
        self._world, orders, cost = self._meter(self._world, facts)
        self.costs.append(cost)
        return [fact for order in orders for fact in self._answers(order)]

    def _answers(self, order: Order) -> list[Fact]:
        match order:
            case ApplyCpuset():
                cpus = order.update.cpus if order.live else None
                return [CpusetApplied(order.container, order.number, cpus, next(self._ticket))]
            case LookAgain() if order.container in self._world.containers:
                container = self._world.containers[order.container]
                cpus = container.place.configured & self._world.topology.online
                effective = None if container.is_idle else cpus or self._world.topology.online
                return [self.seen(replace(container.view, cpuset=str(container.place.configured), effective=effective))]
            case StartTimer() if order.purpose is not Purpose.LINGER:
                self._timers[order] = None
        return []


def labels(number: int) -> Mapping[str, str]:
    """Return the labels of one of the owners: sizes are mixed, so are the rules by which its CPUs lie."""
    size = 1 + number % 8
    asked = {"cpuset.min": "1", "cpuset.max": str(2 * size), "cpuset.move": "true", "cpuset.on-shortage": "wait"}
    if number % 5 == 0:
        size += size % 2
        asked |= {"cpuset.options": "full-pcpus-only", "cpuset.min": "2", "cpuset.max": str(2 * size)}
    elif number % 7 == 0:
        asked["cpuset.numa"] = "single"
    return {**asked, "cpuset.exclusive": str(size)}


def owner(number: int) -> ContainerView:
    """Return an owner as it is created."""
    return ContainerView(
        engine="bench", id=f"{number:064x}"[::-1], name=f"o{number}", phase=Phase.CREATED, labels=labels(number)
    )


def sharer(machine: Topology, number: int) -> ContainerView:
    """Return a shared container that runs."""
    return ContainerView(
        engine="bench",
        id=f"5{number:063x}",
        name=f"s{number}",
        phase=Phase.RUNNING,
        effective=machine.online,
        started_at="1",
    )


def bursts(
    host: BusyWorld, machine: Topology, owners: int = OWNERS, shared: int = SHARED
) -> Iterable[tuple[str, list[float]]]:
    """Play the bursts, each on the host that the one before left; yield their names, and what each decision cost."""
    views = [owner(number) for number in range(owners)]
    leavers = views[:: max(1, owners // LEAVERS)][:LEAVERS]
    yield (
        f"{shared} shared containers are found",
        host.play([[host.inventory(tuple(sharer(machine, n) for n in range(shared)))]]),
    )
    arrived = host.play([each] for view in views for each in _arrival(host, view))
    yield f"{owners} owners, one by one", arrived
    yield f"{len(leavers)} leave, one by one", host.play([host.gone(view.key)] for view in leavers)
    yield f"{len(leavers)} come at once", host.play([[host.seen(view) for view in leavers]])
    host.play([[host.started(view.key)] for view in leavers])
    yield f"{len(leavers)} leave at once", host.play([[host.gone(view.key) for view in leavers]])
    yield "a defragmentation on command", host.play([[DefragmentRequested()]])
    offline = machine.nodes[-1].cpus
    yield "a node goes offline", host.play([[TopologyRead(with_online(machine, machine.online - offline))]])
    yield "it is back", host.play([[TopologyRead(machine)]])


def _arrival(host: BusyWorld, view: ContainerView) -> Iterable[Fact]:
    yield host.seen(view)
    yield host.started(view.key)


def measured(cpus: int, policy: PolicyName) -> Iterable[Burst]:
    """Measure each burst on this machine under this policy."""
    machine = MACHINES[cpus]
    for name, costs in bursts(BusyWorld(machine, policy), machine):
        yield Burst(cpus, policy.value, name, len(costs), max(costs), sum(costs))


def is_within_bounds(row: Burst) -> bool:
    """Return whether no decision took too long."""
    return row.worst <= 1000 * WORST_SECONDS[row.cpus]


def main(arguments: list[str]) -> int:
    """Print the table; return 1 if a bound was missed."""
    rows: list[Burst] = []
    is_table = "--json" not in arguments
    if is_table:
        print(f"{'CPUs':>5}  {'policy':9}{'burst':36}{'decisions':>9}{'worst':>9}{'total':>9}  ms")
    for cpus in MACHINES:
        for policy in (PolicyName.STATIC, PolicyName.DYNAMIC):
            for row in measured(cpus, policy):
                rows.append(row)
                if is_table:
                    print(
                        f"{cpus:5}  {row.policy:9}{row.burst:36}{row.decisions:9}{row.worst:9.1f}{row.total:9.0f}",
                        flush=True,
                    )
    if not is_table:
        print(json.dumps([row._asdict() for row in rows], indent=2))
    return 0 if all(map(is_within_bounds, rows)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
