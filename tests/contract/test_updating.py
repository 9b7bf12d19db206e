"""What an update does: in each phase, when it is refused, and to the CPU quota."""

from __future__ import annotations

import pytest
import trio

from sidecar.decide.orders import Update
from sidecar.failures import ContainerGone, EngineRefused
from sidecar.simulation.model_limits import Limits
from state.cpuset import CPUSet
from tests.contract.conftest import OpenWorld
from tests.contract.worlds import World
from tests.live.waiting import PATIENCE

FIRST, SECOND, BOTH = CPUSet.of(0), CPUSet.of(1), CPUSet.of(0, 1)
NANO = 1_000_000_000
NOBODY = "f" * 64


def onto(cpus: CPUSet, **rest: int) -> Update:
    return Update(cpus=cpus, nano_cpus=rest.get("nano"), cpu_quota=rest.get("quota"))


async def runs_on(world: World, container: str, written: CPUSet) -> None:
    """Check that it runs on these CPUs; where updates are not kept, on all CPUs again, and its view agrees."""
    if world.traits.keeps_updates:
        assert await world.running_on(container) == written
        return
    assert await world.running_on(container) == world.cpus
    assert (await world.engine.inspect(container)).cpuset == ""


@pytest.mark.trio
async def test_a_created_container_starts_where_it_was_written(open_world: OpenWorld) -> None:
    """A write of configuration, in force at the first instruction."""
    async with open_world() as world:
        one = await world.create("one", Limits(), labels={})
        await world.engine.update(one, onto(SECOND))
        assert (await world.engine.inspect(one)).cpuset == "1"
        await world.act(one, "start")
        await runs_on(world, one, SECOND)


@pytest.mark.trio
async def test_a_running_container_moves_at_once(open_world: OpenWorld) -> None:
    """When the call returns the kernel shows it, and a restart keeps it."""
    async with open_world() as world:
        one = await world.create("one", Limits(), labels={})
        await world.act(one, "start")
        assert await world.running_on(one) == world.cpus
        await world.engine.update(one, onto(FIRST))
        assert await world.running_on(one) == FIRST
        await world.act(one, "restart")
        await runs_on(world, one, FIRST)


@pytest.mark.trio
async def test_an_update_during_a_start_is_never_lost(open_world: OpenWorld) -> None:
    """Both want the container's lock: in either order, the container ends up on the CPUs of the update."""
    async with open_world() as world:
        one = await world.create("one", Limits(), labels={})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.act, one, "start")
            nursery.start_soon(world.engine.update, one, onto(SECOND))
        found = (await world.running_on(one), (await world.engine.inspect(one)).cpuset)
        # Where updates are not kept, one that came first is forgotten, and the view says so.
        assert found == (SECOND, "1") or (found == (world.cpus, "") and not world.traits.keeps_updates)


@pytest.mark.trio
async def test_paused_and_exited_containers_are_updated_too(open_world: OpenWorld) -> None:
    """A frozen one moves; an exited one is written for its next start."""
    async with open_world() as world:
        one = await world.create("one", Limits(), labels={})
        await world.act(one, "start")
        await world.act(one, "pause")
        await world.engine.update(one, onto(FIRST))
        assert await world.running_on(one) == FIRST
        await world.act(one, "unpause")
        await world.act(one, "kill")
        await world.engine.update(one, onto(SECOND))
        assert (await world.engine.inspect(one)).cpuset == "1"
        await world.act(one, "start")
        await runs_on(world, one, SECOND)


@pytest.mark.trio
async def test_a_container_that_removes_itself_is_updated(open_world: OpenWorld) -> None:
    """--rm makes no difference while it runs."""
    async with open_world() as world:
        one = await world.create("one", Limits(), labels={}, removes_itself=True)
        await world.act(one, "start")
        await world.engine.update(one, onto(SECOND))
        assert await world.running_on(one) == SECOND


@pytest.mark.trio
async def test_our_own_update_comes_back_as_an_event(open_world: OpenWorld) -> None:
    """So a reader of events must compare, not react. Where there is no event, later ones arrive all the same."""
    async with open_world() as world, world.engine.events() as stream:
        one = await world.create("one", Limits(), labels={})
        await world.engine.update(one, onto(FIRST))
        await world.act(one, "start")
        seen = set()
        with trio.fail_after(20 * PATIENCE):
            while (event := await anext(stream)).action != "start" or event.container != one:
                seen.add(event.action if event.container == one else "")
        assert ("update" in seen) == world.traits.tells_updates


@pytest.mark.trio
async def test_cpus_that_are_not_there_are_refused(open_world: OpenWorld) -> None:
    """400, with the engine's message, and nothing changed."""
    async with open_world() as world:
        one = await world.create("one", Limits(cpuset="0"), labels={})
        absent = f"Requested CPUs are not available - requested 4000, available: {world.cpus}"
        with pytest.raises(EngineRefused, match=absent):
            await world.engine.update(one, onto(CPUSet.of(4000)))
        with pytest.raises(EngineRefused, match="Requested memory nodes are not available - requested 99"):
            await world.engine.update(one, Update(cpus=FIRST, mems="99"))
        assert (await world.engine.inspect(one)).cpuset == "0"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (Limits(cpuset="abc"), "Invalid value abc for cpuset cpus: invalid format: abc"),
        (Limits(cpuset="99999"), "Invalid value 99999 for cpuset cpus: value of out range, maximum is 8192"),
        (Limits(nano_cpus=-1), "Range of CPUs is from 0.01 to {ncpu}.00, as there are only {ncpu} CPUs available"),
        (Limits(nano_cpus=8193 * NANO), "Range of CPUs is from 0.01 to {ncpu}.00"),
        (Limits(cpu_quota=500), "CPU cfs quota can not be less than 1ms"),
        (Limits(cpu_period=500), "CPU cfs period can not be less than 1ms"),
    ],
)
@pytest.mark.trio
async def test_nonsense_is_refused_in_these_words(checking_world: OpenWorld, change: Limits, text: str) -> None:
    """The simulated engine's messages are the real one's, so tests show what people will read."""
    async with checking_world() as world:
        one = await world.create("one", Limits(), labels={})
        with pytest.raises(EngineRefused) as caught:
            await world.change(one, change)
    assert text.format(ncpu=len(world.cpus)) in str(caught.value)


@pytest.mark.trio
async def test_an_unknown_container_cannot_be_updated(open_world: OpenWorld) -> None:
    """ContainerGone, distinct from a missing route."""
    async with open_world() as world:
        with pytest.raises(ContainerGone, match=r"(?i)no such container"):
            await world.engine.update(NOBODY, onto(FIRST))


@pytest.mark.trio
async def test_empty_and_zero_change_nothing(open_world: OpenWorld) -> None:
    """So a cpuset can never be cleared, and what is written stays unchanged."""
    async with open_world() as world:
        one = await world.create("one", Limits(cpuset="0,0,0", nano_cpus=NANO), labels={})
        if not world.traits.keeps_updates:
            await world.act(one, "start")  # It cannot be updated earlier.
        await world.change(one, Limits(mems=""))
        view = await world.engine.inspect(one)
    assert (view.cpuset, view.nano_cpus) == ("0,0,0", NANO)


@pytest.mark.trio
async def test_a_limit_by_cpus_is_lifted_and_put_back_by_cpus(open_world: OpenWorld) -> None:
    """`NanoCpus` of the whole machine, then the original: both ways hold over a restart."""
    async with open_world() as world:
        one = await world.create("one", Limits(nano_cpus=NANO), labels={})
        await world.act(one, "start")
        assert await world.quota(one) == 1.0
        await world.engine.update(one, onto(FIRST, nano=len(world.cpus) * NANO))
        assert await world.quota(one) == len(world.cpus)
        await world.act(one, "restart")
        assert await world.quota(one) == (len(world.cpus) if world.traits.keeps_updates else 1.0)
        assert (await world.engine.inspect(one)).nano_cpus == NANO * round(await world.quota(one) or 0)
        await world.engine.update(one, onto(BOTH, nano=NANO))
        assert await world.quota(one) == 1.0
        await world.act(one, "restart")
        assert await world.quota(one) == 1.0


@pytest.mark.trio
async def test_a_limit_by_quota_is_lifted_and_put_back_by_quota(open_world: OpenWorld) -> None:
    """-1, then the original; the period stays. Podman's is reported in nano CPUs, and lifted to the whole machine."""
    async with open_world() as world:
        one = await world.create("one", Limits(cpu_quota=50_000, cpu_period=50_000), labels={})
        await world.act(one, "start")
        view = await world.engine.inspect(one)
        assert (view.cpu_quota, view.nano_cpus) == ((0, NANO) if world.traits.limits_one_way else (50_000, 0))
        lifted = len(world.cpus) if world.traits.limits_one_way else None
        await world.engine.update(one, onto(FIRST, quota=-1))
        assert await world.quota(one) == lifted
        await world.act(one, "restart")
        assert await world.quota(one) == (lifted if world.traits.keeps_updates else 1.0)
        await world.engine.update(one, onto(BOTH, quota=50_000))
        assert await world.quota(one) == 1.0
        await world.act(one, "restart")
        assert await world.quota(one) == 1.0


@pytest.mark.trio
async def test_minus_one_beside_cpus_is_a_ratchet(open_world: OpenWorld) -> None:
    """Why it is never used: the limit looks restored, and is gone again at the next start, for good."""
    async with open_world() as world:
        one = await world.create("one", Limits(nano_cpus=NANO), labels={})
        await world.act(one, "start")
        await world.engine.update(one, onto(FIRST, quota=-1))
        if world.traits.limits_one_way:
            assert await world.quota(one) == len(world.cpus)
            await world.engine.update(one, onto(FIRST, nano=NANO))
            await world.act(one, "restart")
            assert await world.quota(one) == 1.0
            return
        assert await world.quota(one) is None
        await world.engine.update(one, onto(FIRST, nano=NANO))
        assert await world.quota(one) == 1.0
        await world.act(one, "restart")
        assert await world.quota(one) is None
        with pytest.raises(EngineRefused, match="CPU Quota cannot be updated as NanoCPUs has already been set"):
            await world.engine.update(one, onto(FIRST, quota=100_000))


@pytest.mark.trio
async def test_two_ways_to_limit_do_not_meet(open_world: OpenWorld) -> None:
    """409 in each direction, and the cpuset in the same call is not applied either. Podman takes both."""
    async with open_world() as world:
        nano = await world.create("nano", Limits(nano_cpus=NANO), labels={})
        quota = await world.create("quota", Limits(cpu_quota=50_000), labels={})
        period = await world.create("period", Limits(cpu_quota=50_000, cpu_period=50_000), labels={})
        for one, update, text in (
            (nano, onto(FIRST, quota=50_000), "CPU Quota cannot be updated as NanoCPUs has already been set"),
            (quota, onto(FIRST, nano=NANO), "Nano CPUs cannot be updated as CPU Quota has already been set"),
            (period, onto(FIRST, nano=NANO), "Nano CPUs cannot be updated as CPU Period has already been set"),
        ):
            if world.traits.limits_one_way:
                await world.engine.update(one, update)
                assert (await world.engine.inspect(one)).cpuset == "0"
                continue
            with pytest.raises(EngineRefused, match=text):
                await world.engine.update(one, update)
            assert (await world.engine.inspect(one)).cpuset == ""
