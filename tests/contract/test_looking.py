"""What an engine reports: its containers, one container, and its events."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

from sidecar.decide.facts import ContainerView, Phase
from sidecar.failures import ContainerGone
from sidecar.ports import EngineEvent
from sidecar.simulation.model_limits import Limits
from state.key import ContainerKey
from tests.contract.conftest import OpenWorld
from tests.contract.worlds import World
from tests.live.waiting import PATIENCE

NOBODY = "f" * 64
DEADLINE = 20.0 * PATIENCE


async def made(world: World, limits: Limits | None = None, **labels: str) -> str:
    return await world.create("one", limits or Limits(), labels=labels)


async def actions(stream: AsyncIterator[EngineEvent], container: str, last: str) -> list[str]:
    """Return the actions of a container until `last`, each once."""
    seen: list[str] = []
    with trio.fail_after(DEADLINE):
        async for event in stream:
            assert not event.is_gap
            if event.container == container and event.action not in seen:
                seen.append(event.action)
                if event.action == last:
                    return seen
    raise AssertionError("the stream ended")


@pytest.mark.trio
async def test_the_engine_identifies_itself(open_world: OpenWorld) -> None:
    """Its CPU count is the ceiling for limits, and its cgroup version is known."""
    async with open_world() as world:
        info = await world.engine.info()
    assert info.ncpu == len(world.cpus)
    assert info.cgroup_version in ("1", "2")
    assert info.version
    assert info.has_cpuset
    assert world.engine.name == info.name


@pytest.mark.trio
async def test_a_created_container_is_listed_and_described(open_world: OpenWorld) -> None:
    """Everything that decisions need is in the view: name, labels that matter, limits, phase, no process."""
    limits = Limits(cpuset="0", nano_cpus=1_500_000_000, memory=64 << 20, memory_reservation=32 << 20)
    async with open_world() as world:
        one = await world.create("one", limits, labels={"cpuset.exclusive": "2"})
        assert one in await world.engine.containers()
        view = await world.engine.inspect(one)
    assert (view.engine, view.id) == (world.engine.name, one)
    assert view.name.endswith("one")
    assert view.phase is Phase.CREATED
    assert view.labels == {"cpuset.exclusive": "2"}
    assert (view.cpuset, view.nano_cpus) == ("0", 1_500_000_000)
    assert (view.memory, view.memory_reservation) == (64 << 20, 32 << 20)
    assert view.pid == 0
    assert view.created_at
    assert view.effective is None


@pytest.mark.trio
async def test_phases_follow_the_verbs(open_world: OpenWorld) -> None:
    """created, running with a process, paused, running, exited without one; each start has its own stamp."""
    async with open_world() as world:
        one = await made(world)
        await world.act(one, "start")
        first = await world.engine.inspect(one)
        await world.act(one, "pause")
        paused = await world.engine.inspect(one)
        await world.act(one, "unpause")
        await world.act(one, "stop")
        stopped = await world.engine.inspect(one)
        await world.act(one, "start")
        second = await world.engine.inspect(one)
    assert (first.phase, first.pid > 0) == (Phase.RUNNING, True)
    assert paused.phase is Phase.PAUSED
    assert (stopped.phase, stopped.pid) == (Phase.EXITED, 0)
    assert second.phase is Phase.RUNNING
    assert first.started_at == paused.started_at != second.started_at


@pytest.mark.trio
async def test_a_rename_shows(open_world: OpenWorld) -> None:
    """The new name, without the slash that engines put before it."""
    async with open_world() as world:
        one = await made(world)
        name = await world.rename(one, "another")
        assert (await world.engine.inspect(one)).name == name


@pytest.mark.trio
async def test_an_unknown_container_is_gone(open_world: OpenWorld) -> None:
    """Never created and removed are the same: ContainerGone, and absent from the list."""
    async with open_world() as world:
        one = await made(world)
        await world.act(one, "remove")
        for container in (one, NOBODY):
            with pytest.raises(ContainerGone, match=r"(?i)no such container"):
                await world.engine.inspect(container)
            with pytest.raises(ContainerGone):
                await world.engine.stop(container)
        assert one not in await world.engine.containers()


@pytest.mark.trio
async def test_events_tell_of_a_container_s_life(open_world: OpenWorld) -> None:
    """From create to destroy, in order; a `create` that waits for its view may come later than a `start`."""
    async with open_world() as world, world.engine.events() as stream:
        one = await made(world)
        await world.act(one, "start")
        await world.rename(one, "another")
        await world.act(one, "pause")
        await world.act(one, "unpause")
        await world.act(one, "kill")
        seen = await actions(stream, one, "die")
        assert [action for action in seen if action != "create"] == ["start", "rename", "pause", "unpause", "die"]
        assert "create" in seen or await actions(stream, one, "create")
        await world.act(one, "remove")
        assert (await actions(stream, one, "destroy"))[-1] == "destroy"


@pytest.mark.trio
async def test_a_creation_tells_what_a_container_asks_for_and_events_may_be_kept_back(open_world: OpenWorld) -> None:
    """Its name, its image and all labels that matter, unless an engine's events do not tell them at all."""
    heard: list[tuple[EngineEvent, ContainerView | None]] = []

    def keeps_back(event: EngineEvent, told: ContainerView | None) -> bool:
        heard.append((event, told))
        return event.action == "start"

    async with open_world() as world, world.engine.events(keeps_back) as stream:
        labels = {"cpuset.exclusive": "2", "com.docker.compose.project": "shop"}
        one = await world.create("one", Limits(), labels=labels)
        await world.act(one, "start")
        await world.act(one, "kill")
        seen = await actions(stream, one, "die")
        view = await world.engine.inspect(one)
    told = [told for event, told in heard if event.container == one and event.action == "create"]
    if world.engine.name == "podman":
        # The labels of its pod may be meant for it.
        assert told == []
        return
    assert "start" not in seen
    assert told[0] is not None
    assert (told[0].key, told[0].name, told[0].image) == (view.key, view.name, view.image)
    assert (told[0].labels, told[0].is_glance) == (view.labels, True)


@pytest.mark.trio
async def test_a_stop_and_a_restart_are_told(open_world: OpenWorld) -> None:
    """A restart dies and starts in between. Docker tells of each end twice, as `die` and as `stop`, in either order: 26
    was seen to tell `stop` first.
    """
    async with open_world() as world:
        one = await made(world)
        await world.act(one, "start")
        ends = ("die",) if world.traits.tells_intentions else ("die", "stop")
        told: list[str] = []
        async with world.engine.events() as stream:
            await world.act(one, "restart")
            await world.engine.stop(one)
            with trio.fail_after(DEADLINE):
                while any(told.count(end) < 2 for end in ends):
                    if (event := await anext(stream)).container == one:
                        told.append(event.action)
        assert (told.index("restart") < told.index("die")) == world.traits.tells_intentions
        assert "start" in told
        assert (await world.engine.inspect(one)).phase is Phase.EXITED


@pytest.mark.trio
async def test_stopping_a_stopped_container_is_no_error(open_world: OpenWorld) -> None:
    """The order is fulfilled already."""
    async with open_world() as world:
        one = await made(world)
        await world.act(one, "start")
        await world.engine.stop(one)
        await world.engine.stop(one)
        assert (await world.engine.inspect(one)).phase is Phase.EXITED


@pytest.mark.trio
async def test_a_container_that_removes_itself_is_gone_when_it_ends(open_world: OpenWorld) -> None:
    """With --rm the destroy follows the die, without any request."""
    async with open_world() as world, world.engine.events() as stream:
        one = await world.create("one", Limits(), labels={}, removes_itself=True)
        await world.act(one, "start")
        await world.act(one, "kill")
        told = [action for action in await actions(stream, one, "destroy") if action != "create"]
        assert told[-2:] == ["die", "destroy"]
        with pytest.raises(ContainerGone):
            await world.engine.inspect(one)


@pytest.mark.trio
async def test_a_glance_identifies_a_container_and_says_nothing_of_its_limits(open_world: OpenWorld) -> None:
    """Name, labels that matter, phase: what is available without the container's lock."""
    async with open_world() as world:
        one = await world.create("one", Limits(cpuset="0", nano_cpus=500_000_000), labels={"cpuset.exclusive": "2"})
        created = await world.engine.glance(one)
        await world.act(one, "start")
        if world.traits.glances_from_memory:
            await world.engine.inspect(one)
        running = await world.engine.glance(one)
    assert created.key == running.key == ContainerKey(world.engine.name, one)
    assert created.name.endswith("one")
    assert (created.phase, running.phase) == (Phase.CREATED, Phase.RUNNING)
    assert created.labels == {"cpuset.exclusive": "2"}
    assert (created.cpuset, created.nano_cpus, created.pid) == ("", 0, 0)


@pytest.mark.trio
async def test_a_glance_at_an_absent_container_says_that_it_is_gone(open_world: OpenWorld) -> None:
    """An absent container is forgotten, not tried again."""
    async with open_world() as world:
        with pytest.raises(ContainerGone):
            await world.engine.glance(NOBODY)
