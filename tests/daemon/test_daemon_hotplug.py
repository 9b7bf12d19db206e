"""CPUs that go and come under the whole daemon, in virtual time, by the rules of cgroup v1 and v2."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
import trio
from trio.testing import MockClock

from sidecar.status.status_file import read_status
from state.cpuset import CPUSet
from state.projection import Sharing
from state.refusal import RefusalCode
from state.topology import uniform
from tests.support.daemon.host import Host
from tests.support.keys import docker

TWO = {"cpuset.exclusive": "2"}
ONE = {"cpuset.exclusive": "1"}

pytestmark = [pytest.mark.trio, pytest.mark.parametrize("version", [1, 2])]

Version = Literal[1, 2]


@pytest.fixture
def make_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(version: Version, **options: Any) -> Host:
        # No inventory in the time of a story: only the watch can notice a change.
        return Host(tmp_path, monkeypatch, version=version, reconcile_seconds=3600.0, **options)

    return make


async def test_an_owner_gets_a_replacement_and_is_told(autojump_clock: MockClock, make_host: Any, version: Any) -> None:
    """One of two CPUs goes: it has two again, near its core, and its files say so; the pool is smaller."""
    host = make_host(version)
    plain = await host.docker.run("plain")
    async with host.running():
        rt = await host.docker.run("rt", labels=TWO)
        await host.settled(rt)
        assert (host.where(rt), host.where(plain)) == ("1-2", "0,3-7")
        host.docker.kernel.take_offline(CPUSet.of(2))
        await host.until(lambda: host.where(rt) == "1,3" and host.where(plain) == "0,4-7")
        await host.settled(rt)
        told = host.told(rt)
        assert (told.cpus, told.sharing, str(told.shared_pool)) == (CPUSet.of(1, 3), Sharing.EXCLUSIVE, "0,4-7")
        assert "CPUs went offline" in host.lines.getvalue()
    assert host.broken == []


async def test_an_owner_that_loses_its_last_cpu_is_alone_again(
    autojump_clock: MockClock, make_host: Any, version: Any
) -> None:
    """Its processes run on shared CPUs until it has a replacement: on v2 by the kernel's rule, on v1 because they fell
    into the group above, from where they return.
    """
    host = make_host(version)
    plain = await host.docker.run("plain")
    async with host.running():
        rt = await host.docker.run("rt", labels=ONE)
        await host.settled(rt)
        assert host.where(rt) == "1"
        began = trio.current_time()
        host.docker.kernel.take_offline(CPUSet.of(1))
        assert host.where(rt) == "0,2-7"
        await host.until(lambda: host.where(rt) == "2" and host.where(plain) == "0,3-7")
        assert trio.current_time() - began < 2.0
        await host.settled(rt)
        assert host.told(rt).cpus == CPUSet.of(2)
    assert host.broken == []
    assert ("its processes run on the CPUs of the cgroup above it" in host.lines.getvalue()) == (version == 1)


async def test_cpus_that_return_are_shared_again(autojump_clock: MockClock, make_host: Any, version: Any) -> None:
    """The pool grows, although on v1 the group above all containers had lost them for good."""
    host = make_host(version)
    plain = await host.docker.run("plain")
    async with host.running():
        rt = await host.docker.run("rt", labels=TWO)
        await host.settled(rt)
        host.docker.kernel.take_offline(CPUSet.of(2, 7))
        await host.until(lambda: host.where(rt) == "1,3" and host.where(plain) == "0,4-6")
        host.docker.kernel.bring_online(CPUSet.of(2, 7))
        await host.until(lambda: host.where(plain) == "0,2,4-7")
        assert host.where(rt) == "1,3"
        late = await host.docker.run("late", labels={"cpuset.exclusive": "4"})
        await host.settled(late)
    assert host.broken == []


async def test_cpus_that_went_and_came_back_between_two_looks(
    autojump_clock: MockClock, make_host: Any, version: Any
) -> None:
    """No look saw it. On v1 the group above lacks them: the first order that fails for that has it mended."""
    host = make_host(version)
    async with host.running():
        await trio.sleep(10.5)
        host.docker.kernel.take_offline(CPUSet.of(1, 2))
        host.docker.kernel.bring_online(CPUSet.of(1, 2))
        rt = await host.docker.run("rt", labels=TWO)
        await host.until(lambda: host.where(rt) == "1-2")
        await host.settled(rt)
    assert host.broken == []


async def test_a_machine_that_shrinks_below_what_was_granted(
    autojump_clock: MockClock, make_host: Any, version: Any
) -> None:
    """A container that no longer fits runs in the shared pool, with the reason; it is granted CPUs again when they
    return.
    """
    host = make_host(version, machine=uniform(cores=4))
    async with host.running():
        first = await host.docker.run("first", labels=TWO)
        second = await host.docker.run("second", labels={**ONE, "cpuset.on-shortage": "wait"})
        await host.settled(first, second)
        host.docker.kernel.take_offline(CPUSet.of(3))
        await host.until(lambda: (told := host.told(second)) and told.sharing is Sharing.SHARED)
        assert host.told(second).reason.startswith(
            "in the shared pool: it held CPU 3, and needs 1 exclusive CPU, 0 free"
        )
        await host.until(lambda: "second lost its exclusive CPUs" in host.lines.getvalue())
        await host.until(lambda: (host.where(first), host.where(second)) == ("1-2", "0"))
        host.docker.kernel.bring_online(CPUSet.of(3))
        await host.settled(second)
        assert host.where(second) == "3"
    assert host.broken == []


async def test_a_boot_with_fewer_cpus_than_the_checkpoint_knows(
    autojump_clock: MockClock, make_host: Any, version: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same State on a smaller machine: a container that fits keeps its CPUs or gets others, one that does not reads
    the reason, nothing is lost, and the host's log reports what changed.
    """
    host = make_host(version)
    async with host.running():
        first = await host.docker.run("first", labels=TWO)
        second = await host.docker.run("second", labels={"cpuset.exclusive": "4"})
        third = await host.docker.run("third")
        await host.settled(first, second)
        assert (host.where(first), host.where(second)) == ("1-2", "3-6")
    kernel = host.docker.kernel
    # Everything stopped with the host; it is back with half of its CPUs, and the engine starts containers by policy.
    for id in (first, second, third):
        await host.docker.stop(id)
    kernel.take_offline(CPUSet.parse("2,4-7"))
    kernel.mend(())
    async with host.running():
        await host.docker.start(third)
        await host.until(lambda: host.told(third) is not None)
        assert host.books().assignments[docker(first)].cpus == CPUSet.of(1, 3)
        await host.docker.start(first)
        await host.settled(first)
        assert (host.where(first), host.where(third)) == ("1,3", "0")
        await host.docker.start(second)
        await host.until(lambda: docker(second) in host.books().refusals)
        assert host.books().refusals[docker(second)].refusal.code is RefusalCode.CPUS_LOST
    assert "first moved from CPUs 1-2 to 1,3" in host.lines.getvalue()
    assert "second lost its exclusive CPUs" in host.lines.getvalue()
    assert host.broken == []


async def test_an_engine_that_knows_only_the_cpus_of_its_start(
    autojump_clock: MockClock, make_host: Any, version: Any
) -> None:
    """Docker 23 and later refuse CPUs that came later. The reason says so with the cure, and the cure works."""
    host = make_host(version)
    host.docker._caches_cpus = True
    host.docker.live_restore = True
    host.docker.kernel.take_offline(CPUSet.of(6, 7))
    await host.docker.go_down()
    await host.docker.come_up()
    plain = await host.docker.run("plain")
    async with host.running():
        # Beside it, so that it is confined: one without a cpuset of its own gets new CPUs from the kernel.
        await host.docker.run("rt", labels=ONE)
        await host.until(lambda: host.where(plain) == "0,2-5")
        host.docker.kernel.bring_online(CPUSet.of(6, 7))
        await host.until(lambda: "Requested CPUs are not available" in host.lines.getvalue())
        await host.until(lambda: "not available" in read_status(host.config.state_dir).containers[0].trouble)
        await host.docker.go_down()
        await host.docker.come_up()
        await host.until(lambda: host.where(plain) == "0,2-7")
    assert host.broken == []
