"""An engine with the units of its host: each is one container more, and never asks for CPUs."""

from __future__ import annotations

import msgspec
import pytest

from sidecar.decide.container.container import Standing
from sidecar.decide.container.originals import originals_of
from sidecar.decide.container.wish import wish_of
from sidecar.decide.facts import ContainerView, EngineInfo, Phase, ViewKind
from sidecar.decide.orders import Update
from sidecar.engines.host_tenants import HostedEngine, unit_id
from sidecar.failures import ContainerGone, EngineRefused
from state.cpuset import CPUSet
from tests.support.decide.stories import static

ALL = CPUSet.parse("0-3")


class Units:
    """Three units: one that runs, one that rests with CPUs, one that is gone."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[str, str] | None] = {
            "ssh.service": ("/system.slice/ssh.service", ""),
            "cron.service": ("", "0-2"),
            "gone.service": None,
        }
        self.confined: list[tuple[str, CPUSet]] = []

    def all(self) -> tuple[str, ...]:
        return tuple(self.found)

    def tell(self, name: str) -> bool:
        return name not in self.found

    async def look(self, name: str) -> tuple[str, str] | None:
        return self.found.get(name)

    async def confine(self, name: str, cpus: CPUSet) -> None:
        self.confined.append((name, cpus))


class Containers:
    """An engine with one container."""

    name = "engine"

    def __init__(self) -> None:
        self.updated: list[str] = []

    async def info(self) -> EngineInfo:
        raise AssertionError("its name is known")

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
    return HostedEngine(Containers(), units)  # type: ignore[arg-type]


@pytest.mark.trio
async def test_a_unit_is_looked_at_as_a_container_is(engine: HostedEngine) -> None:
    """One that rests may start at any moment, on what is set for it; one that is gone is gone."""
    ids = await engine.containers()
    assert ids == (*(unit_id(name) for name in ("ssh.service", "cron.service", "gone.service")), "c" * 64)
    runs, rests = await engine.inspect(ids[0]), await engine.glance(ids[1])
    assert (runs.kind, runs.name, runs.phase, runs.cpuset) == (ViewKind.UNIT, "ssh.service", Phase.RUNNING, "")
    assert (rests.phase, rests.cpuset, rests.is_glance) == (Phase.CREATED, "0-2", False)
    with pytest.raises(ContainerGone, match=r"gone\.service"):
        await engine.inspect(ids[2])
    assert (await engine.inspect(ids[3])).name == "web"


@pytest.mark.trio
async def test_an_order_to_a_unit_goes_to_systemd(engine: HostedEngine, units: Units) -> None:
    """CPUs alone: it has no limits, and is never stopped or signalled."""
    ids = await engine.containers()
    await engine.update(ids[0], Update(cpus=CPUSet.parse("0-2")))
    assert units.confined == [("ssh.service", CPUSet.parse("0-2"))]
    with pytest.raises(EngineRefused, match="no limits"):
        await engine.update(ids[0], Update(cpus=ALL, cpu_quota=-1))
    for act in (engine.stop(ids[0]), engine.signal(ids[0], "HUP")):
        with pytest.raises(EngineRefused, match=r"ssh\.service is a unit of the host"):
            await act
    await engine.update(ids[3], Update(cpus=ALL))
    assert units.confined == [("ssh.service", CPUSet.parse("0-2"))]


@pytest.mark.trio
async def test_a_unit_that_was_told_of_can_be_looked_at(engine: HostedEngine, units: Units) -> None:
    units.found["new.service"] = ("", "")
    view = await engine.inspect(engine.hinted("new.service"))
    assert (view.name, view.phase, view.started_at) == ("new.service", Phase.CREATED, "")


@pytest.mark.trio
@pytest.mark.parametrize(
    ("cpus", "standing"), [("", Standing.MANAGED), ("1", Standing.STRANGER), ("0-3", Standing.MANAGED)]
)
async def test_what_people_confined_themselves_is_pinned(engine: HostedEngine, cpus: str, standing: Standing) -> None:
    """Whatever tenants may: a unit is the host's. It never asks for CPUs."""
    view = msgspec.structs.replace(await engine.inspect((await engine.containers())[0]), cpuset=cpus)
    wish = wish_of(view, static(may=()), originals_of(view), ALL)
    assert (wish.standing, wish.demand) == (standing, None)
