"""Joins an engine and the cgroup that confines its shared pool, whose kind the name determines; and the units of its
host.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sidecar.engines.host_tenants import HostedEngine
from sidecar.engines.shared_group import PoolCgroup, SlicedEngine
from sidecar.failures import EngineLacks
from sidecar.host.cgroup.host_kernel import HostKernel
from sidecar.host.cgroup.places import CGROUP, v2_hierarchy
from sidecar.host.cgroup.pool_cgroup import PlainGroup, SystemdGroup
from sidecar.host.units.systemd_connection import connected
from sidecar.host.units.unit_groups import UnitGroups
from sidecar.host.units.unit_properties import SYSTEM_BUS, UnitProperties, socket_of
from sidecar.log import Log
from sidecar.observe.looks import Looker
from sidecar.observe.unit_hints import follow_units
from sidecar.ports import Engine
from state.key import ContainerKey


def with_shared_group(
    engine: Engine, name: str, *, cgroup: str | Path = CGROUP, group: PoolCgroup | None = None
) -> Engine:
    """Return the engine, with its shared group as one more container if there is a name; `group` replaces the real one.

    `name` is the configuration's `shared_slice`: a slice under the systemd driver, a path under cgroupfs; "" if there
    is none. `info` checks whether it fits the engine's driver.
    """
    if not name:
        return engine
    return SlicedEngine(engine, group or shared_group(name, cgroup=cgroup, environ=os.environ))


def shared_group(name: str, *, cgroup: str | Path = CGROUP, environ: Mapping[str, str] | None = None) -> PoolCgroup:
    """Return the group of this name on this host."""
    if name.startswith("/"):
        return PlainGroup(name, cgroup=cgroup)
    return SystemdGroup(name, UnitProperties(environ), cgroup=cgroup)


def with_host_units(
    engine: Engine, parent: str, log: Log, *, cgroup: str | Path = CGROUP, environ: Mapping[str, str] | None = None
) -> Engine:
    """Return the engine, with the units of this host as containers more; the engine alone, logged, where systemd cannot
    confine units. `parent` is the slice in which the engine makes its own, if it is configured.
    """
    try:
        return HostedEngine(engine, _units(parent, cgroup, environ))
    except EngineLacks as why:
        log.warning("the host's own processes are not confined", reason=why)
        return engine


def _units(parent: str, cgroup: str | Path, environ: Mapping[str, str] | None) -> UnitGroups:
    told = os.environ if environ is None else environ
    hierarchy = v2_hierarchy(str(cgroup), "cpuset")
    if hierarchy is None:
        raise EngineLacks(f"systemd confines units on cgroup v2 alone, and {cgroup} is not that")
    bus = socket_of(told.get("DBUS_SYSTEM_BUS_ADDRESS", "") or f"unix:path={SYSTEM_BUS}")
    if not os.path.exists(bus):
        raise EngineLacks(f"there is no systemd: {bus} does not exist here")
    kernel = HostKernel(cgroup=str(cgroup))
    systemd = UnitProperties(told, "host_units")
    return UnitGroups(hierarchy.root, systemd, kernel.online, parent=parent)


async def follow_host_units(engine: HostedEngine, looker: Looker, log: Log) -> None:
    """Look at each unit that comes, until cancelled."""

    def look(name: str) -> None:
        looker.look(ContainerKey(engine.name, engine.hinted(name)))

    await follow_units(lambda: connected(os.environ), engine.units.tell, look, looker.look_at_everything, log)
