"""Joins an engine and the cgroup that confines its shared pool, whose kind the name determines."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sidecar.engines.shared_group import PoolCgroup, SlicedEngine
from sidecar.host.cgroup.places import CGROUP
from sidecar.host.cgroup.pool_cgroup import PlainGroup, SystemdGroup
from sidecar.host.units.unit_properties import UnitProperties
from sidecar.ports import Engine


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
