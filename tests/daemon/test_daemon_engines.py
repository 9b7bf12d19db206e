"""A whole daemon with two engines on one kernel, in virtual time: one book, and a room for each."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sidecar.api.unix_socket import NAME
from sidecar.status.document import ContainerStatus
from sidecar.status.status_file import read_status
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.topology import uniform
from tests.daemon.test_daemon_api import ask
from tests.support.daemon.host import Host
from tests.support.daemon.second_engine import OTHER, SecondEngine
from tests.support.hand.kernel_hand import KernelHand

pytestmark = pytest.mark.trio

ONE, TWO = {"cpuset.exclusive": "1"}, {"cpuset.exclusive": "2"}


@pytest.fixture
def host(make_host: Any) -> Host:
    made: Host = make_host(reconcile_seconds=5.0)
    made.others = (SecondEngine(uniform(cores=8), made.docker.kernel),)
    return made


def second(host: Host) -> SecondEngine:
    (found,) = host.others
    assert isinstance(found, SecondEngine)
    return found


def runs_on(host: Host, container: str) -> CPUSet:
    found = host.docker.kernel.effective(container)
    assert found is not None
    return found


def shown(host: Host, name: str) -> ContainerStatus:
    return next(each for each in read_status(host.config.state_dir).containers if each.name == name)


def is_alone(host: Host, container: str) -> bool:
    told = host.told(container)
    return told is not None and told.alone


async def test_an_owner_of_one_engine_is_alone_among_all(autojump_clock: MockClock, host: Host) -> None:
    """Containers of both leave its CPUs, and two owners of two engines never meet."""
    others = second(host).docker
    async with host.running():
        plain, foreign = await host.docker.run("plain"), await others.run("foreign")
        owner, other = await host.docker.run("owner", labels=TWO), await others.run("other", labels=TWO)
        await host.until(lambda: is_alone(host, owner) and is_alone(host, other))
        mine, its = runs_on(host, owner), runs_on(host, other)
        assert (len(mine), len(its), mine & its) == (2, 2, CPUSet())
        await host.until(lambda: not runs_on(host, plain) & (mine | its) and not runs_on(host, foreign) & (mine | its))
        assert (shown(host, "owner").engine, shown(host, "other").engine) == (host.engine.name, OTHER)
        assert [each.is_ready for each in read_status(host.config.state_dir).engines] == [True, True]
    assert host.broken == []


async def test_the_death_of_one_engine_holds_up_nothing_of_the_other(autojump_clock: MockClock, host: Host) -> None:
    """Its owner keeps its CPUs, the other one's containers come and go as before, and are alone once it is back."""
    others = second(host).docker
    async with host.running():
        foreign, other = await others.run("foreign"), await others.run("other", labels=TWO)
        await host.until(lambda: is_alone(host, other))
        its = runs_on(host, other)
        second(host).is_silent = True
        others.break_connections()
        await trio.sleep(1)
        began = trio.current_time()
        owner = await host.docker.run("owner", labels=ONE)
        await host.until(lambda: len(runs_on(host, owner)) == 1)
        assert trio.current_time() - began < 1
        await trio.sleep(30)
        assert not is_alone(host, owner)
        assert runs_on(host, other) == its
        assert ContainerKey(OTHER, other) in host.books().assignments
        assert not runs_on(host, owner) & its
        second(host).is_silent = False
        await host.until(lambda: is_alone(host, owner) and is_alone(host, other))
        assert not runs_on(host, foreign) & (runs_on(host, owner) | its)
    assert host.broken == []


async def test_a_daemon_that_starts_without_one_engine_keeps_what_that_has(
    autojump_clock: MockClock, host: Host
) -> None:
    """Its grants are recorded, and none is handed on; the other engine is served at once."""
    others = second(host).docker
    async with host.running():
        other = await others.run("other", labels=TWO)
        await host.until(lambda: is_alone(host, other))
    its = runs_on(host, other)
    second(host).is_silent = True
    async with host.running():
        owner = await host.docker.run("owner", labels=ONE)
        await host.until(lambda: len(runs_on(host, owner)) == 1)
        await trio.sleep(20)
        assert host.books().assignments[ContainerKey(OTHER, other)].cpus == its
        assert not runs_on(host, owner) & its
        second(host).is_silent = False
        await host.until(lambda: is_alone(host, owner) and is_alone(host, other))
        assert runs_on(host, other) == its
    assert host.broken == []


async def test_a_release_restores_the_containers_of_both(autojump_clock: MockClock, host: Host) -> None:
    others = second(host).docker
    async with host.running():
        plain, foreign = await host.docker.run("plain"), await others.run("foreign")
        owner = await others.run("owner", labels=TWO)
        await host.until(lambda: is_alone(host, owner))
    assert await host.serve(is_release=True) == 0
    everywhere = CPUSet(range(8))
    assert [runs_on(host, each) for each in (plain, foreign, owner)] == [everywhere] * 3


async def test_the_hand_answers_births_of_both(autojump_clock: MockClock, make_host: Any) -> None:
    """And an owner stays alone while the other engine is away: no birth is unanswered."""
    host: Host = make_host(version=2, reconcile_seconds=5.0)
    host.others = (SecondEngine(uniform(cores=8), host.docker.kernel),)
    host.open_hand = partial(KernelHand, host.kernel)
    others = second(host).docker
    async with host.running():
        owner = await host.docker.run("owner", labels=TWO)
        await host.until(lambda: is_alone(host, owner))
        foreign = await others.run("foreign")
        assert not runs_on(host, foreign) & runs_on(host, owner)
        # A look shows where this engine puts its containers.
        await host.until(lambda: any(each.name == "foreign" for each in read_status(host.config.state_dir).containers))
        second(host).is_silent = True
        others.break_connections()
        await trio.sleep(5)
        assert is_alone(host, owner)
    assert host.broken == []


async def test_an_engine_that_is_away_and_was_never_seen_to_start_anything_leaves_nobody_alone(
    autojump_clock: MockClock, make_host: Any
) -> None:
    """It may put its containers where no birth is answered."""
    host: Host = make_host(version=2, reconcile_seconds=5.0)
    host.others = (SecondEngine(uniform(cores=8), host.docker.kernel),)
    host.open_hand = partial(KernelHand, host.kernel)
    async with host.running():
        owner = await host.docker.run("owner", labels=TWO)
        await host.until(lambda: is_alone(host, owner))
        second(host).is_silent = True
        second(host).docker.break_connections()
        await host.until(lambda: not is_alone(host, owner))
        second(host).is_silent = False
        await host.until(lambda: is_alone(host, owner))
    assert host.broken == []


async def test_a_strict_start_of_either_engine_is_answered_from_one_book(autojump_clock: MockClock, host: Host) -> None:
    """The runtime names no engine, and each container's lock is held meanwhile. The two get different CPUs."""
    others = second(host).docker
    async with host.running():
        await host.until((host.path / "state" / NAME).exists)
        mine, its = await host.docker.create("mine", labels=TWO), await others.create("its", labels=TWO)
        found = []
        for engine, id in ((host.docker, mine), (others, its)):
            async with engine.container(id).lock:
                with trio.fail_after(10):
                    code, answer = await ask(host, "POST", "/v1/starts", {"id": id})
                assert (code, answer["exclusive"]) == (200, True)
                found.append(CPUSet.parse(answer["update"]["cpus"]))
            await engine.start(id)
            await host.until(partial(is_alone, host, id))
            assert runs_on(host, id) == found[-1]
        assert found[0].isdisjoint(found[1])
        assert {key.engine for key in host.books().assignments} == {host.engine.name, OTHER}
    assert host.broken == []


async def test_the_rights_that_are_missing_are_said_again_once_the_last_engine_is_there(
    autojump_clock: MockClock, host: Host
) -> None:
    """The first to be ready begins; what the other one has is named as soon as it is known."""
    others = second(host).docker
    await host.docker.run("mine", labels={"cpuset.manage": "off"})
    await others.run("its", labels={"cpuset.manage": "off"})
    second(host).is_silent = True
    async with host.running():
        await trio.sleep(60)
        said = [each for each in host.lines.getvalue().splitlines() if "rights that tenants do not have" in each]
        assert ["(opt-out: mine)" in each for each in said] == [True]
        second(host).is_silent = False
        await trio.sleep(60)
    said = [each for each in host.lines.getvalue().splitlines() if "rights that tenants do not have" in each]
    assert ["(opt-out: its, mine)" in each for each in said] == [False, True]
    assert host.broken == []
