"""An engine with a shared group: the group is one container more, and its members are marked."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
import trio
from trio.testing import MockClock

from sidecar.assembly import shared_group, with_shared_group
from sidecar.decide.engine_traits import EngineTraits
from sidecar.decide.facts import ContainerView, EngineInfo, Phase, ViewKind
from sidecar.decide.orders import Update
from sidecar.decide.settings import shared_id
from sidecar.engines.shared_group import ALWAYS, SlicedEngine
from sidecar.failures import ContainerGone, EngineLacks, EngineRefused
from sidecar.simulation.model_limits import Limits
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.topology import uniform
from tests.support.daemon.group import FakeGroup
from tests.support.engine.simulated import SimulatedEngine
from tests.support.engine.simulated_docker import SimulatedDocker

GROUP = shared_id("pool.slice")
TWO = CPUSet.of(0, 1)


class Told(SimulatedEngine):
    """A simulated engine that reports extra facts of containers, and of itself, as the test sets them."""

    def __init__(self, docker: SimulatedDocker) -> None:
        super().__init__(docker)
        self.parents: dict[str, str] = {}
        self.paths: dict[str, str] = {}
        self.has_default_parent = True

    async def info(self) -> EngineInfo:
        traits = EngineTraits(has_default_parent=self.has_default_parent)
        return msgspec.structs.replace(await super().info(), traits=traits)

    async def inspect(self, container: str) -> ContainerView:
        view = await super().inspect(container)
        parent, path = self.parents.get(container, ""), self.paths.get(container, "")
        return msgspec.structs.replace(view, cgroup_parent=parent, cgroup=path)


@pytest.fixture
def docker() -> SimulatedDocker:
    return SimulatedDocker(uniform(cores=4), chance=Random(7), cgroup_version=2)


@pytest.fixture
def engine(docker: SimulatedDocker) -> Told:
    return Told(docker)


@pytest.fixture
def group() -> FakeGroup:
    return FakeGroup()


class Unasked(SimulatedEngine):
    """A simulated engine that has not been called yet."""

    def __init__(self, docker: SimulatedDocker) -> None:
        super().__init__(docker)
        self.name = ""

    async def info(self) -> EngineInfo:
        self.name = "docker"
        return await super().info()


@pytest.mark.trio
async def test_the_group_is_its_engines_though_that_was_never_asked(
    docker: SimulatedDocker, group: FakeGroup, autojump_clock: MockClock
) -> None:
    """It has one key from the first look on."""
    sliced = SlicedEngine(Unasked(docker), group)
    first = await sliced.inspect(GROUP)
    assert first.key == (await sliced.glance(GROUP)).key == ContainerKey("docker", GROUP)
    assert sliced.name == "docker"


@pytest.mark.trio
async def test_the_group_is_one_container_more(
    docker: SimulatedDocker, engine: Told, group: FakeGroup, autojump_clock: MockClock
) -> None:
    """It is listed, looked at and glanced at; it lives while its cgroup exists, and its view has the configured
    CPUs.
    """
    sliced = SlicedEngine(engine, group)
    one = await docker.run("one")
    assert await sliced.containers() == (GROUP, one)
    expected = ContainerView(
        engine="docker",
        id=GROUP,
        name="pool.slice",
        kind=ViewKind.GROUP,
        phase=Phase.CREATED,
        cgroup="/pool.slice",
        created_at=ALWAYS,
        started_at=ALWAYS,
    )
    assert await sliced.inspect(GROUP) == await sliced.glance(GROUP) == expected
    group.is_there, group.configured = True, TWO
    assert await sliced.inspect(GROUP) == msgspec.structs.replace(expected, phase=Phase.RUNNING, cpuset="0-1")
    with pytest.raises(ContainerGone):
        await sliced.inspect("f" * 64)


@pytest.mark.trio
async def test_an_order_to_the_group_is_one_write_and_others_go_to_the_engine(
    docker: SimulatedDocker, engine: Told, group: FakeGroup, autojump_clock: MockClock
) -> None:
    """The engine never sees the group's id."""
    sliced = SlicedEngine(engine, group)
    one = await docker.run("one")
    await sliced.update(GROUP, Update(cpus=TWO))
    await sliced.update(one, Update(cpus=CPUSet.of(3)))
    assert group.writes == [TWO]
    assert [id for id, _ in engine.updates] == [one]
    assert docker.effective(one) == CPUSet.of(3)


@pytest.mark.trio
async def test_what_makes_no_sense_for_a_group_is_refused(
    engine: Told, group: FakeGroup, autojump_clock: MockClock
) -> None:
    """Limits, a stop, a signal: with a reason, and nothing is written."""
    sliced = SlicedEngine(engine, group)
    with pytest.raises(EngineRefused, match=r"pool\.slice .* accepts CPUs but no limits"):
        await sliced.update(GROUP, Update(cpus=TWO, nano_cpus=1))
    with pytest.raises(EngineRefused, match="cannot be stopped"):
        await sliced.stop(GROUP)
    with pytest.raises(EngineRefused, match="cannot be signalled"):
        await sliced.signal(GROUP, "HUP")
    assert group.writes == []
    assert engine.updates == []


@pytest.mark.trio
async def test_stop_and_signal_of_containers_pass_through(
    docker: SimulatedDocker, engine: Told, group: FakeGroup, autojump_clock: MockClock
) -> None:
    """They go to the engine."""
    sliced = SlicedEngine(engine, group)
    one = await docker.run("one")
    await sliced.signal(one, "HUP")
    await sliced.stop(one)
    assert (await sliced.inspect(one)).phase is Phase.EXITED


@pytest.mark.trio
@pytest.mark.parametrize(
    ("home", "is_member"),
    [
        ("/pool.slice/docker-1.scope", True),
        ("/pool.slice/pool-web.slice/docker-1.scope", True),
        ("/system.slice/docker-1.scope", False),
        ("/pool.slices/docker-1.scope", False),
        ("", False),
    ],
)
async def test_a_running_container_is_a_member_by_where_it_is(
    docker: SimulatedDocker, engine: Told, group: FakeGroup, autojump_clock: MockClock, home: str, is_member: bool
) -> None:
    """Regardless of its configuration: it may have been started before the default parent was set."""
    one = await docker.run("one")
    group.homes[one] = home
    view = await SlicedEngine(engine, group).inspect(one)
    assert view.in_shared_group is is_member
    assert view.cgroup == (home if is_member else "")


@pytest.mark.trio
@pytest.mark.parametrize(
    ("parent", "has_default", "is_member"),
    [
        ("", True, True),
        ("", False, False),
        ("pool.slice", False, True),
        ("pool.slice/deeper", True, True),
        ("other.slice", True, False),
    ],
)
async def test_one_that_does_not_run_is_a_member_if_it_would_be_born_there(
    docker: SimulatedDocker,
    engine: Told,
    group: FakeGroup,
    autojump_clock: MockClock,
    parent: str,
    has_default: bool,
    is_member: bool,
) -> None:
    """By its cgroup parent, or the default one, which Podman cannot be configured with."""
    one = await docker.create("one")
    engine.parents[one], engine.has_default_parent = parent, has_default
    assert (await SlicedEngine(engine, group).inspect(one)).in_shared_group is is_member


@pytest.mark.trio
async def test_a_stopped_one_whose_engine_tells_a_path_in_the_group_is_a_member(
    docker: SimulatedDocker, engine: Told, group: FakeGroup, autojump_clock: MockClock
) -> None:
    """A quadlet's container names no parent: its cgroup is below its service."""
    one = await docker.create("one")
    engine.has_default_parent, engine.paths[one] = False, "/pool.slice/x.service/libpod-payload-1"
    assert (await SlicedEngine(engine, group).inspect(one)).in_shared_group


@pytest.mark.trio
async def test_the_mark_says_where_it_is_whatever_cpuset_it_has(
    docker: SimulatedDocker, engine: Told, group: FakeGroup, autojump_clock: MockClock
) -> None:
    """Decisions combine both, not the adapter."""
    one = await docker.create("one", Limits(cpuset="2-3"))
    assert (await SlicedEngine(engine, group).inspect(one)).in_shared_group


@pytest.mark.trio
async def test_a_glance_is_marked_where_the_container_is_seen_in_the_group(
    docker: SimulatedDocker, engine: Told, group: FakeGroup, autojump_clock: MockClock
) -> None:
    """A glance has no cgroup parent, so it cannot mark what has no cgroup. One that is being started has one."""
    sliced = SlicedEngine(engine, group)
    running, idle, starting = await docker.run("running"), await docker.create("idle"), await docker.create("starting")
    group.homes[running] = "/pool.slice/docker-1.scope"
    group.homes[starting] = "/pool.slice/docker-3.scope"
    assert (await sliced.glance(running)).in_shared_group
    assert (await sliced.glance(starting)).in_shared_group
    assert not (await sliced.glance(idle)).in_shared_group


@pytest.mark.trio
async def test_a_view_that_comes_with_an_event_is_marked(
    docker: SimulatedDocker, engine: Told, group: FakeGroup, autojump_clock: MockClock
) -> None:
    """A newcomer that will be a member gets no order before its first look."""
    sliced = SlicedEngine(engine, group)
    async with sliced.events() as events:
        one = await docker.create("one")
        with trio.fail_after(1):
            event = await anext(events)
    assert (event.container, event.action) == (one, "create")
    bare = await engine.inspect(one)
    marked = sliced.marked(msgspec.structs.replace(event, view=bare))
    assert marked.view is not None
    assert marked.view.in_shared_group
    assert not bare.in_shared_group
    assert sliced.marked(event) == event


@pytest.mark.trio
async def test_a_group_that_does_not_fit_the_engine_is_said_at_the_start(
    engine: Told, group: FakeGroup, autojump_clock: MockClock
) -> None:
    """Not only with the first order."""
    group.objection = "not with this driver"
    with pytest.raises(EngineLacks, match="not with this driver"):
        await SlicedEngine(engine, group).info()


def test_a_name_says_which_kind_of_group_is_meant(engine: Told) -> None:
    """None, a slice, or a path."""
    assert with_shared_group(engine, "") is engine
    assert isinstance(with_shared_group(engine, "sidecar-shared.slice"), SlicedEngine)
    assert shared_group("sidecar-shared.slice").path == "/sidecar.slice/sidecar-shared.slice"
    assert shared_group("/sidecar/shared/").path == "/sidecar/shared"
