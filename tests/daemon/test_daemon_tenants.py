"""What a tenant names, labels or pins costs no owner its CPUs: the whole daemon on the simulated engine."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sidecar.config.config import load_over
from sidecar.decide.settings import PolicyName
from sidecar.simulation.model_limits import Limits
from sidecar.status.document import ContainerStatus
from sidecar.status.status_file import read_status
from state.cpuset import CPUSet
from state.projection import Projection, read
from tests.support.daemon.host import Host

ONE = {"cpuset.exclusive": "1"}
TWO = {"cpuset.exclusive": "2"}
VOICE = {"cpuset.projection": "voice"}

pytestmark = pytest.mark.trio


def where(host: Host, *containers: str) -> list[CPUSet]:
    """Return where the kernel lets these containers run."""
    return [CPUSet.parse(host.where(each)) for each in containers]


def status_of(host: Host, name: str) -> ContainerStatus:
    [found] = [each for each in read_status(host.config.state_dir).containers if each.name == name]
    return found


def at_the_top(host: Host) -> Projection | None:
    """Return what the directory of the name tells."""
    return read(host.path / "cpus" / "by-name" / "voice")


async def test_one_that_is_renamed_stays_among_the_managed(autojump_clock: MockClock, make_host: Any) -> None:
    """It leaves its own CPUs before another container is told that it has them alone, also after a restart."""
    host = make_host(unmanaged=("db-*",))
    async with host.running():
        evil = await host.docker.run("evil", labels=TWO)
        await host.settled(evil)
        held = where(host, evil)[0]
        await host.docker.rename(evil, "db-1")
        victim = await host.docker.run("victim", labels={"cpuset.exclusive": "6"})
        await host.settled(victim)
        assert held & where(host, victim)[0]
        assert where(host, evil)[0].isdisjoint(where(host, victim)[0])
    async with host.running():
        await host.settled(victim)
        assert where(host, evil)[0].isdisjoint(where(host, victim)[0])
        await host.docker.stop(evil)
        await host.until(lambda: host.configured(evil) == "0-7")
        await host.until(lambda: status_of(host, "db-1").sharing == "unmanaged")
    assert host.broken == []


async def test_a_label_takes_over_no_projection_of_another(autojump_clock: MockClock, make_host: Any) -> None:
    """Whatever its id, before and after a restart of the sidecar; and the later claim is a problem."""
    host = make_host()
    async with host.running():
        victim = await host.docker.run("victim", labels={**ONE, **VOICE})
        await host.settled(victim)
        for number in range(40):
            await host.docker.create(f"evil{number}", labels=VOICE)
        await trio.sleep(5)
        assert min(host.docker.ids()) != victim
        assert at_the_top(host) == host.told(victim)
        [said] = [each for each in read_status(host.config.state_dir).problems if "by-name/voice" in each]
        assert "belongs to victim" in said
        assert "35 more must choose another name" in said
    async with host.running():
        await trio.sleep(5)
        assert at_the_top(host) == host.told(victim)


async def test_replicas_of_one_service_are_no_problem(autojump_clock: MockClock, make_host: Any) -> None:
    """They share a name on purpose."""
    service = {"com.docker.compose.project": "shop", "com.docker.compose.service": "web"}
    host = make_host()
    async with host.running():
        for number in ("1", "2"):
            labels = {**VOICE, **service, "com.docker.compose.container-number": number}
            await host.docker.run(f"web{number}", labels=labels)
        await trio.sleep(5)
        assert read_status(host.config.state_dir).problems == ()


async def test_opting_out_needs_the_right(autojump_clock: MockClock, make_host: Any) -> None:
    """Without it the container runs in the shared pool, with a warning; with it no owner is called alone."""
    host = make_host()
    async with host.running():
        owner = await host.docker.run("owner", labels=TWO)
        evil = await host.docker.run("evil", labels={"cpuset.manage": "off"})
        await host.settled(owner)
        await host.until(lambda: where(host, evil)[0].isdisjoint(where(host, owner)[0]))
        await host.until(lambda: host.told(owner).alone)
        await trio.sleep(5)
        assert any("opt-out" in each for each in status_of(host, "evil").warnings)
    host.config = load_over(host.config, {"tenants_may": "opt-out"})
    async with host.running():
        free = await host.docker.run("free", labels={"cpuset.manage": "off"})
        await trio.sleep(5)
        assert where(host, owner)[0] <= where(host, free)[0]
        assert not host.told(owner).alone


async def test_a_pin_takes_no_cpu_from_an_owner(autojump_clock: MockClock, make_host: Any) -> None:
    """Without the right: it has the others of its CPUs, and goes back when the owner is gone. What was created with a
    pin, and never ran, keeps no CPU from a request.
    """
    host = make_host()
    async with host.running():
        owner = await host.docker.run("owner", labels=TWO)
        await host.settled(owner)
        assert host.where(owner) == "1-2"
        evil = await host.docker.run("evil", Limits(cpuset="1-4"))
        await host.until(lambda: host.where(evil) == "3-4")
        await host.until(lambda: host.told(owner).alone)
        await host.docker.create("idle", Limits(cpuset="5-7"))
        third = await host.docker.run("third", labels={"cpuset.exclusive": "3"})
        await host.settled(third)
        assert host.where(third) == "5-7"
        await host.docker.stop(owner)
        await host.until(lambda: host.where(evil) == "1-4")
    assert host.broken == []


async def test_a_start_says_once_who_is_placed_for_want_of_a_right(autojump_clock: MockClock, make_host: Any) -> None:
    """As after an upgrade: the containers are there already."""
    host = make_host()
    for number in range(7):
        await host.docker.run(f"out-{number}", labels={"cpuset.manage": "off"})
    await host.docker.run("pinned", Limits(cpuset="1-4"))
    async with host.running():
        await trio.sleep(60)
    [said] = [each for each in host.lines.getvalue().splitlines() if "rights that tenants do not have" in each]
    assert "warning" in said
    assert "(opt-out: out-0, out-1, out-2, out-3, out-4 and 2 more; pin: pinned)" in said
    host.config = load_over(host.config, {"tenants_may": "opt-out,pin"})
    async with host.running():
        await trio.sleep(60)
    assert host.lines.getvalue().count("rights that tenants do not have") == 1


async def test_a_label_lifts_no_limit_beyond_what_it_pays_for(autojump_clock: MockClock, make_host: Any) -> None:
    """Under `dynamic`, a container with a limit of one CPU is granted one, whatever `cpuset.max` says."""
    greedy = {**ONE, "cpuset.max": "9999"}
    host = make_host(policy=PolicyName.DYNAMIC)
    async with host.running():
        evil = await host.docker.run("evil", Limits(nano_cpus=10**9), labels=greedy)
        await host.settled(evil)
        await trio.sleep(30)
        assert len(where(host, evil)[0]) == 1
        assert any("lift-quota" in each for each in status_of(host, "evil").warnings)
        kept = await host.docker.run("kept", Limits(nano_cpus=10**9), labels={**greedy, "cpuset.quota": "keep"})
        await host.until(lambda: len(where(host, kept)[0]) > 1)
