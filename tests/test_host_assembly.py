"""The units of the host around an engine, where they can be confined; and given back where that is over."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import cast

import pytest

from sidecar import host_assembly
from sidecar.commit.fallback_books import SparedCheckpoint
from sidecar.config.config import Config
from sidecar.engines.host_tenants import HostedEngine
from sidecar.failures import EngineLacks
from sidecar.host.cgroup.host_kernel import HostKernel
from sidecar.host.units.host_parts import HostedKernel
from sidecar.host_assembly import Hosted, given_back, is_hosts_root, with_host_units, with_unit_keys
from sidecar.host_ports import HostUnits, Kernel, UnitLook
from sidecar.log import Log
from sidecar.ports import Engine
from sidecar.words.units import HostConfinement
from state.cpuset import CPUSet
from state.key import HOST, SYSTEMD, ContainerKey
from state.model import Originals, State

ENGINE = cast("Engine", object())
KERNEL = cast("Kernel", object())


def hierarchy(tmp_path: Path, *, version: int) -> Path:
    cgroup = tmp_path / "cgroup"
    cgroup.mkdir()
    if version == 2:
        (cgroup / "cgroup.controllers").write_text("cpuset cpu\n")
        (cgroup / "cgroup.subtree_control").write_text("cpuset cpu\n")
    else:
        (cgroup / "cpuset" / "agents").mkdir(parents=True)
        for file in ("cpuset.cpus", "tasks"):
            (cgroup / "cpuset" / file).write_text("")
    return cgroup


@pytest.mark.parametrize(
    ("version", "has_bus", "why"),
    [(1, True, "on cgroup v1, name groups"), (2, False, "there is no systemd"), (2, True, "")],
    ids=["v1", "no bus", "systemd"],
)
def test_units_are_tenants_where_systemd_can_confine_them(
    tmp_path: Path, version: int, *, has_bus: bool, why: str
) -> None:
    """Elsewhere the engine is as it was, and log and status say why."""
    bus, out = tmp_path / "bus", io.StringIO()
    if has_bus:
        bus.touch()
    environ = {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={bus}"}
    config = Config(host_units="auto", cgroup=str(hierarchy(tmp_path, version=version)))
    found, _, told, _ = with_host_units(ENGINE, KERNEL, config, Log(out), environ)
    assert isinstance(found, HostedEngine) is not bool(why)
    assert (found is ENGINE) is bool(why)
    assert (why or "are kept off exclusive CPUs as well") in out.getvalue()
    assert told is not None
    assert (told.is_confining, why in told.why_not) == (not why, True)


@pytest.mark.parametrize(
    ("uid_map", "is_root"),
    [("         0          0 4294967295\n", True), ("         0     100000      65536\n", False)],
    ids=["the host's", "a user namespace's"],
)
def test_systemd_is_not_asked_by_root_of_a_user_namespace(tmp_path: Path, uid_map: str, *, is_root: bool) -> None:
    """As that of a rootless engine's container: it would refuse each order."""
    file = tmp_path / "uid_map"
    file.write_text(uid_map)
    assert is_hosts_root(str(file)) is (is_root and os.geteuid() == 0)


def test_nothing_is_said_where_they_are_not_to_be_confined(tmp_path: Path) -> None:
    out = io.StringIO()
    config = Config(host_units="off")
    assert with_host_units(ENGINE, KERNEL, config, Log(out)) == Hosted(ENGINE, KERNEL, None, config)
    assert not out.getvalue()


def test_without_systemd_what_the_configuration_names_is_confined(tmp_path: Path) -> None:
    """Groups, and the tasks of the root group; threads of the kernel only below the host's own root."""
    groups = ("/", "/agents", "/none")
    config = Config(host_units="auto", host_groups=groups, cgroup=str(hierarchy(tmp_path, version=1)))
    found, kernel, told, _ = with_host_units(ENGINE, KERNEL, config, Log(io.StringIO()))
    assert isinstance(found, HostedEngine)
    assert isinstance(kernel, HostedKernel)
    assert told == HostConfinement(is_confining=True)
    assert [(each.source, each.all()) for each in found.units] == [(HOST, ("root-group", "/agents"))]


SSH_BEFORE = "113c37b86c75a19ce936b1781683a5713c35513bdea279dfd8e2a6c8dbc4ee2a"
CRON_BEFORE = "f24f601001affa85f6a1402d767989586fd01c14a08c9d5f77205ba3f2d31f25"
"""The ids that units had when they were recorded as containers."""


class Units:
    """Units that are confined, one of which is gone."""

    source = SYSTEMD

    def __init__(self) -> None:
        self.confined: dict[str, str] = {}

    def all(self) -> tuple[str, ...]:
        return ("ssh.service", "cron.service")

    async def look(self, name: str) -> UnitLook | None:
        return None if name == "gone.service" else UnitLook(f"/system.slice/{name}", "0", runs=True)

    async def confine(self, name: str, cpus: CPUSet) -> None:
        self.confined[name] = str(cpus)


RECORDED = State(
    originals={
        ContainerKey("docker", "c" * 64): Originals(cpuset="1"),
        ContainerKey(SYSTEMD, "cron.service"): Originals(),
        ContainerKey(SYSTEMD, "ssh.service"): Originals(cpuset="0"),
        ContainerKey(SYSTEMD, "gone.service"): Originals(),
    }
)


@pytest.mark.trio
@pytest.mark.parametrize(
    ("config", "back"),
    [
        (Config(host_units="auto"), []),
        (Config(host_units="auto", leave=("ssh*",)), ["ssh.service"]),
        (Config(host_units="off"), ["cron.service", "ssh.service"]),
    ],
    ids=["auto", "left alone", "off"],
)
async def test_what_is_not_to_be_confined_any_more_is_given_back_at_the_start(
    monkeypatch: pytest.MonkeyPatch, config: Config, back: list[str]
) -> None:
    """To what it had before, all CPUs if that was nothing; what is gone is forgotten; containers stay recorded."""
    units = Units()
    monkeypatch.setattr(host_assembly, "sources", lambda *_, **__: (cast("HostUnits", units),))
    monkeypatch.setattr("sidecar.host.cgroup.host_kernel.HostKernel.online", lambda _: CPUSet.parse("0-3"))
    state = await given_back(RECORDED, config, Log(io.StringIO()))
    had = {"cron.service": "0-3", "ssh.service": "0"}
    assert units.confined == {name: had[name] for name in back}
    lost = {*back, *(["gone.service"] if config.host_units == "off" else [])}
    assert {key.id for key in RECORDED.originals} - {key.id for key in state.originals} == lost


@pytest.mark.trio
async def test_units_that_an_earlier_version_recorded_as_containers_are_units_from_then_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each with what it had: they were confined by the sidecar, and are not pinned by hand. Containers stay as
    recorded, and so does what this version recorded of a unit already.
    """
    unit, container = ContainerKey("docker", SSH_BEFORE), ContainerKey("docker", "c" * 64)
    known, also = ContainerKey(SYSTEMD, "cron.service"), ContainerKey("docker", CRON_BEFORE)
    had = {unit: Originals(cpuset="0"), container: Originals(cpuset="1")}
    had |= {known: Originals(cpuset="2"), also: Originals(cpuset="3")}
    monkeypatch.setattr(host_assembly, "sources", lambda *_, **__: (cast("HostUnits", Units()),))
    with SparedCheckpoint(str(tmp_path / "state"), str(tmp_path / "spare")) as checkpoint:
        checkpoint.save(State(originals=had))
        hosted = Hosted(ENGINE, KERNEL, None, Config(host_units="auto"))
        state = await hosted.recorded(checkpoint, Log(io.StringIO()))
    assert {str(key): each.cpuset for key, each in state.originals.items()} == {
        "systemd:ssh.service": "0",
        str(container): "1",
        "systemd:cron.service": "2",
    }


def test_where_no_unit_can_be_known_the_records_stay_as_they_are() -> None:
    """Without systemd or groups to confine, which of them are units cannot be told."""
    recorded = State(originals={ContainerKey("docker", SSH_BEFORE): Originals()})
    config = Config(host_units="auto", cgroup="/nonexistent")
    assert with_unit_keys(recorded, config) is recorded


@pytest.mark.trio
async def test_a_group_that_is_not_named_any_more_is_given_back(tmp_path: Path) -> None:
    """One that is still named stays as it is."""
    cgroup = hierarchy(tmp_path, version=1)
    (cgroup / "cpuset" / "others").mkdir()
    for name in ("agents", "others"):
        (cgroup / "cpuset" / name / "cpuset.cpus").write_text("0\n")
    recorded = State(originals={ContainerKey(HOST, name): Originals() for name in ("/agents", "/others")})
    config = Config(host_units="auto", host_groups=("/others",), cgroup=str(cgroup))
    state = await given_back(recorded, config, Log(io.StringIO()))
    assert [key.id for key in state.originals] == ["/others"]
    assert (cgroup / "cpuset" / "agents" / "cpuset.cpus").read_text().strip() == str(HostKernel().online())
    assert (cgroup / "cpuset" / "others" / "cpuset.cpus").read_text() == "0\n"


@pytest.mark.trio
async def test_what_cannot_be_given_back_stays_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the next start, or a release; the log says so."""

    def none(*_: object, **__: object) -> tuple[HostUnits, ...]:
        raise EngineLacks("there is no systemd")

    out = io.StringIO()
    monkeypatch.setattr(host_assembly, "sources", none)
    assert await given_back(RECORDED, Config(host_units="off"), Log(out)) is RECORDED
    assert "units of the host stay confined" in out.getvalue()
