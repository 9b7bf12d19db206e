"""UnitGroups: the units of this host that can be confined, by their cgroups (v2), and confined by systemd.

Which they are is told by the tree (`host_units`). Slices in which engines make their containers are never confined as a
whole: what comes later must not be born into confinement. A unit that systemd told of a moment ago, and that has no
cgroup, is about to get one, unless it is a container's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import trio

from sidecar.failures import EngineFailed
from sidecar.host.units.host_units import holds_container, host_units, is_container
from sidecar.systemd_names import slice_path
from state.cpuset import EMPTY, CPUSet

PARENTS: Final = ("system.slice", "machine.slice")
"""Where Docker and Podman make containers under systemd by default."""

SOON_SECONDS: Final = 10.0
"""So long after systemd told of it, a unit without a cgroup may still be about to start."""

CONTROL: Final = ("/run/systemd/system.control", "/run/systemd/transient")
"""Where systemd keeps properties that were set until the next reboot, in a drop-in for each (systemctl(1)): those of
units that have files, and of those that were made by a call.
"""

_DROP_IN: Final = "50-AllowedCPUs.conf"

IN_FORCE_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.002

_STARTED: Final = (".service", ".scope")
"""What has processes for longer than a moment, and comes and goes."""

_USERS_MANAGER: Final = "user@"
"""The manager of a user makes rootless containers below it."""

_MOST_TOLD: Final = 256


class Systemd(Protocol):
    """What sets CPUs of units."""

    async def allow_cpus(self, unit: str, cpus: CPUSet) -> None:
        """Set the AllowedCPUs of a unit until the next reboot; the empty set takes the property away."""


class UnitGroups:
    """The units below a v2 hierarchy's root. Satisfies the port `HostUnits`."""

    def __init__(
        self,
        root: str | Path,
        systemd: Systemd,
        online: Callable[[], CPUSet],
        *,
        parent: str = "",
        control: Sequence[str] = CONTROL,
    ) -> None:
        """Make it; `parent` is the slice in which the engine makes containers, if that is known."""
        self._parents = (*PARENTS, *slice_path(parent).split("/")) if parent.endswith(".slice") else PARENTS
        self._root = str(root)
        self._systemd = systemd
        self._online = online
        self._control = tuple(control)
        self._paths: dict[str, str] = {}
        self._told: dict[str, float] = {}

    def all(self) -> tuple[str, ...]:
        """Return the names of the units that can be confined now, of those that are about to start, and of those that
        rest and for which CPUs are set.
        """
        found = host_units(self._root, self._online(), self._parents)
        self._paths = {each.name: each.path for each in found if not each.has_containers and _is_kind(each.name)}
        now = trio.current_time()
        self._told = {
            name: at for name, at in self._told.items() if name not in self._paths and now - at < SOON_SECONDS
        }
        with_cpus = (name for each in self._control for name in _names_with_cpus(each))
        resting = (name for name in with_cpus if not self._path(name))
        return tuple(dict.fromkeys((*self._paths, *self._told, *resting)))

    def tell(self, name: str) -> bool:
        """Take it that systemd told of a unit; return whether it is one to look at."""
        if not name.endswith(_STARTED) or is_container(name) or name.startswith(_USERS_MANAGER):
            return False
        if name.endswith(".scope") and not self._path(name):
            # A scope takes in processes that run already, so there is no earlier; and a session's is below a slice.
            return False
        if name in self._paths or len(self._told) >= _MOST_TOLD:
            return False
        self._told[name] = trio.current_time()
        return True

    async def look(self, name: str) -> tuple[str, str] | None:
        """Return a unit's cgroup, "" if it has none, and the CPUs that are set for it, "" if none are; None if there is
        no such unit. One that has containers now is let go.
        """
        if path := self._path(name):
            if not holds_container(f"{self._root}{path}"):
                return path, _set(f"{self._root}{path}/cpuset.cpus")
            if not self._online() <= (CPUSet.parse(_set(f"{self._root}{path}/cpuset.cpus")) or self._online()):
                await self.confine(name, self._online())
            return None
        rests_with = next(filter(None, (_set(f"{each}/{name}.d/{_DROP_IN}") for each in self._control)), "")
        is_soon = name in self._told and trio.current_time() - self._told[name] < SOON_SECONDS
        return ("", rests_with) if rests_with or is_soon else None

    async def confine(self, name: str, cpus: CPUSet) -> None:
        """Set the CPUs of a unit, and wait until the kernel has them. Of one that may run everywhere the property is
        taken away afterwards: systemd leaves what the kernel has as it is then, so it has to have all CPUs before.
        """
        await self._systemd.allow_cpus(name, cpus)
        await self._see_in_force(name, cpus)
        if self._online() <= cpus:
            await self._systemd.allow_cpus(name, EMPTY)

    async def _see_in_force(self, name: str, wanted: CPUSet) -> None:
        if not (path := self._path(name)):
            return
        file = f"{self._root}{path}/cpuset.cpus"
        with trio.move_on_after(IN_FORCE_SECONDS):
            # No event reports a change of the kernel's file.
            while self._path(name) and _set(file) != str(wanted):  # noqa: ASYNC110
                await trio.sleep(_POLL_SECONDS)
            return
        has = _set(file) or "no CPUs"
        raise EngineFailed(f"systemd accepted AllowedCPUs={wanted} for {name}, but its cgroup still has {has}")

    def _path(self, name: str) -> str:
        """Return the path of a unit's cgroup below the root; "" if it has none. One that came since the last look at
        all is where services are.
        """
        path = self._paths.get(name) or f"/system.slice/{name}"
        return path if os.path.isdir(f"{self._root}{path}") else ""


def _is_kind(name: str) -> bool:
    return name.endswith((*_STARTED, ".slice"))


def _names_with_cpus(control: str) -> list[str]:
    """Return the units for which systemd keeps CPUs that were set while it runs."""
    with suppress(OSError), os.scandir(control) as entries:
        names = [each.name.removesuffix(".d") for each in entries if each.name.endswith(".d")]
        return sorted(name for name in names if _is_kind(name) and _set(f"{control}/{name}.d/{_DROP_IN}"))
    return []


def _set(file: str) -> str:
    """Return the CPUs that a cgroup's file, or a drop-in of systemd's, has; "" if none, or it is gone."""
    with suppress(OSError, ValueError), open(file, encoding="ascii") as text:
        last = text.read().strip().rpartition("\n")[2]
        return str(CPUSet.parse(last.removeprefix("AllowedCPUs=").replace(" ", ",")))
    return ""
