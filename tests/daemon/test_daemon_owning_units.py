"""Services with CPUs of their own beside containers: the whole daemon on the simulated engine, and a played systemd."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sidecar.decide.settings import Rule
from sidecar.engines.host_tenants import HostedEngine
from sidecar.status.document import SharingStatus
from sidecar.status.status_file import read_status
from state.cpuset import CPUSet
from state.key import SYSTEMD, ContainerKey
from state.projection import Projection, Sharing, read
from tests.support.daemon.host import Host
from tests.support.daemon.services import ServedKernel, Service, Services

ALL = CPUSet.parse("0-7")
TWO = {"cpuset.exclusive": "2"}
DB = "postgresql@14-main.service"

pytestmark = pytest.mark.trio


@pytest.fixture
def services() -> Services:
    made = Services(ALL)
    made.by_name["ssh.service"] = Service()
    return made


@pytest.fixture
def hosted(make_host: Any, services: Services) -> Host:
    made: Host = make_host(reconcile_seconds=5.0, host_units="auto", linger_seconds=3.0)
    made.hosted = HostedEngine(made.engine, services), ServedKernel(made.docker.kernel, services)
    return made


def told(host: Host, name: str = DB) -> Projection | None:
    at = Path(host.config.projections) / "by-unit" / name
    return read(str(at)) if at.is_dir() else None


def is_alone(host: Host, name: str = DB) -> bool:
    found = told(host, name)
    return found is not None and found.alone and found.sharing is Sharing.EXCLUSIVE


async def test_a_service_has_cpus_of_its_own_as_a_container_has(
    autojump_clock: MockClock, hosted: Host, services: Services
) -> None:
    """None of the others may run there, its directory tells so, and its row, and a release gives back what it had."""
    services.by_name[DB] = Service(labels=TWO)
    async with hosted.running():
        owner = await hosted.docker.run("owner", labels=TWO)
        await hosted.until(lambda: is_alone(hosted) and (found := hosted.told(owner)) is not None and found.alone)
        own, others = services.where(DB), CPUSet.parse(hosted.where(owner))
        assert len(own) == len(others) == 2
        assert own.isdisjoint(others)
        assert services.where("ssh.service") == ALL - own - others
        found = told(hosted)
        assert found is not None
        assert (found.cpus, found.name, found.settled) == (own, DB, True)
        await hosted.until(lambda: read_status(hosted.config.state_dir).exclusive == own | others)
        await hosted.until(lambda: all(each.is_settled for each in read_status(hosted.config.state_dir).units))
        status = read_status(hosted.config.state_dir)
        rows = {each.name: each for each in status.units}
        assert (rows[DB].sharing, rows[DB].granted, rows[DB].is_alone) == (SharingStatus.EXCLUSIVE, own, True)
        assert status.problems == ()
        assert status.host is not None
        assert "1 unit of the host is confined" in status.host.text
        assert [each.name for each in status.containers] == ["owner"]
    assert services.where(DB) == own, "a stop changes nothing"
    assert await hosted.serve(is_release=True) == 0
    assert services.where(DB) == services.where("ssh.service") == ALL
    assert told(hosted) is None or not is_alone(hosted)
    assert hosted.broken == []


async def test_a_restart_keeps_its_cpus_and_a_stop_ends_its_grant_after_a_while(
    autojump_clock: MockClock, hosted: Host, services: Services
) -> None:
    """As of a container: what comes back within `linger` has the same CPUs."""
    service = services.by_name[DB] = Service(labels=TWO)
    async with hosted.running():
        await hosted.until(lambda: is_alone(hosted))
        own, engine = services.where(DB), hosted.hosted[0] if hosted.hosted else None
        assert isinstance(engine, HostedEngine)
        service.runs = False
        await trio.sleep(1)
        service.runs, service.run = True, 2
        await trio.sleep(6)
        await hosted.until(lambda: is_alone(hosted))
        assert services.where(DB) == own
        service.runs = False
        await hosted.until(lambda: not hosted.books().assignments)
        await hosted.until(lambda: services.where(DB) == services.where("ssh.service") == ALL)
        service.runs, service.run = True, 3
        await hosted.until(lambda: is_alone(hosted))


async def test_a_service_that_is_about_to_start_has_its_cpus_before(
    autojump_clock: MockClock, hosted: Host, services: Services
) -> None:
    async with hosted.running():
        services.by_name[DB] = Service(labels=TWO, runs=False, run=0, is_coming=True)
        await hosted.until(lambda: len(services.where(DB)) == 2)
        service = services.by_name[DB]
        service.runs, service.run = True, 1
        await hosted.until(lambda: is_alone(hosted))
        assert [cpus for name, cpus in services.orders if name == DB] == [str(services.where(DB))]


async def test_a_daemon_that_was_killed_finds_its_owners_and_a_silent_systemd_ends_no_grant(
    autojump_clock: MockClock, hosted: Host, services: Services
) -> None:
    """Which units ask is not known then: none of them is looked at, and the books keep their CPUs for them."""
    services.by_name[DB] = Service(labels=TWO)
    with trio.CancelScope() as life:
        async with hosted.running():
            await hosted.until(lambda: is_alone(hosted))
            own = services.where(DB)
            life.cancel()
    services.is_silent = True
    hosted.hosted = HostedEngine(hosted.engine, services), ServedKernel(hosted.docker.kernel, services)
    async with hosted.running():
        owner = await hosted.docker.run("owner", labels={"cpuset.exclusive": "6"})
        await hosted.until(lambda: hosted.told(owner) is not None)
        await trio.sleep(20)
        found = hosted.told(owner)
        assert found is not None
        assert found.sharing is Sharing.SHARED, "six CPUs are not free"
        small = await hosted.docker.run("small", labels=TWO)
        await hosted.until(lambda: (now := hosted.told(small)) is not None and now.settled)
        await trio.sleep(10)
        found = hosted.told(small)
        assert found is not None
        assert not found.alone, "services may be there that nobody has told of"
        assert "systemd does not answer" in found.reason
        assert ContainerKey(SYSTEMD, DB) in hosted.books().assignments
        assert services.where(DB) == own
        services.is_silent = False
        await hosted.until(lambda: is_alone(hosted) and (now := hosted.told(small)) is not None and now.alone)
        assert services.where(DB) == own


async def test_a_rule_of_the_configuration_is_as_good_as_a_drop_in(
    autojump_clock: MockClock, make_host: Any, services: Services
) -> None:
    """It is for units alone, and rules without `unit` are for containers alone."""
    rules = (
        Rule(name="*", labels={"cpuset.exclusive": "3"}, place="here"),
        Rule(unit="postgresql@*", labels=TWO, place="there"),
    )
    services.by_name[DB] = Service()
    host: Host = make_host(reconcile_seconds=5.0, host_units="auto", rules=rules)
    host.hosted = HostedEngine(host.engine, services), ServedKernel(host.docker.kernel, services)
    async with host.running():
        await host.until(lambda: is_alone(host))
        assert len(services.where(DB)) == 2
        assert len(services.where("ssh.service")) == 6
        [row] = [each for each in read_status(host.config.state_dir).units if each.name == DB]
        assert "Its labels are completed by a rule of the configuration: there." in row.explanation


async def test_one_that_asks_no_more_is_confined_like_others_and_its_directory_goes(
    autojump_clock: MockClock, hosted: Host, services: Services
) -> None:
    services.by_name[DB] = Service(labels=TWO)
    async with hosted.running():
        await hosted.until(lambda: is_alone(hosted))
        services.by_name[DB].labels = {}
        await hosted.until(lambda: told(hosted) is None)
        await hosted.until(lambda: services.where(DB) == ALL)
        journal = Path(hosted.config.state_dir) / "journal.jsonl"
        assert json.loads(journal.read_text().splitlines()[0])
