"""A load asks for CPUs within its band, comes to rest under a constant use, and is never answered by an oscillation."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sidecar.decide.books.load_wish import (
    follows_load,
    is_news,
    wish_of,
    wished,
    with_loads,
    with_loads_of_grants,
    with_measured,
)
from sidecar.decide.container.container import Standing, Wish
from sidecar.decide.container.machine import first_seen
from sidecar.decide.container.place import Place
from sidecar.decide.facts import ContainerView, Load, Phase
from sidecar.decide.settings import Band, PolicyName, Settings
from sidecar.decide.world import World, replace
from state.cpuset import CPUSet
from state.demand import Demand, Scale
from state.key import ContainerKey
from state.model import Assignment, Move, State
from state.refusal import Said
from state.topology import uniform

MOST = 64
A = ContainerKey("docker", "a" * 64)
B = ContainerKey("docker", "b" * 64)


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    floor, cpus, ceiling = sorted(draw(st.lists(st.integers(1, MOST), min_size=3, max_size=3)))
    return demand(floor, ceiling, cpus)


@st.composite
def bands(draw: st.DrawFn) -> Band:
    low, high = sorted(draw(st.lists(st.floats(0.01, 1), min_size=2, max_size=2, unique=True)))
    return Band(low=low, high=high, pressure=draw(st.floats(0.1, 100)))


@st.composite
def loads(draw: st.DrawFn) -> Load:
    cpus = draw(st.integers(1, MOST))
    use = draw(st.floats(0, cpus))
    return load(
        use,
        cpus,
        peak=max(use, draw(st.floats(0, MOST))),
        pressure=draw(st.sampled_from([0.0, 15.0, 60.0, 100.0])),
        is_throttled=draw(st.booleans()),
    )


def demand(floor: int, ceiling: int, cpus: int | None = None, scale: Scale = Scale.LOAD) -> Demand:
    return Demand(
        container=A, name="a", cpus=floor if cpus is None else cpus, min_cpus=floor, max_cpus=ceiling, scale=scale
    )


def load(use: float, cpus: int = 4, *, peak: float = 0.0, pressure: float = 0.0, is_throttled: bool = False) -> Load:
    return Load(container=A, cpus=cpus, use=use, peak=max(use, peak), pressure=pressure, is_throttled=is_throttled)


@pytest.mark.parametrize(
    ("measured", "cpus", "wish"),
    [
        (load(2.5), 4, 4),  # inside the band
        (load(3.2), 4, 4),  # its upper end belongs to it
        (load(3.3), 4, 5),
        (load(3.7), 4, 5),
        (load(4.0), 4, 8),  # busy on all of them: the most at which this is inside the band
        (load(4.0, peak=60.0), 4, 8),  # regardless of its past
        (load(2.0), 4, 4),  # so does its lower end
        (load(1.9), 4, 3),
        (load(0.0), 4, 1),
        (load(0.0, peak=3.0), 4, 4),
        (load(0.0, peak=1.5), 4, 3),
        (load(2.5, pressure=30.0), 4, 5),
        (load(2.5, pressure=20.0), 4, 4),  # at the threshold is not above it
        (load(2.0, pressure=90.0), 4, 4),  # beyond the band it is not believed
        (load(0.5, is_throttled=True), 4, 4),
        (load(3.7, is_throttled=True), 4, 5),
        (load(0.9), 1, 2),
        (load(9.0, cpus=9), 9, 8),
    ],
)
def test_the_story_of_the_band(measured: Load, cpus: int, wish: int) -> None:
    """A load between half and four fifths of each CPU, for one to eight CPUs."""
    assert wish_of(measured, cpus, demand(1, 8), Band()) == wish


@given(loads(), st.integers(1, MOST), demands(), bands())
def test_the_wish_is_between_floor_and_ceiling(measured: Load, cpus: int, of: Demand, band: Band) -> None:
    assert of.floor <= wish_of(measured, cpus, of, band) <= of.ceiling


@given(loads(), st.floats(0, MOST), st.integers(1, MOST), demands(), bands())
def test_more_use_never_wants_fewer_cpus(measured: Load, more: float, cpus: int, of: Demand, band: Band) -> None:
    busier = replace(measured, use=measured.use + more, peak=max(measured.peak, measured.use + more))
    assert wish_of(busier, cpus, of, band) >= wish_of(measured, cpus, of, band)


@given(loads(), st.integers(1, MOST), demands(), bands())
def test_one_load_is_one_step(measured: Load, cpus: int, of: Demand, band: Band) -> None:
    """A container that has what its load asked for wants nothing else by the same load, however often the policy
    decides.
    """
    wish = wish_of(measured, cpus, of, band)
    assert wish_of(measured, wish, of, band) == wish


@given(loads(), st.integers(1, MOST), demands(), bands())
def test_no_container_is_made_busier_than_the_band(measured: Load, cpus: int, of: Demand, band: Band) -> None:
    """Unless its ceiling prevents that; so a shrink is no reason to grow again."""
    wish = wish_of(measured, cpus, of, band)
    assert wish == of.ceiling or measured.use <= wish * band.high + 1e-5


class Busy:
    """A container that constantly wants a number of CPUs, and is given what its load asks for at each measurement."""

    def __init__(
        self,
        wanted: float,
        cpus: int,
        of: Demand,
        band: Band,
        *,
        pressure: Callable[[int], float] = lambda _: 0.0,
        quota: float = math.inf,
        peak: float = 0.0,
    ) -> None:
        self.wanted, self.cpus, self.demand, self.band = wanted, cpus, of, band
        self.pressure, self.quota, self.peak = pressure, quota, peak

    def measured(self, halving: float) -> int:
        """Return its size after one more measurement; `halving` is what is left of a peak after a period."""
        use = min(self.wanted, self.quota, self.cpus)
        self.peak = max(use, self.peak * halving)
        now = Load(
            container=A,
            cpus=self.cpus,
            use=use,
            peak=self.peak,
            pressure=self.pressure(self.cpus),
            is_throttled=self.wanted > self.quota and self.cpus > self.quota,
        )
        self.cpus = wish_of(now, self.cpus, self.demand, self.band)
        return self.cpus


def changes_of_direction(sizes: list[int]) -> int:
    steps = [later - earlier for earlier, later in pairwise(sizes) if later != earlier]
    return sum(first * second < 0 for first, second in pairwise(steps))


def comes_to_rest(container: Busy, *, periods_per_half_life: int = 15) -> int:
    """Drive it until long after the peak is forgotten; return how often its size changed direction. It must rest."""
    halving = 0.5 ** (1 / periods_per_half_life)
    sizes = [container.cpus]
    # 64 CPUs are 2**-7 of one after 13 half-lives; growth is by one CPU at least each time.
    busy = 13 * periods_per_half_life + MOST
    sizes += [container.measured(halving) for _ in range(busy)]
    rest = {container.measured(halving) for _ in range(busy)}
    assert rest == {sizes[-1]}
    return changes_of_direction(sizes)


starts = st.integers(1, MOST)
wants = st.floats(0, MOST)


@given(wants, starts, demands(), bands(), wants)
def test_a_constant_use_comes_to_rest(wanted: float, cpus: int, of: Demand, band: Band, peak: float) -> None:
    """From any size and any remembered peak; it grows while it must, shrinks while the peak fades, and stays."""
    container = Busy(wanted, cpus, of, band, peak=peak)
    assert comes_to_rest(container) <= 1
    assert container.cpus == of.ceiling or min(wanted, container.cpus) <= container.cpus * band.high + 1e-5


@given(wants, starts, demands(), bands(), wants, starts)
def test_constant_pressure_comes_to_rest(
    wanted: float, cpus: int, of: Demand, band: Band, peak: float, enough: int
) -> None:
    """Pressure below any given size: no size is left and entered again and again."""
    assert comes_to_rest(Busy(wanted, cpus, of, band, pressure=lambda n: 100.0 * (n < enough), peak=peak)) <= 2


@given(wants, starts, demands(), bands(), wants)
def test_pressure_that_nothing_helps_comes_to_rest(
    wanted: float, cpus: int, of: Demand, band: Band, peak: float
) -> None:
    """There are always more threads than CPUs."""
    assert comes_to_rest(Busy(wanted, cpus, of, band, pressure=lambda _: 100.0, peak=peak)) <= 2


@given(wants, starts, demands(), bands(), wants, st.floats(0.1, MOST))
def test_throttling_comes_to_rest(wanted: float, cpus: int, of: Demand, band: Band, peak: float, quota: float) -> None:
    """A quota that stays in force hides the need."""
    assert comes_to_rest(Busy(wanted, cpus, of, band, quota=quota, peak=peak)) <= 1


@given(wants, starts, demands())
def test_growth_is_by_a_fifth_at_least(wanted: float, cpus: int, of: Demand) -> None:
    """With the default band: from one CPU to 64 in at most 20 measurements."""
    container = Busy(wanted, cpus, of, Band())
    for _ in range(20):
        container.measured(1.0)
    assert container.cpus >= min(wanted, of.ceiling)


def world_of(
    cpus: str = "0-3",
    *,
    of: Demand | None = None,
    policy: PolicyName = PolicyName.DYNAMIC,
    moves: tuple[Move, ...] = (),
) -> World:
    given_cpus = CPUSet.parse(cpus)
    assignment = Assignment(demand=of or demand(1, 8, 4), cpus=given_cpus, original=given_cpus, since=1, moves=moves)
    state = State(assignments={A: assignment})
    return World(state=state, topology=uniform(cores=8), settings=Settings(policy=policy))


def test_until_it_is_known_it_keeps_what_it_has() -> None:
    """A new container gets what it began with, as soon as that is available. One whose size was changed keeps it, so
    that a restart of the sidecar makes no container grow and shrink again.
    """
    changed = (Move(lost=CPUSet.of(3), cause=Said("it was idle")),)
    for cpus, moves, wish in (("0-3", (), 4), ("0-1", (), 4), ("0-1", changed, 2), ("0-5", changed, 6)):
        assignment = world_of(cpus, moves=moves).state.assignments[A]
        assert wished(assignment, None, Band()) == wish


def test_a_measured_size_is_kept_until_the_next_measurement() -> None:
    """A container that was granted fewer CPUs than it asked for, and whose load calls for no more, has not grown by the
    time its load is forgotten: it does not grow then either.
    """
    world = known(world_of("0-1"), load(1.3, 2))
    measured, unmeasured = with_measured(world, world.state), with_measured(world_of("0-1"), world.state)
    assert wished(measured.assignments[A], None, Band()) == 2
    assert wished(unmeasured.assignments[A], None, Band()) == 4
    assert with_measured(world, measured) is measured


def test_a_load_belongs_to_a_grant() -> None:
    """It is forgotten when the grant ends, and none is known of a container without a grant."""
    world = known(world_of(), load(4.0))
    ended = replace(world, state=world.state.released(A))
    assert with_loads_of_grants(world) is world
    assert with_loads_of_grants(ended).loads == {}
    assert with_loads(with_loads_of_grants(ended), [load(4.0)]).loads == {}


def test_whose_load_matters() -> None:
    """The load of containers that follow it, under the policy `dynamic`."""
    assert follows_load(world_of(), A)
    assert not follows_load(world_of(), B)
    assert not follows_load(world_of(policy=PolicyName.STATIC), A)
    assert not follows_load(world_of(of=demand(1, 8, 4, Scale.FILL)), A)
    assert not follows_load(world_of(of=demand(4, 4, 4)), A)


def known(world: World, *loads_of_it: Load) -> World:
    """Return the World with a running container and its reported load."""
    view = ContainerView(engine=A.engine, id=A.id, name="a", phase=Phase.RUNNING)
    wish = Wish(standing=Standing.MANAGED, demand=world.state.assignments[A].demand)
    cpus = world.state.assignments[A].cpus
    container = first_seen(view, Place(cpus, cpus), wish, 0, 1)
    return with_loads(world.with_container(container), loads_of_it)


def test_news_is_what_asks_for_something_else() -> None:
    """A load is compared with the known one, not with the container's size: it may have to wait for its wish."""
    world = known(world_of())
    assert not is_news(world, load(2.5))
    assert is_news(world, load(4.0))
    waiting = known(world_of(), load(4.0))
    assert not is_news(waiting, load(4.0, peak=5.0))
    assert is_news(waiting, load(3.1))
    assert not is_news(world_of(), load(4.0))
    assert not is_news(known(world_of(policy=PolicyName.STATIC)), load(4.0))


def test_a_load_of_somebody_unknown_changes_nothing() -> None:
    world = known(world_of(), load(4.0))
    assert with_loads(world, [replace(load(1.0), container=B)]) == world
    assert with_loads(world, [load(1.0)]).loads[A] == load(1.0)


@given(loads(), loads(), demands(), bands(), st.integers(1, 8))
def test_what_is_no_news_changes_no_wish(earlier: Load, later: Load, of: Demand, band: Band, count: int) -> None:
    """So the allocator need not see it."""
    world = known(world_of(f"0-{count - 1}", of=of), earlier)
    world = replace(world, settings=replace(world.settings, band=band))
    assume(not is_news(world, later))
    told = with_loads(world, [later])
    assignment = world.state.assignments[A]
    if follows_load(world, A):
        assert wished(assignment, told.loads[A], band) == wished(assignment, earlier, band)
