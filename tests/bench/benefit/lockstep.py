"""One run: a simulated host with the daemon's own decisions, and the model of its load, in lockstep.

1. The host goes to the end of a short stretch, and returns the CPUs that each party may use.
2. The load goes there, with these CPUs.
3. The host gets the number of CPUs that the parties kept busy, for a later measurement to read.

The measurement begins `WARM_UP` seconds after the load does: then the daemon knows the load. Requests that arrived
earlier do not count; all later ones are waited for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from sidecar.simulation.happenings import Frame
from sidecar.simulation.virtual_host import Simulation
from state.topology import uniform
from tests.bench.benefit.cases import BATCH, CPUS, SERVER, Case
from tests.bench.benefit.load import NEIGHBOURS, Busy, Requests, Shape, neighbours, requests
from tests.bench.benefit.queueing import Server
from tests.bench.benefit.sharing import LATE, batch_speed, own_speed, own_speeds, shared_batch, shared_speeds

STRETCH: Final = 0.05
"""Seconds. Much shorter than the daemon's periods; a decision takes effect on the load this much later at most."""

LEAD: Final = 2.0
"""Seconds that the host has for starting everybody before the load begins."""

WARM_UP: Final = 20.0

PATIENCE: Final = 600.0
"""Seconds after the last arrival in which all requests must be answered."""

MOVES_IN: Final = {SERVER: 0.1, BATCH: 0.1}
"""Seconds from notice to acknowledgement: the server's workers end a request first, the batch job ends a step."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run. Times in seconds, amounts in CPUs; `given_back` has one time for each take that ended."""

    case: str
    shape: Shape
    seed: int
    requests: int
    p50: float
    p99: float
    p999: float
    batch: float
    server_cpus: float
    batch_cpus: float
    neighbours: float
    changes: int
    forced: int
    given_back: tuple[float, ...]


def play(case: Case, shape: Shape, seed: int, seconds: float) -> Outcome:
    """Play one case under the load of one seed, measured for this many seconds after the warm-up."""
    until = WARM_UP + seconds
    run = Run(case, requests(shape, seed, until), neighbours(seed, until), until)
    run.go()
    return run.outcome(shape, seed)


class Run:
    """One host and its load, from the start of all containers to the last answer."""

    def __init__(self, case: Case, load: Requests, noise: Busy, until: float) -> None:
        self.case = case
        self.host = Simulation(uniform(cores=CPUS), case.config())
        for name, labels in ((SERVER, case.server), (BATCH, case.batch)):
            self.host.create(name, labels, follows=case.follows, moves_in=MOVES_IN[name] if case.follows else None)
            self.host.run(name)
        for number in range(NEIGHBOURS):
            self.host.create(f"neighbour-{number}")
            self.host.run(f"neighbour-{number}")
        self.host.advance(LEAD)
        self.server = Server(load)
        self.noise = noise
        self.until = until
        counted = {name: len(self.host.cpus_of(name)) for name in (SERVER, BATCH)}
        self.kept = {**counted, **case.threads}
        self.sums = {"seconds": 0.0, "done": 0.0, SERVER: 0.0, BATCH: 0.0, "wanted": 0.0, "got": 0.0}

    def go(self) -> None:
        """Run until the last request is answered."""
        stretches = 0
        while self.server.now < self.until or not self.server.is_done:
            stretches += 1
            now = stretches * STRETCH
            if now > self.until + PATIENCE:
                raise RuntimeError(f"{self.case.name}: the requests do not come to an end")
            self.stretch(now)

    def stretch(self, now: float) -> None:
        """Simulate everything up to `now`, in seconds of the load."""
        # 1. The host.
        self.host.advance(LEAD + now)
        busy_neighbours = self.noise.busy[bisect_right(self.noise.at, self.server.now) - 1]
        # 2. The load.
        before = self.server.busy
        batch = (self._sharing if self.case.shares else self._apart)(now, busy_neighbours)
        mean = (self.server.busy - before) / STRETCH
        # 3. The use that a measurement will read.
        if not self.case.shares:
            self.host.set_demand(SERVER, mean)
        if WARM_UP < now <= self.until:
            self._add(batch, busy_neighbours)

    def _sharing(self, now: float, busy_neighbours: int) -> float:
        ratio = self.case.ratio
        began, before = self.server.now, self.server.busy
        self.server.advance(now, CPUS, shared_speeds(CPUS, busy_neighbours, ratio, CPUS), LATE[ratio])
        mean = (self.server.busy - before) / (now - began)
        return shared_batch(CPUS, busy_neighbours, ratio, round(mean))

    def _apart(self, now: float, busy_neighbours: int) -> float:
        cpus = len(self.host.usable_of(SERVER))
        self.server.advance(now, cpus if self.case.follows else self.kept[SERVER], own_speeds(cpus, CPUS))
        cpus = len(self.host.usable_of(BATCH))
        return batch_speed(own_speed(cpus if self.case.follows else self.kept[BATCH], cpus))

    def _add(self, batch: float, busy_neighbours: int) -> None:
        sums = self.sums
        sums["seconds"] += STRETCH
        sums["done"] += batch * STRETCH
        for name in (SERVER, BATCH):
            sums[name] += len(self.host.cpus_of(name)) * STRETCH
        pool = len(self.host.cpus_of("neighbour-0"))
        sums["wanted"] += busy_neighbours * STRETCH
        sums["got"] += min(busy_neighbours, pool) * STRETCH

    def outcome(self, shape: Shape, seed: int) -> Outcome:
        """Return the result."""
        if self.host.broken:
            raise RuntimeError(f"{self.case.name}: laws are broken: {self.host.broken}")
        took = sorted(seconds for arrived, seconds in self.server.responses if arrived >= WARM_UP)
        sums = self.sums
        return Outcome(
            case=self.case.name,
            shape=shape,
            seed=seed,
            requests=len(took),
            p50=percentile(took, 0.5),
            p99=percentile(took, 0.99),
            p999=percentile(took, 0.999),
            batch=sums["done"] / sums["seconds"],
            server_cpus=sums[SERVER] / sums["seconds"],
            batch_cpus=sums[BATCH] / sums["seconds"],
            neighbours=sums["got"] / sums["wanted"],
            changes=self.host.world.state.takes,
            forced=self.host.world.state.forced,
            given_back=tuple(given_back(self.host.frames)),
        )


def percentile(ordered: list[float], share: float) -> float:
    """Return the value below which that share of the sorted values lies."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def given_back(frames: Iterable[Frame]) -> Iterator[float]:
    """Yield how long each take lasted, from its decision until its CPUs were vacated: CPUs that began and ended
    together are one take.
    """
    began: dict[tuple[str, int], float] = {}
    for frame in frames:
        leaving = {(each.name, cpu) for each in frame.holdings for cpu in each.leaving}
        ended = began.keys() - leaving
        yield from (frame.at - at for _, at in sorted({(name, began[name, cpu]) for name, cpu in ended}))
        for key in ended:
            del began[key]
        for key in leaving - began.keys():
            began[key] = frame.at
