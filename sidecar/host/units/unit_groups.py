"""UnitGroups: the units of systemd that can be confined, by their cgroups (v2), and confined by systemd.

Which they are is told by the tree (`host_units`), and by what systemd keeps of CPUs that were set: a unit with CPUs of
its own counts while it rests, and wherever its cgroup is. systemd keeps the same of containers, so one rule precedes
all others: what is a container's, or holds one, is never a unit. Slices in which engines make their containers are
never confined as a whole: what comes later must not be born into confinement. A unit that systemd told of a moment ago,
and that has no cgroup, is about to get one, unless it is a container's.

What starts a service is told of before it runs. A scope takes in processes that run already, and a slice has what is in
it, so both are looked at as soon as they are up, wherever they are: unless a slice above them is confined as a whole.
Sessions begin in `user.slice`, which is confined before there is one.

A unit may ask for CPUs of its own, by its files or by the configuration (`asking_units`). A slice that has it below is
no unit then: what confines it confines the owner. Of such a unit alone systemd is asked at each look: when its run
began, and whether it is about to run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Protocol

import trio

from sidecar.failures import ContainerGone, EngineError, EngineFailed
from sidecar.host.units.asking_units import AskingUnits, Describing
from sidecar.host.units.host_units import (
    holds_container,
    holds_unit,
    host_units,
    is_container,
    is_in_container,
    names_in_slices,
    paths_of,
)
from sidecar.host.units.unit_properties import UnitDescription, signal_number
from sidecar.host_ports import UnitLook
from sidecar.systemd_names import group_named, slice_path, unit_named
from state.cpuset import EMPTY, CPUSet
from state.key import SYSTEMD

PARENTS: Final = ("system.slice", "machine.slice")
"""Where Docker and Podman make containers under systemd by default."""

SESSIONS: Final = "user.slice"
"""Where sessions of users begin (systemd.special(7)). It has no cgroup before the first one."""

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

_HAS_CONTAINERS: Final = "has containers below it"
_LEFT: Final = "left alone, as configured"


class Systemd(Describing, Protocol):
    """What sets CPUs of units, and describes these."""

    async def allow_cpus(self, unit: str, cpus: CPUSet) -> None:
        """Set the AllowedCPUs of a unit until the next reboot; the empty set takes the property away."""

    async def stop(self, unit: str) -> None:
        """Stop a unit."""

    async def kill(self, unit: str, signal: int) -> None:
        """Send a signal to a unit's main process."""


class UnitGroups:
    """The units below a v2 hierarchy's root. Satisfies the port `HostUnits`."""

    source = SYSTEMD

    def __init__(
        self,
        root: str | Path,
        systemd: Systemd,
        online: Callable[[], CPUSet],
        *,
        parent: str = "",
        leave: Sequence[str] = (),
        ruled: Sequence[str] = (),
        control: Sequence[str] = CONTROL,
    ) -> None:
        """Make it; `parent` is the slice in which the engine makes containers, if that is known, `leave` are patterns
        of names that are left alone, and `ruled` those of names to which the configuration gives labels.
        """
        self._asking = AskingUnits(systemd, ruled)
        self._parents = (*PARENTS, *slice_path(parent).split("/")) if parent.endswith(".slice") else PARENTS
        self._root = str(root)
        self._systemd = systemd
        self._online = online
        self._control = tuple(control)
        self._leave = tuple(leave)
        self._paths: dict[str, str] = {}
        self._holes: dict[str, str] = {}
        self._told: dict[str, float] = {}
        self._never: set[str] = set()
        """What runs never: masked, or without a file. Other units name it, so systemd loads it again and again."""

    async def meet(self) -> None:
        """Find out which units ask for CPUs of their own. Raise EngineError if systemd does not tell."""
        names = {*names_in_slices(self._root), *self._told, *self._kept_names()}
        self._asking.retain(names)
        await self._asking.meet(name for name in names if not self._is_left(name))

    def rule(self, patterns: tuple[str, ...]) -> bool:
        """Take it that the configuration gives labels to the units of these names; return whether that is news."""
        is_news, self._asking.patterns = patterns != self._asking.patterns, patterns
        return is_news

    def all(self) -> tuple[str, ...]:
        """Return the names of the units that can be confined now, of those that are about to start, and of those for
        which CPUs are set: these count within another unit as well, and while they rest.
        """
        units = host_units(self._root, self._online(), self._parents, self._asking.names)
        found = [each for each in units if _is_kind(each.name)]
        self._holes = {each.name: _HAS_CONTAINERS for each in found if each.has_containers}
        self._holes |= {each.name: _LEFT for each in found if self._is_left(each.name)}
        self._paths = {each.name: each.path for each in found if each.name not in self._holes}
        now = trio.current_time()
        self._told = {
            name: at for name, at in self._told.items() if name not in self._paths and now - at < SOON_SECONDS
        }
        has_sessions = os.path.isdir(f"{self._root}{slice_path(SESSIONS)}")
        kept = self._kept_names() | (set() if has_sessions else {SESSIONS})
        kept -= self._paths.keys() | self._holes.keys() | self._never
        kept = {name for name in kept if not self._is_left(name)}
        elsewhere = paths_of(self._root, kept)
        self._paths |= {name: path for name, path in elsewhere.items() if not self._is_containers(path)}
        return tuple(dict.fromkeys((*self._paths, *self._told, *sorted(kept - elsewhere.keys()))))

    def holes(self) -> Mapping[str, str]:
        """Return by name the units that are left alone, and those with containers below them."""
        return self._holes

    def _is_left(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._leave)

    def tell(self, name: str) -> bool:
        """Take it that systemd told of a unit; return whether it is one to look at."""
        if not name.endswith(_STARTED) or is_container(name) or name.startswith(_USERS_MANAGER) or self._is_left(name):
            return False
        if name.endswith(".scope") and not self._path(name):
            # There is no earlier than when it is up.
            return False
        # What an owner does next is told as a change.
        if name in self._paths or name in self._never or self._asking.asks(name) or len(self._told) >= _MOST_TOLD:
            return False
        self._told[name] = trio.current_time()
        return True

    def changed(self, name: str, *, is_up: bool) -> bool:
        """Take it that systemd told of a change; return whether it is one to look at: that of an owner, and of what
        runs and was not met.
        """
        if not _is_kind(name) or is_container(name) or name.startswith(_USERS_MANAGER) or self._is_left(name):
            return False
        if not self._asking.asks(name):
            return is_up and name not in self._paths and self._is_new(name)
        if is_up and len(self._told) < _MOST_TOLD:
            self._told[name] = trio.current_time()
        return True

    def _is_new(self, name: str) -> bool:
        """Return whether what is up was not met, and is not confined with a slice above it. Keep its path then."""
        if name.endswith(".service"):
            return not self._asking.is_known(name)
        path = slice_path(name) if name.endswith(".slice") else paths_of(self._root, {name}).get(name, "")
        if not path or name in self._parents or self._is_in_a_whole(path):
            return False
        self._paths[name] = path
        return True

    def _is_in_a_whole(self, path: str) -> bool:
        """Return whether a slice above a group is confined as a whole, or left alone."""
        above = path.rpartition("/")[0]
        while above:
            name = unit_named(above.rpartition("/")[2])
            if self._is_left(name) or not (name in self._parents or self._is_parted(name, above)):
                return True
            above = above.rpartition("/")[0]
        return False

    def reread(self) -> None:
        """Read the files of all units again: systemd has."""
        self._never = set()
        self._asking.forget()

    async def look(self, name: str) -> UnitLook | None:
        """Return a unit's cgroup, and the CPUs that are set for it; None if there is no such unit. One that has
        containers now is let go.
        """
        if is_container(name):
            return None
        with suppress(EngineError):
            await self._asking.meet([name])
        if path := self._path(name) or self._sought(name):
            return await self._look_at_group(name, path)
        is_soon = name in self._told and trio.current_time() - self._told[name] < SOON_SECONDS
        if self._asking.asks(name):
            said = await self._asking.described(name) if is_soon else self._asking.said(name)
            return self._resting(name, said, is_coming=is_soon and said.is_coming)
        rests_with = self._kept(name)
        return UnitLook("", rests_with, runs=False) if rests_with or is_soon or name == SESSIONS else None

    async def _look_at_group(self, name: str, path: str) -> UnitLook | None:
        cpus = _set(f"{self._root}{path}/cpuset.cpus")
        if self._is_parted(name, path):
            await self._let_go(name, path)
            return None
        if not self._asking.asks(name):
            return UnitLook(path, cpus, runs=True)
        await self._let_go_above(path)
        said, labels = await self._asking.described(name), self._asking.labels(name)
        return UnitLook(path, cpus, runs=True, labels=labels, asks=True, started=_stamp(said.started))

    async def _let_go(self, name: str, path: str) -> None:
        cpus = CPUSet.parse(_set(f"{self._root}{path}/cpuset.cpus"))
        if self._path(name) and not self._online() <= (cpus or self._online()):
            await self.confine(name, self._online())

    async def _let_go_above(self, path: str) -> None:
        """Let go the slices above an owner that were met as units before it came."""
        while path := path.rpartition("/")[0]:
            name = unit_named(path.rpartition("/")[2])
            if self._paths.get(name) == path:
                await self._let_go(name, path)

    def _resting(self, name: str, said: UnitDescription, *, is_coming: bool) -> UnitLook | None:
        """Return the look at an owner that runs nothing; None if systemd keeps no CPUs for it and it does not come."""
        if not (rests_with := self._kept(name)) and not is_coming:
            return None
        started, labels = _stamp(said.started), self._asking.labels(name)
        return UnitLook("", rests_with, runs=False, labels=labels, asks=True, started=started, is_coming=is_coming)

    async def confine(self, name: str, cpus: CPUSet) -> None:
        """Set the CPUs of a unit, and wait until the kernel has them. Of one that may run everywhere the property is
        taken away afterwards: systemd leaves what the kernel has as it is then, so it has to have all CPUs before.
        ContainerGone of one that runs never; what systemd keeps for it goes with it.
        """
        try:
            await self._systemd.allow_cpus(name, cpus)
        except ContainerGone:
            self._never.add(name)
            self._told.pop(name, None)
            self._clear(name)
            raise
        await self._see_in_force(name, cpus)
        if self._online() <= cpus:
            await self._systemd.allow_cpus(name, EMPTY)

    async def stop(self, name: str) -> None:
        """Have systemd stop an owner."""
        await self._systemd.stop(name)

    async def signal(self, name: str, signal: str) -> None:
        """Have systemd send a signal to an owner's main process."""
        await self._systemd.kill(name, signal_number(signal))

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

    def _is_containers(self, path: str) -> bool:
        return is_in_container(path) or holds_container(f"{self._root}{path}")

    def _is_parted(self, name: str, path: str) -> bool:
        """Return whether a unit holds containers, or an owner: then it is not confined as a whole."""
        is_slice = name.endswith(".slice")
        return self._is_containers(path) or (is_slice and holds_unit(f"{self._root}{path}", self._asking.names))

    def _kept_names(self) -> set[str]:
        """Return the units for which systemd keeps CPUs."""
        return {name for each in self._control for name in _names_with_cpus(each)}

    def _kept(self, name: str) -> str:
        """Return the CPUs that systemd keeps for a unit; "" if none."""
        return next(filter(None, (_set(f"{each}/{name}.d/{_DROP_IN}") for each in self._control)), "")

    def _clear(self, name: str) -> None:
        """Remove the CPUs that systemd keeps for a unit which it cannot load, and so does not take away: a unit that is
        made with this name later would be born with them.
        """
        for each in self._control:
            with suppress(OSError):
                os.unlink(f"{each}/{name}.d/{_DROP_IN}")
                os.rmdir(f"{each}/{name}.d")

    def _sought(self, name: str) -> str:
        """Return the path of the cgroup of a unit for which CPUs are set, wherever it came since the last look at all;
        "" if it has none.
        """
        path = paths_of(self._root, {name}).get(name, "") if self._kept(name) else ""
        if path and not self._is_containers(path):
            self._paths[name] = path
        return path

    def _path(self, name: str) -> str:
        """Return the path of a unit's cgroup below the root; "" if it has none. One that came since the last look at
        all is where services are.
        """
        path = self._paths.get(name) or f"/system.slice/{group_named(name)}"
        return path if os.path.isdir(f"{self._root}{path}") else ""


def _stamp(microseconds: int) -> str:
    """Return a time as engines write it (RFC 3339, UTC); "" for none."""
    if not microseconds:
        return ""
    return f"{datetime.fromtimestamp(microseconds // 1_000_000, UTC):%Y-%m-%dT%H:%M:%S}.{microseconds % 1_000_000:06}Z"


def _is_kind(name: str) -> bool:
    return name.endswith((*_STARTED, ".slice"))


def _names_with_cpus(control: str) -> list[str]:
    """Return the units for which systemd keeps CPUs that were set while it runs; it keeps the same for containers."""
    with suppress(OSError), os.scandir(control) as entries:
        names = [each.name.removesuffix(".d") for each in entries if each.name.endswith(".d")]
        units = (name for name in names if _is_kind(name) and not is_container(name))
        return sorted(name for name in units if _set(f"{control}/{name}.d/{_DROP_IN}"))
    return []


def _set(file: str) -> str:
    """Return the CPUs that a cgroup's file, or a drop-in of systemd's, has; "" if none, or it is gone."""
    with suppress(OSError, ValueError), open(file, encoding="ascii") as text:
        last = text.read().strip().rpartition("\n")[2]
        return str(CPUSet.parse(last.removeprefix("AllowedCPUs=").replace(" ", ",")))
    return ""
