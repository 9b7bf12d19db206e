"""What only the simulated engine can show: lost orders, engines that restart, the start's lock, CPUs going offline."""

from __future__ import annotations

from random import Random
from typing import Any, Literal

import pytest
import trio
from trio.testing import MockClock

from sidecar.decide.facts import Phase
from sidecar.decide.orders import Update
from sidecar.failures import ContainerGone, EngineError, EngineFailed, EngineRefused, EngineUnavailable
from sidecar.simulation.model_limits import Limits
from state.cpuset import CPUSet
from state.topology import uniform
from tests.support.engine.simulated import TIMEOUT_SECONDS, Fault, SimulatedEngine
from tests.support.engine.simulated_docker import SimulatedDocker

FOUR = CPUSet.of(0, 1, 2, 3)
ONE = CPUSet.of(1)


def host(version: Literal[1, 2] = 1, **options: Any) -> tuple[SimulatedDocker, SimulatedEngine]:
    docker = SimulatedDocker(uniform(cores=4), chance=Random(7), cgroup_version=version, **options)
    return docker, SimulatedEngine(docker)


@pytest.mark.trio
@pytest.mark.parametrize(
    ("fault", "error", "takes_effect"),
    [
        (Fault.REFUSED, EngineRefused, False),
        (Fault.FAILED, EngineFailed, False),
        (Fault.LOST_BEFORE, EngineUnavailable, False),
        (Fault.LOST_AFTER, EngineUnavailable, True),
        (Fault.CUT_BEFORE, EngineUnavailable, False),
        (Fault.CUT_AFTER, EngineUnavailable, True),
    ],
)
async def test_an_update_fails_as_demanded(
    autojump_clock: MockClock, fault: Fault, error: type[EngineError], takes_effect: bool
) -> None:
    """Once, before or after it took effect; the next one is served."""
    docker, engine = host()
    one = await docker.run("one")
    engine.fail_updates(fault)
    began = trio.current_time()
    with pytest.raises(error):
        await engine.update(one, Update(cpus=ONE))
    assert (docker.effective(one) == ONE) is takes_effect
    assert ((await engine.inspect(one)).cpuset == "1") is takes_effect
    assert (trio.current_time() - began > TIMEOUT_SECONDS) is (fault in (Fault.LOST_BEFORE, Fault.LOST_AFTER))
    await engine.update(one, Update(cpus=CPUSet.of(2)))
    assert docker.effective(one) == CPUSet.of(2)


@pytest.mark.trio
async def test_a_start_holds_the_lock(autojump_clock: MockClock) -> None:
    """An update in the middle of a start waits, and lands right after it; so does an inspect on 20.10."""
    docker, engine = host()
    one = await docker.create("one")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(docker.start, one)
        await trio.sleep(0.01)
        assert (await engine.containers()) == (one,)
        assert docker.effective(one) is None
        view = await engine.inspect(one)
        assert view.phase is Phase.RUNNING
        await engine.update(one, Update(cpus=ONE))
    assert docker.effective(one) == ONE


@pytest.mark.trio
async def test_an_update_before_the_start_holds_from_the_first_instruction(autojump_clock: MockClock) -> None:
    """The container is never seen anywhere else."""
    docker, engine = host()
    one = await docker.create("one")
    await engine.update(one, Update(cpus=ONE))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(docker.start, one)
        await trio.sleep(docker.pace.start + 0.001)
        assert docker.effective(one) == ONE


@pytest.mark.trio
async def test_an_update_of_a_dying_container_is_rolled_back(autojump_clock: MockClock) -> None:
    """A crash loop: 500, and the stored cpuset is the old one."""
    docker, engine = host()
    one = await docker.create("one", Limits(cpuset="2"), restarts_always=True)
    await docker.start(one)
    docker.container(one).is_init_dead = True
    with pytest.raises(EngineFailed, match="cannot update a stopped container"):
        await engine.update(one, Update(cpus=ONE))
    assert (await engine.inspect(one)).cpuset == "2"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(docker.exit, one)
        await trio.sleep(0.05)
        assert (await engine.inspect(one)).phase is Phase.RESTARTING
        await engine.update(one, Update(cpus=ONE))
    assert docker.effective(one) == ONE


@pytest.mark.trio
async def test_a_container_that_dies_during_its_update_leaves_nothing_behind(autojump_clock: MockClock) -> None:
    """500, rolled back, and no group of a dead container in the kernel."""
    docker, engine = host()
    one = await docker.run("one", Limits(cpuset="2"))
    async with trio.open_nursery() as nursery:

        async def update() -> None:
            with pytest.raises(EngineFailed, match="cannot update a stopped container"):
                await engine.update(one, Update(cpus=ONE))

        nursery.start_soon(update)
        await trio.sleep(0.001)
        await docker.exit(one)
    assert docker.effective(one) is None
    assert (await engine.inspect(one)).cpuset == "2"


@pytest.mark.trio
async def test_an_order_that_waited_for_a_removal_finds_nobody(autojump_clock: MockClock) -> None:
    """With --rm: the order waited while the container was being stopped, and got the lock when it was gone."""
    docker, engine = host()
    one = await docker.create("one", removes_itself=True)
    await docker.start(one)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(docker.stop, one)
        await trio.sleep(0.001)
        with pytest.raises(ContainerGone):
            await engine.update(one, Update(cpus=ONE))
    assert docker.kernel.effective(one) is None


@pytest.mark.trio
async def test_a_container_on_its_way_out_cannot_be_updated(autojump_clock: MockClock) -> None:
    """First 500, and then it is unknown."""
    docker, engine = host()
    one = await docker.run("one")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(docker.remove, one)
        await trio.sleep(0.001)
        with pytest.raises(EngineFailed, match="marked for removal"):
            await engine.update(one, Update(cpus=ONE))
    with pytest.raises(ContainerGone):
        await engine.update(one, Update(cpus=ONE))
    assert docker.kernel.effective(one) is None


@pytest.mark.trio
async def test_a_restart_of_the_engine_ends_streams_and_forgets_the_ring(autojump_clock: MockClock) -> None:
    """With live restore the containers go on, and there is no event for one that dies meanwhile."""
    docker, engine = host(live_restore=True)
    one, two = await docker.run("one", Limits(cpuset="1")), await docker.run("two")
    async with engine.events() as stream:
        await docker.go_down()
        assert [(await anext(stream)).action for _ in range(4)] == ["create", "start"] * 2
        with pytest.raises(EngineUnavailable):
            await anext(stream)
        for call in (engine.info, engine.containers):
            with pytest.raises(EngineUnavailable):
                await call()
        await docker.exit(two)
        assert docker.kernel.effective(one) == ONE
    await docker.come_up()
    async with engine.events() as stream:
        assert (await engine.inspect(two)).phase is Phase.EXITED
        await engine.update(one, Update(cpus=CPUSet.of(2)))
        assert (await anext(stream)).action == "update"


@pytest.mark.trio
async def test_without_live_restore_policies_start_again_without_a_death(autojump_clock: MockClock) -> None:
    """A `start` is its first event."""
    docker, engine = host()
    one = await docker.create("one", Limits(cpuset="1"), restarts_always=True)
    await docker.start(one)
    await docker.go_down()
    assert docker.kernel.effective(one) is None
    await docker.come_up()
    async with engine.events() as stream:
        event = await anext(stream)
    assert (event.container, event.action) == (one, "start")
    assert docker.effective(one) == ONE


@pytest.mark.trio
async def test_a_broken_connection_leaves_the_outcome_open(autojump_clock: MockClock) -> None:
    """The call gets no answer, and takes effect all the same."""
    docker, engine = host()
    one = await docker.run("one")

    async def update() -> None:
        with pytest.raises(EngineUnavailable):
            await engine.update(one, Update(cpus=ONE))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(update)
        await trio.sleep(0.005)
        docker.break_connections()
    assert docker.effective(one) == ONE


@pytest.mark.trio
async def test_offline_cpus_on_version_one_are_lost_for_good(autojump_clock: MockClock) -> None:
    """A container that loses its last CPU runs where the parent runs; nothing comes back by itself, and the parent
    refuses.
    """
    docker, engine = host(1)
    pinned, wide = await docker.run("pinned", Limits(cpuset="1")), await docker.run("wide", Limits(cpuset="0-2"))
    docker.kernel.take_offline(ONE)
    assert docker.effective(pinned) == CPUSet.of(0, 2, 3)
    assert docker.effective(wide) == CPUSet.of(0, 2)
    with pytest.raises(EngineRefused, match="requested 1, available: 0,2-3"):
        await engine.update(wide, Update(cpus=ONE))
    docker.kernel.bring_online(ONE)
    assert docker.effective(wide) == CPUSet.of(0, 2)
    with pytest.raises(EngineFailed, match="permission denied"):
        await engine.update(wide, Update(cpus=ONE))
    assert (await engine.inspect(wide)).cpuset == "0-2"
    docker.kernel.confine(FOUR)
    await engine.update(wide, Update(cpus=ONE))
    assert docker.effective(wide) == ONE


@pytest.mark.trio
async def test_offline_cpus_on_version_two_come_back(autojump_clock: MockClock) -> None:
    """A set that is all offline leaks onto everything meanwhile."""
    docker, _ = host(2)
    one = await docker.run("one", Limits(cpuset="1"))
    docker.kernel.take_offline(ONE)
    assert docker.effective(one) == CPUSet.of(0, 2, 3)
    assert docker.kernel.topology().online == CPUSet.of(0, 2, 3)
    docker.kernel.bring_online(ONE)
    assert docker.effective(one) == ONE
    assert docker.kernel.topology() == uniform(cores=4)


@pytest.mark.trio
async def test_a_smaller_parent_on_version_two_pins_nobody(autojump_clock: MockClock) -> None:
    """200, but the kernel shows something else."""
    docker, engine = host(2)
    one = await docker.run("one")
    docker.kernel.confine(CPUSet.of(0, 1))
    await engine.update(one, Update(cpus=CPUSet.of(3)))
    view = await engine.inspect(one)
    assert view.cpuset == "3"
    assert docker.kernel.effective_cpus(view) == CPUSet.of(0, 1)


@pytest.mark.trio
async def test_a_later_docker_believes_what_it_saw_at_its_start(autojump_clock: MockClock) -> None:
    """A CPU that came later is refused until the engine is started again."""
    docker, engine = host(caches_cpus=True)
    docker.kernel.take_offline(ONE)
    await docker.go_down()
    await docker.come_up()
    docker.kernel.bring_online(ONE)
    docker.kernel.confine(FOUR)
    one = await docker.run("one")
    with pytest.raises(EngineRefused, match="available: 0,2-3"):
        await engine.update(one, Update(cpus=ONE))
    await docker.go_down()
    await docker.come_up()
    await docker.start(one)
    await engine.update(one, Update(cpus=ONE))
    assert docker.effective(one) == ONE


@pytest.mark.trio
async def test_the_same_chance_makes_the_same_host(autojump_clock: MockClock) -> None:
    """Ids of 64 hexadecimal digits, from the given chance alone."""
    first, second = host()[0], host()[0]
    ids = [await docker.create(name) for docker in (first, second) for name in ("a", "b")]
    assert ids[:2] == ids[2:]
    assert all(len(id) == 64 and int(id, 16) for id in ids)


@pytest.mark.trio
async def test_a_signal_makes_the_engine_forget_the_restart_policy(autojump_clock: MockClock) -> None:
    """Measured on a real one (why the adapter sends none): only a stop signal of its own prevents it."""
    docker, _ = host()
    for stop_signal, phase in (("", Phase.EXITED), ("HUP", Phase.EXITED), ("TERM", Phase.RUNNING)):
        one = await docker.create(f"one{stop_signal}", restarts_always=True, stop_signal=stop_signal)
        await docker.start(one)
        await docker.send_signal(one, "HUP")
        await docker.exit(one)
        assert docker.container(one).phase is phase
