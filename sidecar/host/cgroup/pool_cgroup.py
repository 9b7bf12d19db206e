"""The cgroup that confines the shared pool on cgroup v2: a slice of systemd's, or a plain group.

Under the systemd driver it is written as a property of its unit, at run time: that survives `systemctl daemon-reload`,
exists before the slice has its first member, and ends with a reboot. systemd owns the files below: it undoes foreign
writes to them at its own next write. Under the cgroupfs driver no other program writes the file.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final, Protocol

import msgspec
import trio

from sidecar.decide.facts import ContainerView, EngineInfo, Phase
from sidecar.failures import EngineError, EngineFailed, EngineLacks, EngineRefused
from sidecar.host.cgroup.places import CGROUP, find_directory, read, v2_hierarchy
from sidecar.systemd_names import slice_path
from state import files
from state.cpuset import EMPTY, CPUSet
from state.errors import CPUSetError

IN_FORCE_SECONDS: Final = 5.0
"""How long systemd may take from its answer to the write, which follows when its queue is empty."""

_POLL_SECONDS: Final = 0.001
"""Between two looks for the write: it takes a millisecond."""


class Units(Protocol):
    """The units' properties, from systemd: see `unit_properties`."""

    async def allowed_cpus(self, unit: str) -> CPUSet:
        """Return the unit's AllowedCPUs; the empty set if it has none."""

    async def allow_cpus(self, unit: str, cpus: CPUSet) -> None:
        """Set a unit's AllowedCPUs, until the next reboot."""


class _GroupFiles:
    """The part that both kinds of group read: where the group is, and which containers are in it."""

    def __init__(self, name: str, path: str, *, cgroup: str | Path, proc: str | Path) -> None:
        self.name = name
        self.path = path
        self._root = str(cgroup)
        self._proc = str(proc)

    def exists(self) -> bool:
        """Return whether its cgroup is there."""
        return self._directory is not None and os.path.isdir(self._directory)

    def whereabouts(self, view: ContainerView) -> str:
        """Return the path of a container's cgroup; "" if none is visible, or only one without processes. With a glance
        that is enough: its start is under way.
        """
        hierarchy = v2_hierarchy(self._root, "cpuset")
        if hierarchy is None:
            return ""
        # A container without a parent may be in the group; the usual places come after it.
        as_if = msgspec.structs.replace(view, cgroup_parent=view.cgroup_parent or self.name, phase=Phase.RUNNING)
        directory = find_directory(hierarchy, as_if, self._proc)
        if directory is None or not (view.phase.is_live or view.is_glance or read(f"{directory}/cgroup.procs")):
            return ""
        return directory.removeprefix(hierarchy.root)

    def path_of(self, parent: str) -> str:
        """Return the path of a cgroup parent in the engine's words: a slice's name, or a path."""
        is_slice = parent.endswith(".slice") and "/" not in parent.strip("/")
        return slice_path(parent.strip("/")) if is_slice else f"/{parent.strip('/')}"

    @property
    def _directory(self) -> str | None:
        hierarchy = v2_hierarchy(self._root, "cpuset")
        return f"{hierarchy.root}{self.path}" if hierarchy else None

    def _check(self, info: EngineInfo, driver: str, right: str) -> None:
        if info.cgroup_version == "1" or self._directory is None:
            raise EngineLacks(
                f"shared_slice is {self.name!r}, but there is no cgroup v2 with the cpuset controller at {self._root}, "
                "and a v1 cgroup does not confine its children: boot with cgroup v2, mount /sys/fs/cgroup into the "
                "sidecar, or leave shared_slice out"
            )
        if info.is_rootless:
            raise EngineLacks(
                f"shared_slice is {self.name!r}, but the engine is rootless, and the sidecar does not write its user's "
                "slice: leave shared_slice out"
            )
        if info.cgroup_driver not in (driver, ""):
            raise EngineLacks(
                f"shared_slice is {self.name!r}, but the engine's cgroup driver is {info.cgroup_driver}: write {right}"
            )


class SystemdGroup(_GroupFiles):
    """A slice. Its CPUs are the property AllowedCPUs of its unit."""

    def __init__(self, name: str, units: Units, *, cgroup: str | Path = CGROUP, proc: str | Path = "/proc") -> None:
        super().__init__(name, slice_path(name), cgroup=cgroup, proc=proc)
        self._units = units

    def check(self, info: EngineInfo) -> None:
        """Check that the engine's driver is systemd's, on v2. Raise EngineLacks."""
        self._check(info, "systemd", 'the path of a cgroup, like shared_slice = "/sidecar-shared"')

    async def cpus(self) -> str:
        """Return the CPUs in the kernel's file, or without a cgroup yet, in systemd's property."""
        if (known := _cpus(f"{self._directory}/cpuset.cpus")) and self.exists():
            return str(known)
        return str(await self._units.allowed_cpus(self.name))

    async def write(self, cpus: CPUSet) -> None:
        """Set the property, and wait until the kernel has it."""
        await self._units.allow_cpus(self.name, cpus)
        with trio.move_on_after(IN_FORCE_SECONDS):
            # No event reports a change of the kernel's file.
            while self.exists() and _cpus(f"{self._directory}/cpuset.cpus") != cpus:  # noqa: ASYNC110
                await trio.sleep(_POLL_SECONDS)
            return
        told = _cpus(f"{self._directory}/cpuset.cpus") or "no CPUs"
        raise EngineFailed(f"systemd accepted AllowedCPUs={cpus} for {self.name}, but its cgroup still has {told}")


class PlainGroup(_GroupFiles):
    """A cgroup that only the sidecar writes, under the cgroupfs driver."""

    def __init__(self, name: str, *, cgroup: str | Path = CGROUP, proc: str | Path = "/proc") -> None:
        super().__init__(name, f"/{name.strip('/')}", cgroup=cgroup, proc=proc)

    def check(self, info: EngineInfo) -> None:
        """Check that the engine's driver is cgroupfs, on v2. Raise EngineLacks."""
        self._check(info, "cgroupfs", 'the name of a slice, like shared_slice = "sidecar-shared.slice"')

    async def cpus(self) -> str:
        """Return the CPUs in the kernel's file."""
        return str(_cpus(f"{self._directory}/cpuset.cpus"))

    async def write(self, cpus: CPUSet) -> None:
        """Create the group if it is missing, enable the controller for it and its parents, and write its CPUs."""
        self._write_down(cpus)

    def _write_down(self, cpus: CPUSet) -> None:
        hierarchy = v2_hierarchy(self._root, "cpuset")
        if hierarchy is None:
            raise EngineLacks(f"there is no cgroup v2 with the cpuset controller at {self._root}")
        at = hierarchy.root
        try:
            for name in self.path.strip("/").split("/"):
                if b"cpuset" not in (read(f"{at}/cgroup.subtree_control") or b"").split():
                    _write(f"{at}/cgroup.subtree_control", "+cpuset")
                at = f"{at}/{name}"
                if not os.path.isdir(at):
                    os.mkdir(at)
            _write(f"{at}/cpuset.cpus", str(cpus))
        except OSError as error:
            raise _translated(error, at) from error


def _translated(error: OSError, at: str) -> EngineError:
    """Return our error for a failed write to cgroupfs, by what can be done about it."""
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return EngineLacks(
            f"{at} cannot be written: {files.reason(error)}: run as root, and mount /sys/fs/cgroup writable into the "
            "sidecar's container, or leave shared_slice out"
        )
    if error.errno in (errno.EINVAL, errno.ERANGE, errno.ENOTSUP):
        return EngineRefused(f"the kernel refuses these CPUs for {at}: {error.strerror}")
    return EngineFailed(f"{at} was not written: {files.reason(error)}")


def _write(path: str, text: str) -> None:
    opened = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(opened, text.encode())
    finally:
        os.close(opened)


def _cpus(path: str) -> CPUSet:
    return _parsed((read(path) or b"").decode("ascii", "replace"))


def _parsed(text: str) -> CPUSet:
    try:
        return CPUSet.parse(text)
    except CPUSetError:
        return EMPTY
