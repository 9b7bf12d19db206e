"""The whole daemon with a shared group, in virtual time: one write moves all members, without further updates."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from sidecar.decide.facts import ContainerView
from sidecar.decide.settings import shared_id
from sidecar.engines.shared_group import SlicedEngine
from sidecar.status.status_file import read_status
from state.cpuset import EMPTY, CPUSet
from state.projection import Sharing
from state.topology import uniform
from tests.support.daemon.group import FakeGroup
from tests.support.daemon.host import Host, WatchedKernel
from tests.support.engine.simulated import SimulatedEngine
from tests.support.engine.simulated_kernel import SimulatedKernel

GROUP = shared_id(FakeGroup.name)
TWO = {"cpuset.exclusive": "2"}

pytestmark = pytest.mark.trio


class Pool(FakeGroup):
    """A group on a simulated host: all containers but those created apart are members, and the witness sees each
    write.
    """

    def __init__(self, host: SharedHost) -> None:
        super().__init__()
        self._host = host
        self.is_there = True

    def whereabouts(self, view: ContainerView) -> str:
        """Return where it runs; nowhere if it does not."""
        if SimulatedKernel.effective(self._host.docker.kernel, view.id) is None:
            return ""
        return "/apart/x" if view.id in self._host.apart else f"{self.path}/x"

    async def write(self, cpus: CPUSet) -> None:
        """Write with systemd's delay."""
        await trio.sleep(0.002)
        await super().write(cpus)
        self._host.see()


class GroupKernel(WatchedKernel):
    """cgroup v2, where members run on what they and the group have in common."""

    host: SharedHost

    def effective(self, container: str) -> CPUSet | None:
        """Compute as cpuset(7) says."""
        own = super().effective(container)
        if own is None or container in self.host.apart:
            return own
        shared = (self.host.pool.configured & self.online()) or self.online()
        return own & shared or shared

    def effective_cpus(self, view: ContainerView) -> CPUSet | None:
        """Return the effective CPUs, also of the group."""
        if view.id == GROUP:
            return (self.host.pool.configured & self.online()) or self.online()
        return self.effective(view.id)


class Parents(SimulatedEngine):
    """An engine that reports the cgroup parent of containers created apart."""

    host: SharedHost

    async def inspect(self, container: str) -> ContainerView:
        """Return the view with its cgroup parent."""
        view = await super().inspect(container)
        return msgspec.structs.replace(view, cgroup_parent="apart.slice") if container in self.host.apart else view


class SharedHost(Host):
    """A host with eight CPUs whose containers start in a group, unless they are created apart."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch, seed: int = 1) -> None:
        super().__init__(path, patch, version=2, seed=seed, shared_slice=FakeGroup.name)
        self.apart: set[str] = set()
        machine = uniform(cores=8)
        kernel = GroupKernel(machine, 2, self.see)
        kernel.host = self
        self.docker.kernel = kernel
        self.pool = Pool(self)
        self.inner = Parents(self.docker)
        self.inner.host = self
        self.engine = SlicedEngine(self.inner, self.pool)  # type: ignore[assignment]

    async def create_apart(self, name: str) -> str:
        """Create an exclusive container with a cgroup parent of its own, not started."""
        made = await self.docker.create(name, labels=TWO)
        self.apart.add(made)
        return made

    async def run_apart(self, name: str) -> str:
        """Create the same, and start it."""
        made = await self.create_apart(name)
        await self.docker.start(made)
        return made

    def written(self) -> set[str]:
        """Return the containers that the engine was ordered to update."""
        return {id for id, _ in self.inner.updates}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SharedHost:
    return SharedHost(tmp_path, monkeypatch)


async def test_one_write_moves_everybody(autojump_clock: MockClock, host: SharedHost) -> None:
    """Twenty members leave for an owner, each member's file says so, and none of them gets an order."""
    members = [await host.docker.run(f"member{n}") for n in range(20)]
    async with host.running():
        owner = await host.run_apart("owner")
        await host.settled(owner)
        assert {host.where(id) for id in members} == {"0,3-7"}
        assert host.where(owner) == "1-2"
        await host.until(lambda: all(host.file(id) == CPUSet.parse("0,3-7") for id in members))
        assert host.written() == {owner}
        assert [str(cpus) for cpus in host.pool.writes][-1] == "0,3-7"
        await host.until(lambda: read_status(host.path / "state").exclusive == CPUSet.of(1, 2))
        sharing = {each.id: each.sharing.value for each in read_status(host.path / "state").containers}
        assert sharing == {owner: "exclusive", GROUP: "shared"} | dict.fromkeys(members, "shared")
        writes = len(host.pool.writes)
        await host.docker.remove(owner)
        await host.until(lambda: {host.where(id) for id in members} == {"0-7"})
        assert len(host.pool.writes) == writes + 1
    assert host.broken == []


async def test_a_newcomer_is_never_outside_the_pool(autojump_clock: MockClock, host: SharedHost) -> None:
    """It starts in the group."""
    async with host.running():
        owner = await host.run_apart("owner")
        await host.settled(owner)
        late = await host.docker.run("late")
        assert host.where(late) == "0,3-7"
        await host.until(lambda: host.file(late) == CPUSet.parse("0,3-7"))
    assert host.written() == {owner}
    assert host.broken == []


async def test_a_label_inside_the_group_is_told_the_cure(autojump_clock: MockClock, host: SharedHost) -> None:
    """It stays in the pool, as a member."""
    async with host.running():
        inside = await host.docker.run("inside", labels=TWO)
        await host.until(lambda: (told := host.told(inside)) and "sidecar-exclusive.slice" in told.reason)
        told = host.told(inside)
        assert told is not None
        assert told.sharing is Sharing.SHARED
        assert host.written() == set()
    assert host.broken == []


async def test_one_that_was_glanced_at_first_is_refused_all_the_same(
    autojump_clock: MockClock, host: SharedHost
) -> None:
    """While a start holds its lock its cgroup is unknown: its grant is then released."""
    member = await host.docker.run("member")
    host.apart.add(inside := await host.docker.create("inside", labels=TWO))
    async with host.running():
        await host.until(lambda: host.books().assignments)
        host.apart.remove(inside)
        await host.docker.start(inside)
        await host.until(lambda: (told := host.told(inside)) and "sidecar-exclusive.slice" in told.reason)
        await trio.sleep(30)
        assert host.books().assignments == {}
        assert (host.where(member), host.where(inside)) == ("0-7", "0-7")


async def test_one_that_was_believed_inside_and_is_not_is_written(autojump_clock: MockClock, host: SharedHost) -> None:
    """dockerd was not restarted yet: the started container is seen outside, and is then like any other."""
    async with host.running():
        owner = await host.run_apart("owner")
        await host.settled(owner)
        outside = await host.docker.create("outside")
        await trio.sleep(1)
        assert host.written() == {owner}
        host.apart.add(outside)
        await host.docker.start(outside)
        await host.until(lambda: host.where(outside) == "0,3-7", seconds=1)
    assert host.written() == {owner, outside}


async def test_one_that_was_written_before_it_came_inside_is_written_on(
    autojump_clock: MockClock, host: SharedHost
) -> None:
    """An engine cannot clear a cpuset: the old pool in its cpuset would confine it indefinitely."""
    host.apart.add(old := await host.docker.run("old"))
    async with host.running():
        owner = await host.run_apart("owner")
        await host.settled(owner)
        await host.until(lambda: host.where(old) == "0,3-7")
        host.apart.remove(old)
        await host.docker.restart(old)
        await host.docker.remove(owner)
        await host.until(lambda: host.where(old) == "0-7")


async def test_what_another_tool_wrote_on_the_group_is_put_back(autojump_clock: MockClock, host: SharedHost) -> None:
    """With the next inventory."""
    member = await host.docker.run("member")
    async with host.running():
        owner = await host.run_apart("owner")
        await host.settled(owner)
        host.surprised.update((owner, member))
        host.pool.configured = CPUSet.parse("0-7")
        await host.until(lambda: host.where(member) == "0,3-7")


async def test_a_release_gives_the_group_all_cpus(autojump_clock: MockClock, host: SharedHost) -> None:
    """And members run on all CPUs."""
    member = await host.docker.run("member")
    async with host.running():
        await host.settled(await host.run_apart("owner"))
    assert await host.serve(is_release=True) == 0
    assert host.where(member) == "0-7"


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
async def test_in_a_churn_no_member_is_written_and_owners_are_alone(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Members and owners come, stop, start and go, and the daemon is restarted: the witness sees no owner disturbed,
    and at rest the group has all ungranted CPUs.
    """
    host, chance = SharedHost(tmp_path, monkeypatch, seed), Random(seed)
    for _ in range(2):
        async with host.running():
            for number in range(30):
                await _anything(host, chance, f"c{chance.random()}-{number}")
                await trio.sleep(chance.choice((0.0, 0.005, 0.2)))
            await trio.sleep(30)
            owners = [id for id in host.live() if id in host.apart and host.told(id)]
            exclusive = [id for id in owners if (told := host.told(id)) and told.sharing is Sharing.EXCLUSIVE]
            assert all(host.is_settled(id) for id in exclusive)
            taken = EMPTY
            for id in host.books().assignments:
                taken |= host.books().assignments[id].cpus
            assert host.pool.configured == CPUSet.parse("0-7") - taken
    assert host.written() <= host.apart
    assert host.broken == []


async def _anything(host: SharedHost, chance: Random, name: str) -> Any:
    ids = list(host.docker.ids())
    match chance.randrange(6):
        case 0:
            await host.docker.run(name)
        case 1 | 2:
            await host.run_apart(name)
        case 3 if ids:
            await host.docker.stop(chance.choice(ids))
        case 4 if ids:
            await host.docker.restart(chance.choice(ids))
        case 5 if ids:
            await host.docker.remove(chance.choice(ids))
        case _:
            await host.create_apart(name)
