"""An engine with the units of its host: each is one container more, and never asks for CPUs."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest
import trio

from sidecar.decide.container.container import Standing
from sidecar.decide.container.originals import originals_of
from sidecar.decide.container.wish import wish_of
from sidecar.decide.facts import ContainerView, EngineInfo, Phase, ViewKind
from sidecar.decide.orders import Update
from sidecar.engines.host_tenants import HostedEngine
from sidecar.failures import ContainerGone, EngineRefused, EngineUnavailable
from sidecar.host_ports import UnitLook
from sidecar.ports import Engine
from state.cpuset import CPUSet
from state.key import SYSTEMD, ContainerKey
from tests.support.decide.stories import static

ALL = CPUSet.parse("0-3")


class Units:
    """Three units: one that runs, one that rests with CPUs, one that is gone."""

    source = SYSTEMD

    def __init__(self) -> None:
        self.found: dict[str, UnitLook | None] = {
            "ssh.service": UnitLook("/system.slice/ssh.service", "", runs=True),
            "cron.service": UnitLook("", "0-2", runs=False),
            "gone.service": None,
        }
        self.confined: list[tuple[str, CPUSet]] = []
        self.is_silent = False
        self.acts: list[tuple[str, str]] = []

    async def meet(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.is_silent:
            raise EngineUnavailable("systemd does not answer")

    def all(self) -> tuple[str, ...]:
        return tuple(self.found)

    def tell(self, name: str) -> bool:
        return name not in self.found

    def changed(self, name: str, *, is_up: bool) -> bool:
        return name in self.found

    def reread(self) -> None:
        pass

    def rule(self, patterns: tuple[str, ...]) -> bool:
        return False

    def holes(self) -> dict[str, str]:
        return {"user@1000.service": "has containers below it"}

    async def look(self, name: str) -> UnitLook | None:
        return self.found.get(name)

    async def stop(self, name: str) -> None:
        self.acts.append(("stop", name))

    async def signal(self, name: str, signal: str) -> None:
        self.acts.append((signal, name))

    async def confine(self, name: str, cpus: CPUSet) -> None:
        self.confined.append((name, cpus))


class Containers:
    """An engine with one container."""

    name = "engine"

    def __init__(self) -> None:
        self.updated: list[str] = []

    async def info(self) -> EngineInfo:
        raise AssertionError("its name is known")

    async def ping(self) -> None:
        raise AssertionError("nothing asks for its pulse")

    async def containers(self) -> tuple[str, ...]:
        return ("c" * 64,)

    async def inspect(self, container: str) -> ContainerView:
        return ContainerView(engine=self.name, id=container, name="web", phase=Phase.RUNNING)

    glance = inspect

    async def update(self, container: str, update: Update) -> None:
        self.updated.append(container)

    async def stop(self, container: str) -> None:
        self.updated.append(container)


@pytest.fixture
def units() -> Units:
    return Units()


@pytest.fixture
def engine(units: Units) -> HostedEngine:
    return HostedEngine(cast("Engine", Containers()), units)


@pytest.mark.trio
async def test_a_unit_is_looked_at_as_a_container_is(engine: HostedEngine) -> None:
    """One that rests may start at any moment, on what is set for it; one that is gone is gone."""
    listed = await engine.containers()
    assert listed == ("systemd:ssh.service", "systemd:cron.service", "systemd:gone.service", "c" * 64)
    ids = [ContainerKey.listed(engine.name, each).id for each in listed]
    runs, rests = await engine.inspect(ids[0]), await engine.glance(ids[1])
    assert (runs.kind, runs.key, runs.phase, runs.cpuset) == (ViewKind.UNIT, listed[0], Phase.RUNNING, "")
    assert (runs.name, runs.key.short, runs.key.is_unit) == ("ssh.service", "ssh.service", True)
    assert engine.holes() == {"user@1000.service": "has containers below it"}
    assert (rests.phase, rests.cpuset, rests.is_glance) == (Phase.CREATED, "0-2", False)
    with pytest.raises(ContainerGone, match=r"gone\.service"):
        await engine.inspect(ids[2])
    assert (await engine.inspect(ids[3])).name == "web"


@pytest.mark.trio
async def test_an_order_to_a_unit_goes_to_systemd(engine: HostedEngine, units: Units) -> None:
    """CPUs, and what its labels ask for; it has no limits."""
    ids = [ContainerKey.listed(engine.name, each).id for each in await engine.containers()]
    await engine.update(ids[0], Update(cpus=CPUSet.parse("0-2")))
    assert units.confined == [("ssh.service", CPUSet.parse("0-2"))]
    with pytest.raises(EngineRefused, match="no limits"):
        await engine.update(ids[0], Update(cpus=ALL, cpu_quota=-1))
    await engine.stop(ids[0])
    await engine.signal(ids[0], "HUP")
    assert units.acts == [("stop", "ssh.service"), ("HUP", "ssh.service")]
    await engine.update(ids[3], Update(cpus=ALL))
    assert units.confined == [("ssh.service", CPUSet.parse("0-2"))]


@pytest.mark.trio
async def test_a_unit_that_was_told_of_can_be_looked_at(engine: HostedEngine, units: Units) -> None:
    units.found["new.service"] = UnitLook("", "", runs=False)
    view = await engine.inspect(engine.hinted(units, "new.service").id)
    assert (view.name, view.phase, view.started_at) == ("new.service", Phase.CREATED, "")


@pytest.mark.trio
@pytest.mark.parametrize(
    ("cpus", "standing"), [("", Standing.MANAGED), ("1", Standing.STRANGER), ("0-3", Standing.MANAGED)]
)
async def test_what_people_confined_themselves_is_pinned(engine: HostedEngine, cpus: str, standing: Standing) -> None:
    """Whatever tenants may: a unit is the host's. It never asks for CPUs."""
    await engine.containers()
    view = msgspec.structs.replace(await engine.inspect("ssh.service"), cpuset=cpus)
    wish = wish_of(view, static(may=()), originals_of(view), ALL)
    assert (wish.standing, wish.demand) == (standing, None)


@pytest.mark.trio
async def test_an_owner_is_a_container_with_labels(engine: HostedEngine, units: Units) -> None:
    """Each of its runs is told, and whether it is about to begin; what is for containers alone is said to be."""
    labels = {"cpuset.exclusive": "2", "cpuset.priority": "9", "cpuset.mems": "follow"}
    run = {"labels": labels, "asks": True, "started": "2026-01-01T00:00:00.5Z"}
    units.found["ssh.service"] = UnitLook("/system.slice/ssh.service", "", runs=True, **run)  # type: ignore[arg-type]
    units.found["cron.service"] = UnitLook("", "2-3", runs=False, is_coming=False, **run)  # type: ignore[arg-type]
    await engine.containers()
    view = await engine.inspect("ssh.service")
    assert (view.labels, view.phase, view.started_at) == (labels, Phase.RUNNING, "2026-01-01T00:00:00.5Z")
    wish = wish_of(view, static(may=()), originals_of(view), ALL)
    assert wish.demand is not None
    assert (wish.demand.cpus, wish.demand.priority) == (2, 9), "the owner of the host wrote its files"
    assert [each.label for each in wish.warnings] == ["cpuset.mems"]
    assert (await engine.inspect("cron.service")).phase is Phase.EXITED
    units.found["cron.service"] = UnitLook("", "2-3", runs=False, **run)  # type: ignore[arg-type]
    assert (await engine.inspect("cron.service")).phase is Phase.RESTARTING


@pytest.mark.trio
async def test_a_source_that_does_not_tell_which_units_ask_is_not_listed(engine: HostedEngine, units: Units) -> None:
    """And once it has, what it told counts while it is silent."""
    units.is_silent = True
    assert await engine.containers() == ("c" * 64,)
    assert list(engine.sources) == []
    units.is_silent = False
    assert len(await engine.containers()) == 4
    units.is_silent = True
    assert len(await engine.containers()) == 4
    assert list(engine.sources) == [SYSTEMD]
