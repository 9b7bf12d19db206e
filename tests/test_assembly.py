"""What is joined around an engine: the host's units, where systemd can confine them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import cast

import pytest

from sidecar.assembly import with_host_units
from sidecar.engines.host_tenants import HostedEngine
from sidecar.log import Log
from sidecar.ports import Engine

ENGINE = cast("Engine", object())


def hierarchy(tmp_path: Path, *, version: int) -> Path:
    cgroup = tmp_path / "cgroup"
    cgroup.mkdir()
    if version == 2:
        (cgroup / "cgroup.controllers").write_text("cpuset cpu\n")
        (cgroup / "cgroup.subtree_control").write_text("cpuset cpu\n")
    return cgroup


@pytest.mark.parametrize(
    ("version", "has_bus", "why"),
    [(1, True, "on cgroup v2 alone"), (2, False, "there is no systemd"), (2, True, "")],
    ids=["v1", "no bus", "systemd"],
)
def test_units_are_tenants_where_systemd_can_confine_them(
    tmp_path: Path, version: int, *, has_bus: bool, why: str
) -> None:
    """Elsewhere the engine is as it was, and the log says why."""
    bus, out = tmp_path / "bus", io.StringIO()
    if has_bus:
        bus.touch()
    told = {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={bus}"}
    found = with_host_units(ENGINE, "auto", Log(out), cgroup=hierarchy(tmp_path, version=version), environ=told)
    assert isinstance(found, HostedEngine) is not bool(why)
    assert (found is ENGINE) is bool(why)
    assert why in out.getvalue()
    assert bool(out.getvalue()) is bool(why)
