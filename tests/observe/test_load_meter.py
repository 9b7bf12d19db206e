"""Loads are measured over real time, between samples of one start, and reported only if they would change a size."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from sidecar.board import Board
from sidecar.decide.books.load_sample import Peak, Sample, Usage, load_between
from sidecar.decide.books.load_wish import with_loads
from sidecar.decide.container.container import Container, Standing, Wish
from sidecar.decide.container.place import Place
from sidecar.decide.facts import ContainerView, Fact, Load, LoadMeasured, Phase
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.world import World, replace
from sidecar.log import Log
from sidecar.observe.load_meter import LoadMeter
from state.cpuset import CPUSet
from state.demand import Demand, Scale
from state.key import ContainerKey
from state.model import State
from state.topology import uniform
from tests.support.keys import docker

A, B = docker("a" * 64), docker("b" * 64)
HALF_LIFE = 30.0


def world_of(
    *keys: ContainerKey, cpus: str = "0-3", scale: Scale = Scale.LOAD, policy: PolicyName = PolicyName.DYNAMIC
) -> World:
    """Return a World in which these containers have these CPUs, in turn."""
    world = World(state=State(), topology=uniform(cores=16), settings=Settings(policy=policy))
    for place, key in enumerate(keys):
        demand = Demand(container=key, name=key.id[:3], cpus=4, min_cpus=1, max_cpus=8, scale=scale)
        mine = CPUSet(cpu + 4 * place for cpu in CPUSet.parse(cpus))
        container = Container(
            view=ContainerView(engine=key.engine, id=key.id, name=key.id[:3], phase=Phase.RUNNING, started_at="1"),
            wish=Wish(standing=Standing.MANAGED, demand=demand),
            arrival=place,
            known=1,
            place=Place(mine, mine),
        )
        world = replace(world, state=world.state.granted(demand, mine)).with_container(container)
    return world


def in_phase(world: World, key: ContainerKey, phase: Phase, started_at: str = "1") -> World:
    container = world.containers[key]
    view = replace(container.view, phase=phase, started_at=started_at)
    return world.with_container(replace(container, view=view))


class Kernel:
    """Counters that rise by what each container uses, in CPUs; and how often they were read."""

    def __init__(self) -> None:
        self.uses: dict[ContainerKey, float] = {}
        self.base: dict[ContainerKey, float] = {}
        self.since: dict[ContainerKey, float] = {}
        self.reads = 0
        self.retained: set[str] = set()

    def use(self, key: ContainerKey, cpus: float) -> None:
        now = trio.current_time()
        self.base[key] = self._seconds(key, now)
        self.uses[key], self.since[key] = cpus, now

    def restart(self, key: ContainerKey) -> None:
        self.base[key], self.since[key] = 0.0, trio.current_time()

    def usage(self, view: ContainerView) -> Usage | None:
        self.reads += 1
        if view.key not in self.uses:
            return None
        return Usage(cpu_nanoseconds=round(self._seconds(view.key, trio.current_time()) * 1e9))

    def retain(self, containers: Collection[str]) -> None:
        self.retained = set(containers)

    def _seconds(self, key: ContainerKey, now: float) -> float:
        return self.base.get(key, 0.0) + self.uses.get(key, 0.0) * (now - self.since.get(key, now))


class Measured:
    """A meter at work, and its reports; the World knows a reported load at once, as with the allocator."""

    def __init__(self, world: World) -> None:
        self.board = Board(world)
        self.kernel = Kernel()
        self.told: list[tuple[float, Load]] = []
        self._outbox, self._inbox = trio.open_memory_channel[Fact](10)
        self.meter = LoadMeter(
            self.board,
            self._outbox,
            usages=self.kernel,
            period_seconds=2.0,
            half_life_seconds=HALF_LIFE,
            log=Log(io.StringIO()),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.meter.run)
            nursery.start_soon(self._know)
            yield
            nursery.cancel_scope.cancel()

    async def _know(self) -> None:
        async for fact in self._inbox:
            assert isinstance(fact, LoadMeasured)
            self.told += [(trio.current_time(), load) for load in fact.loads]
            self.board.post(with_loads(self.board.latest, fact.loads))

    def uses(self, key: ContainerKey = A) -> Sequence[float]:
        return [round(load.use, 6) for _, load in self.told if load.container == key]


@pytest.mark.trio
async def test_the_first_sample_says_nothing_and_the_second_does(autojump_clock: MockClock) -> None:
    """Use is the CPU time between the two, divided by the time between the two."""
    measured = Measured(world_of(A))
    measured.kernel.use(A, 3.9)
    async with measured.running():
        await trio.sleep(1.9)
        assert measured.told == []
        await trio.sleep(0.2)
        [(at, load)] = measured.told
        assert at == pytest.approx(2.0)
        assert (load.container, load.cpus, load.pressure, load.is_throttled) == (A, 4, 0.0, False)
        assert load.use == load.peak == pytest.approx(3.9)


@pytest.mark.trio
async def test_only_what_would_change_anything_is_told(autojump_clock: MockClock) -> None:
    """A steady use is reported once if it asks for a change, and otherwise never."""
    measured = Measured(world_of(A, B))
    measured.kernel.use(A, 2.5)
    measured.kernel.use(B, 3.9)
    async with measured.running():
        await trio.sleep(100)
        assert (measured.uses(A), measured.uses(B)) == ([], [3.9])
        measured.kernel.use(A, 3.3)
        await trio.sleep(99)
        assert measured.uses(A) == [3.3]
        assert measured.kernel.reads == 2 * 100


@pytest.mark.trio
async def test_a_peak_is_forgotten_slowly(autojump_clock: MockClock) -> None:
    """An idle container gives back its first CPU after a half-life, when half its CPUs suffice for the peak."""
    measured = Measured(world_of(A))
    measured.kernel.use(A, 4.0)
    async with measured.running():
        await trio.sleep(3)
        measured.kernel.use(A, 0.0)
        await trio.sleep(150)
    peaks = [(round(at), load.peak) for at, load in measured.told]
    assert [peak for _, peak in peaks] == sorted((peak for _, peak in peaks), reverse=True)
    # Use is averaged over the round in which it fell; from then on 4 CPUs are too many once the peak is below 2.
    gave_back = next(at for at, load in measured.told if load.peak < 2)
    assert 4 + HALF_LIFE <= gave_back <= 4 + HALF_LIFE + 2
    assert measured.told[-1][1].use == 0


@pytest.mark.trio
async def test_a_late_round_is_no_load(autojump_clock: MockClock) -> None:
    """Use is over the time that really passed, however late a sample is taken."""
    measured = Measured(world_of(A))
    measured.kernel.use(A, 3.9)
    await measured.meter.measure()
    await trio.sleep(61.5)
    await measured.meter.measure()
    fact = measured._inbox.receive_nowait()
    assert isinstance(fact, LoadMeasured)
    assert fact.loads[0].use == pytest.approx(3.9)


@pytest.mark.trio
async def test_a_restart_begins_again_and_keeps_the_peak(autojump_clock: MockClock) -> None:
    """Neither counters that fell nor those of another start make a load; the peak is the container's."""
    measured = Measured(world_of(A))
    measured.kernel.use(A, 4.0)
    async with measured.running():
        await trio.sleep(3)
        measured.kernel.restart(A)
        measured.kernel.use(A, 0.1)
        await trio.sleep(2)
        assert measured.uses() == [4.0]
        measured.board.post(in_phase(measured.board.latest, A, Phase.RUNNING, started_at="2"))
        await trio.sleep(10)
        assert measured.uses() == [4.0, 0.1]
        assert measured.told[-1][1].peak > 3


@pytest.mark.trio
@pytest.mark.parametrize("phase", [Phase.PAUSED, Phase.EXITED, Phase.RESTARTING])
async def test_a_container_that_does_not_run_is_not_measured(autojump_clock: MockClock, phase: Phase) -> None:
    """The time of a pause is not counted as idle: afterwards two samples are needed again."""
    measured = Measured(world_of(A))
    measured.kernel.use(A, 4.0)
    async with measured.running():
        await trio.sleep(3)
        reads = measured.kernel.reads
        measured.kernel.use(A, 0.0)
        measured.board.post(in_phase(measured.board.latest, A, phase))
        await trio.sleep(20)
        assert (measured.uses(), measured.kernel.reads) == ([4.0], reads)
        measured.kernel.use(A, 4.0)
        measured.board.post(in_phase(measured.board.latest, A, Phase.RUNNING))
        await trio.sleep(20)
        assert measured.uses() == [4.0]
        assert measured.kernel.reads > reads


@pytest.mark.trio
async def test_a_container_that_cannot_be_read_is_not_measured(autojump_clock: MockClock) -> None:
    """Its files vanish, and come back: two samples again, and no other container is disturbed."""
    measured = Measured(world_of(A, B))
    measured.kernel.use(A, 4.0)
    measured.kernel.use(B, 4.0)
    async with measured.running():
        await trio.sleep(3)
        del measured.kernel.uses[A]
        await trio.sleep(20)
        measured.kernel.use(A, 4.0)
        await trio.sleep(20)
        measured.kernel.use(B, 0.0)
        await trio.sleep(HALF_LIFE * 3)
        assert measured.uses(A) == [4.0]
        assert measured.uses(B)[-1] == 0


@pytest.mark.trio
@pytest.mark.parametrize(
    "world", [world_of(), world_of(A, scale=Scale.FILL), world_of(A, policy=PolicyName.STATIC)], ids=["", "f", "s"]
)
async def test_nothing_to_measure_is_no_work(autojump_clock: MockClock, world: World) -> None:
    """Nothing is read until there is a container whose load matters."""
    measured = Measured(world)
    async with measured.running():
        await trio.sleep(1000)
        assert measured.kernel.reads == 0
        measured.kernel.use(A, 4.0)
        measured.board.post(world_of(A))
        await trio.sleep(2.1)
        assert measured.uses() == [4.0]
        assert measured.kernel.retained == {A.id}
        measured.board.post(world)
        reads = measured.kernel.reads
        await trio.sleep(1000)
        assert measured.kernel.reads == reads
        assert measured.kernel.retained == set()


def sample(
    at: float,
    seconds: float,
    cpus: int = 4,
    started_at: str = "1",
    *,
    waited: float | None = None,
    pressure: float = 0.0,
    throttled: int = 0,
) -> Sample:
    usage = Usage(
        cpu_nanoseconds=round(seconds * 1e9),
        throttled=throttled,
        waiting_microseconds=None if waited is None else round(waited * 1e6),
        pressure=pressure,
    )
    return Sample(at, usage, cpus, started_at)


def between(before: Sample, after: Sample, peak: Peak | None = None) -> Load | None:
    return load_between(A, before, after, peak or Peak(), HALF_LIFE)


@pytest.mark.parametrize(
    "after", [sample(10, 30), sample(9, 30), sample(12, 19.9), sample(12, 25, started_at="2")], ids=str
)
def test_samples_that_have_nothing_to_do_with_each_other(after: Sample) -> None:
    """No time between them, a counter that fell, another start."""
    assert between(sample(10, 20), after) is None


@pytest.mark.parametrize(("before", "after", "use"), [(4, 4, 4.0), (5, 4, 4.05), (4, 5, 4.05)])
def test_no_container_uses_more_than_it_has(before: int, after: int, use: float) -> None:
    """A counter that is read a moment later than the clock makes no sixth CPU out of four that are busy."""
    load = between(sample(0, 0, before), sample(2, 8.1, after))
    assert load is not None
    assert (load.use, load.cpus) == (use, after)


def test_pressure_must_be_there_now_and_for_a_while() -> None:
    """It is the lesser of the waiting in the period and the kernel's average over ten seconds."""

    def pressure(waited: float, average: float) -> float:
        load = between(sample(0, 0, waited=5.0), sample(2, 2, waited=5.0 + waited, pressure=average))
        assert load is not None
        return load.pressure

    assert pressure(waited=1.0, average=80.0) == pytest.approx(50.0)
    assert pressure(waited=2.0, average=18.0) == 18.0
    assert pressure(waited=0.0, average=60.0) == 0.0
    # The kernel counts every two seconds: a period may have two counts, and the next none.
    assert pressure(waited=4.0, average=70.0) == 70.0
    # The counter restarted, although nothing else shows it.
    assert pressure(waited=-3.0, average=70.0) == 0.0


def test_a_kernel_without_pressure_reports_none() -> None:
    """Nor does one that has just begun, or ceased, to report it."""
    for before, after in ((None, None), (1.0, None), (None, 9.0)):
        load = between(sample(0, 0, waited=before), sample(2, 2, waited=after, pressure=90.0))
        assert load is not None
        assert load.pressure == 0.0


def test_throttling_is_seen_between_two_samples() -> None:
    for before, after, was in ((3, 3, False), (3, 4, True), (3, 0, False)):
        load = between(sample(0, 0, throttled=before), sample(2, 2, throttled=after))
        assert load is not None
        assert load.is_throttled is was


@given(st.floats(0, 64), st.floats(0.01, 1000), st.floats(0, 64), st.floats(0, 1000), st.integers(1, 64))
def test_a_load_is_lawful(used: float, seconds: float, peak: float, ago: float, cpus: int) -> None:
    """Use is between nothing and all that it has; the peak is at least the use, and at most the old peak or the use."""
    load = between(sample(1000, 0, cpus), sample(1000 + seconds, used, cpus), Peak(peak, 1000 - ago))
    assert load is not None
    assert 0 <= load.use <= cpus
    assert load.use <= load.peak <= max(load.use, peak)
