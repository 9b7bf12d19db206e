"""Units of the host beside containers: the whole daemon on the simulated engine, with played units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sidecar.engines.host_tenants import HostedEngine
from sidecar.failures import EngineFailed
from sidecar.host.units.host_parts import HostedKernel, HostParts
from sidecar.host_ports import UnitLook
from sidecar.status.document import ContainerStatus
from sidecar.status.status_file import read_status
from state.cpuset import CPUSet
from state.key import HOST, ContainerKey
from tests.support.daemon.host import Host

ALL = CPUSet.parse("0-7")
TWO = {"cpuset.exclusive": "2"}

pytestmark = pytest.mark.trio


class Part:
    """A unit that is where it was sent, but for what came since (`newcomers`)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cpus = ALL
        self.newcomers = False
        self.fails = 0

    def look(self) -> UnitLook:
        return UnitLook("", str(self.cpus) if self.cpus != ALL else "", runs=True)

    def effective(self) -> CPUSet:
        return ALL if self.newcomers else self.cpus

    def holes(self) -> Mapping[str, str]:
        return {"irq-threads": "follow their interrupts"}

    async def confine(self, cpus: CPUSet) -> None:
        await trio.sleep(0.05)
        if self.fails:
            self.fails -= 1
            raise EngineFailed("it is busy")
        self.cpus, self.newcomers = cpus, False


@pytest.fixture
def parts() -> tuple[Part, Part]:
    return Part("/agents"), Part("kernel-threads")


@pytest.fixture
def hosted(make_host: Any, parts: tuple[Part, Part]) -> Host:
    made: Host = make_host(reconcile_seconds=10.0, host_units="auto")
    those = HostParts(parts)
    made.hosted = HostedEngine(made.engine, those), HostedKernel(made.docker.kernel, those)
    return made


def unit(host: Host, name: str) -> ContainerStatus:
    [found] = [each for each in read_status(host.config.state_dir).units if each.name == name]
    return found


async def test_an_owner_is_alone_once_units_have_left_and_they_come_back_by_a_release(
    autojump_clock: MockClock, hosted: Host, parts: tuple[Part, Part]
) -> None:
    """No file is asked for on behalf of a unit, and nothing is reported but what is so."""
    async with hosted.running():
        owner = await hosted.docker.run("owner", labels=TWO)
        await hosted.until(lambda: (told := hosted.told(owner)) is not None and told.alone)
        own = CPUSet.parse(hosted.where(owner))
        assert len(own) == 2
        assert [each.effective() for each in parts] == [ALL - own] * 2
        await hosted.until(lambda: unit(hosted, "/agents").is_settled)
        assert read_status(hosted.config.state_dir).problems == ()
        names = ["owner"]
        await hosted.until(lambda: [each.name for each in read_status(hosted.config.state_dir).containers] == names)
    assert [each.effective() for each in parts] == [ALL - own] * 2, "as containers, units stay as they are"
    assert ContainerKey(HOST, "/agents") in hosted.books().originals
    assert await hosted.serve(is_release=True) == 0
    assert [each.effective() for each in parts] == [ALL] * 2
    assert "error" not in hosted.lines.getvalue().lower(), hosted.lines.getvalue()
    assert hosted.broken == []


async def test_what_comes_to_a_unit_is_moved_within_two_seconds(
    autojump_clock: MockClock, hosted: Host, parts: tuple[Part, Part]
) -> None:
    """Nothing tells of it; the owner is not told to be alone meanwhile."""
    async with hosted.running():
        owner = await hosted.docker.run("owner", labels=TWO)
        await hosted.until(lambda: (told := hosted.told(owner)) is not None and told.alone)
        parts[0].newcomers = True
        await hosted.until(lambda: (told := hosted.told(owner)) is not None and not told.alone, seconds=2)
        await hosted.until(lambda: not parts[0].newcomers, seconds=2)
        await hosted.until(lambda: (told := hosted.told(owner)) is not None and told.alone, seconds=2)


async def test_a_unit_that_fails_is_tried_again_and_named(
    autojump_clock: MockClock, hosted: Host, parts: tuple[Part, Part]
) -> None:
    """The log calls it a unit."""
    parts[0].fails = 1
    async with hosted.running():
        owner = await hosted.docker.run("owner", labels=TWO)
        await hosted.until(lambda: (told := hosted.told(owner)) is not None and told.alone)
    assert "unit=/agents" in hosted.lines.getvalue()
    assert "container=/agents" not in hosted.lines.getvalue()


async def test_a_daemon_that_was_killed_finds_units_as_they_are(
    autojump_clock: MockClock, hosted: Host, parts: tuple[Part, Part]
) -> None:
    """They are none that others confined: what they had is recorded before they are moved."""
    with trio.CancelScope() as life:
        async with hosted.running():
            owner = await hosted.docker.run("owner", labels=TWO)
            await hosted.until(lambda: any(each.cpus != ALL for each in parts))
            life.cancel()
    async with hosted.running():
        await hosted.until(lambda: (told := hosted.told(owner)) is not None and told.alone)
        assert unit(hosted, "/agents").sharing == "shared"
        await hosted.docker.remove(owner)
        await hosted.until(lambda: all(each.cpus == ALL for each in parts))
