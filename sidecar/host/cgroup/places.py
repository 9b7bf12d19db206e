"""Where a container's cgroup is: the mounted hierarchies, and the places where engines put a container in them.

On v1 each controller has a hierarchy of its own (some share one, like `cpu,cpuacct`); on v2 there is one for all; and
hybrid hosts also have v2, without the controllers that v1 has. A container's path is usually the same in all.

The container's cgroup is where the engine reports it, or below the parent that it names. Otherwise, if the host's
processes are visible, /proc/PID/cgroup shows it; it is trusted only if it contains the container's ID, since in a
container of ours the same PID may be another process. Failing that it is looked for by its id in the engines' usual
places, and below each group at the top, where an engine's own cgroup parent usually is. That is the last way: a
tenant can have the engine make a group of that name there, by a cgroup parent.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from sidecar.decide.facts import ContainerView, ViewKind
from sidecar.systemd_names import slice_path
from state.errors import FileUnreadable
from state.files import reason

CGROUP: Final = "/sys/fs/cgroup"

_ID: Final = re.compile(r"[0-9a-f]{64}")
_PARENT: Final = re.compile(r"[A-Za-z0-9_.:@\\/-]{1,1024}")
USUAL: Final = ("/docker", "/system.slice", "/machine.slice", "/libpod_parent")
"""Engines' default parents, as paths below the hierarchy's root."""
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

_READ_BYTES: Final = 64 * 1024
"""More than the longest CPU list (40 KiB), less than anything that would hurt."""


class Hierarchy(NamedTuple):
    """A mounted cgroup hierarchy: its version, its root, and the controller that it was looked for by."""

    version: int
    root: str
    controller: str


def has_place(view: ContainerView) -> bool:
    """Return whether a container, or a unit, may have a cgroup now. Only a full id ever becomes part of a path."""
    return view.phase.is_live and (view.kind is ViewKind.UNIT or _ID.fullmatch(view.id) is not None)


def v1_hierarchy(base: str | Path, controller: str, marker: str) -> Hierarchy | None:
    """Return the v1 hierarchy of a controller below a mount of /sys/fs/cgroup, or this mount itself; None without one.

    `marker` is a file that only this controller has there.
    """
    for path in (f"{base}/{controller}", f"{base}/cpu,cpuacct", f"{base}/cpuacct,cpu", str(base)):
        if os.path.exists(f"{path}/{marker}") and os.path.exists(f"{path}/tasks"):
            return Hierarchy(1, path, controller)
    return None


def v2_hierarchy(base: str | Path, controller: str = "") -> Hierarchy | None:
    """Return the v2 hierarchy below a mount of /sys/fs/cgroup, or this mount itself, if it has this controller."""
    for path in (str(base), f"{base}/unified"):
        content = read(f"{path}/cgroup.controllers")
        if content is not None and (not controller or controller.encode() in content.split()):
            return Hierarchy(2, path, controller)
    return None


def find_directory(hierarchy: Hierarchy, view: ContainerView, proc: str) -> str | None:
    """Return the directory of a container's cgroup; None if it has no visible one."""
    for directory in _candidates(hierarchy, view, proc):
        if os.path.isdir(directory):
            return directory
    return None


def read(path: str) -> bytes | None:
    """Return the content of a kernel's file; None if it is gone, or cannot be read."""
    try:
        return read_or_raise(path)
    except FileUnreadable:
        return None


def read_or_raise(path: str, *, denied: bool = False) -> bytes | None:
    """Return the same. Raise FileUnreadable if this process lacks what it needs to find out: a descriptor, memory; and
    if `denied`, the right to read it.
    """
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(opened, _READ_BYTES)
        finally:
            os.close(opened)
    except OSError as error:
        if error.errno in _EXHAUSTED or (denied and isinstance(error, PermissionError)):
            raise FileUnreadable(f"{path} cannot be read: {reason(error)}") from error
        return None


def _candidates(hierarchy: Hierarchy, view: ContainerView, proc: str) -> Iterator[str]:
    """Yield the possible places of the container's cgroup, likeliest first."""
    id = view.id
    if (told := view.cgroup.strip("/")) and _PARENT.fullmatch(told) and ".." not in told.split("/"):
        # crun, as below; a group without such a child is itself the place.
        if told.endswith(f"libpod-{id}.scope"):
            yield f"{hierarchy.root}/{told}/container"
        yield f"{hierarchy.root}/{told}"
    if view.kind is ViewKind.UNIT:
        # It is where its source says.
        return
    for parent in _named(view.cgroup_parent):
        yield from _names(f"{hierarchy.root}{parent}", id)
    if path := _path_from_proc(hierarchy, view, proc):
        # What a container makes within its cgroup is part of it.
        yield from _names(hierarchy.root + path[: path.index(id)].rpartition("/")[0], id)
        yield f"{hierarchy.root}{path}"
    for parent in USUAL:
        yield from _names(f"{hierarchy.root}{parent}", id)
    with suppress(OSError), os.scandir(hierarchy.root) as entries:
        for each in entries:
            if each.is_dir(follow_symlinks=False):
                yield from _names(each.path, id)


def _names(parent: str, id: str) -> Iterator[str]:
    """Yield what engines may call a container's cgroup below this parent."""
    for name in (
        f"docker-{id}.scope",
        # crun puts the process one level deeper, so that the scope can hold limits of its own.
        f"libpod-{id}.scope/container",
        f"libpod-{id}.scope",
        id,
        f"libpod-{id}",
    ):
        yield f"{parent}/{name}"


def _path_from_proc(hierarchy: Hierarchy, view: ContainerView, proc: str) -> str | None:
    if view.pid <= 0:
        return None
    content = read_or_raise(f"{proc}/{view.pid}/cgroup") or b""
    for line in content.decode(errors="replace").splitlines():
        # proc_pid_cgroup(5): "hierarchy:controllers:path"; v2 is "0::path".
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        is_v2 = number == "0" and not controllers
        ours = is_v2 if hierarchy.version == 2 else hierarchy.controller in controllers.split(",")
        # A foreign cgroup looks like ".." from inside a cgroup namespace: useless for a search.
        if ours and view.id in path and path.startswith("/") and ".." not in path.split("/"):
            return path
    return None


def _named(cgroup_parent: str) -> Iterator[str]:
    """Yield where the parent may be that a container names, as paths below the hierarchy's root."""
    asked = cgroup_parent.strip("/")
    if cgroup_parent and not asked:
        yield ""
    if asked and _PARENT.fullmatch(asked) and ".." not in asked.split("/"):
        if asked.endswith(".slice") and "/" not in asked:
            yield slice_path(asked)
        yield f"/{asked}"
