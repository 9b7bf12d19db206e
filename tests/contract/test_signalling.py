"""What a signal does: running containers receive it; where the engine would do more than that, it is not sent."""

from __future__ import annotations

import pytest
import trio

from sidecar.decide.facts import Phase
from sidecar.failures import ContainerGone, EngineRefused
from tests.contract.conftest import OpenWorld
from tests.contract.worlds import World
from tests.live.waiting import PATIENCE

NOBODY = "f" * 64
FORGETS = r"would forget its restart policy; set a stop signal of its own that is not SIGHUP \(`stop_signal: SIGTERM`"
RESUMES = "it is paused, and the engine would resume it; set a stop signal"


async def started(world: World, *, restarts: bool = False, stop_signal: str = "") -> str:
    """Start a container that is ready for signals."""
    one = await world.create_hearing("one", restarts=restarts, stop_signal=stop_signal)
    await world.act(one, "start")
    await said(world, one, "ready")
    return one


async def said(world: World, container: str, word: str) -> None:
    """Wait for a program to print this."""
    with trio.fail_after(20 * PATIENCE):
        while not await world.has_said(container, word):  # noqa: ASYNC110 - what it says is only to be looked for
            await trio.sleep(0.02)


@pytest.mark.trio
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_running_container_hears_it_and_runs_on(open_world: OpenWorld, restarts: bool) -> None:
    """If it sets a stop signal, whatever its restart policy."""
    async with open_world() as world:
        one = await started(world, restarts=restarts, stop_signal="SIGTERM")
        if restarts and world.traits.signal_forgets_policy:
            with pytest.raises(EngineRefused, match="would forget its restart policy; let systemd start it again"):
                await world.engine.signal(one, "HUP")
            return
        await world.engine.signal(one, "HUP")
        await said(world, one, "heard")
        assert (await world.engine.inspect(one)).phase is Phase.RUNNING


@pytest.mark.trio
async def test_without_a_restart_policy_it_needs_no_stop_signal(open_world: OpenWorld) -> None:
    async with open_world() as world:
        one = await started(world)
        await world.engine.signal(one, "HUP")
        await said(world, one, "heard")


@pytest.mark.trio
@pytest.mark.parametrize("stop_signal", ["", "SIGHUP", "HUP", "1"])
async def test_a_restart_policy_is_not_given_up_for_a_signal(open_world: OpenWorld, stop_signal: str) -> None:
    """The engine takes the signal for a request to end: the container would stay down when it ends by itself."""
    async with open_world() as world:
        one = await started(world, restarts=True, stop_signal=stop_signal)
        if world.traits.signal_forgets_policy:
            with pytest.raises(EngineRefused, match="would forget its restart policy"):
                await world.engine.signal(one, "HUP")
            assert not await world.has_said(one, "heard")
            return
        if world.traits.only_delivers:
            await world.engine.signal(one, "HUP")
            await said(world, one, "heard")
            return
        with pytest.raises(EngineRefused, match=FORGETS):
            await world.engine.signal(one, "HUP")
        assert not await world.has_said(one, "heard")


@pytest.mark.trio
async def test_a_paused_container_stays_paused(open_world: OpenWorld) -> None:
    """If it sets a stop signal, it receives the signal when it is thawed; otherwise none is sent."""
    async with open_world() as world:
        one = await started(world)
        await world.act(one, "pause")
        if world.traits.only_delivers:
            await world.engine.signal(one, "HUP")
            assert (await world.engine.inspect(one)).phase is Phase.PAUSED
            await world.act(one, "unpause")
            await said(world, one, "heard")
            return
        with pytest.raises(EngineRefused, match=RESUMES):
            await world.engine.signal(one, "HUP")
        assert (await world.engine.inspect(one)).phase is Phase.PAUSED


@pytest.mark.trio
async def test_one_that_has_a_stop_signal_hears_after_its_pause(open_world: OpenWorld) -> None:
    async with open_world() as world:
        one = await started(world, stop_signal="SIGTERM")
        await world.act(one, "pause")
        await world.engine.signal(one, "HUP")
        assert (await world.engine.inspect(one)).phase is Phase.PAUSED
        await world.act(one, "unpause")
        await said(world, one, "heard")


@pytest.mark.trio
@pytest.mark.parametrize("phase", ["created", "stopped"])
async def test_a_container_that_does_not_run_is_refused(open_world: OpenWorld, phase: str) -> None:
    """409: there is no process to signal."""
    async with open_world() as world:
        one = await world.create_hearing("one")
        if phase == "stopped":
            await world.act(one, "start")
            await world.act(one, "kill")
        with pytest.raises(EngineRefused, match="is not running"):
            await world.engine.signal(one, "HUP")


@pytest.mark.trio
async def test_an_unknown_container_is_gone(open_world: OpenWorld) -> None:
    async with open_world() as world:
        with pytest.raises(ContainerGone):
            await world.engine.signal(NOBODY, "HUP")
