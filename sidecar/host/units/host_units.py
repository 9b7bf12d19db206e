"""The units of systemd that have no container below them, by their cgroups (v2), and where they may run. Reads only.

A slice with a container below it is no unit to confine: what confines it confines the container. So the groups below it
are looked at instead, and so are those below a slice in which a unit is to have CPUs of its own. Below a service with
containers (a user's manager with rootless ones) are no units of this systemd: it is named, and nothing below it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from sidecar.systemd_names import may_ask, unit_named
from state.cpuset import CPUSet

_CONTAINER: Final = re.compile(r"(?!libpod-conmon-)(?:[a-z-]+-)?[0-9a-f]{64}(?:\.scope)?")
"""Not the monitor of a Podman container: it is a process of the host."""

_POD: Final = re.compile(r"(?:[a-z-]+-)?libpod_pod_[0-9a-f]{64}(?:\.slice)?")
"""Podman's containers come and go in it (seen with 4.3 and 5.4)."""

_CPUS: Final = "cpuset.cpus.effective"
_DEPTH: Final = 64
"""Groups in groups that are looked into; what is deeper counts as holding no container."""


class HostUnit(NamedTuple):
    """A unit: its name, the CPUs where it may run, whether containers are below it, and the path of its cgroup below
    the hierarchy's root.
    """

    name: str
    cpus: CPUSet
    has_containers: bool = False
    path: str = ""


def host_units(
    root: str, online: CPUSet, parents: Collection[str] = (), asking: Collection[str] = ()
) -> Iterator[HostUnit]:
    """Yield the highest units without containers below a v2 hierarchy's root, and services that have some. The slices
    named in `parents` count as having some: an engine makes them there. The units named in `asking` are to have CPUs of
    their own, so a slice is no unit if one of them is below it.

    Nothing keeps a unit from the online CPUs unless its cgroup says so.
    """
    above = _cpus(root, online)
    for name in _groups(root):
        if unit_named(name).endswith(".slice") or name == "init.scope":
            yield from _units(root, f"/{name}", above, parents, asking)


def _units(
    root: str, path: str, above: CPUSet, parents: Collection[str], asking: Collection[str]
) -> Iterator[HostUnit]:
    at, name = f"{root}{path}", unit_named(path.rpartition("/")[2])
    if not name or is_container(name):
        return
    cpus, is_slice = _cpus(at, above), name.endswith(".slice")
    is_parted = name in parents or holds_container(at) or (is_slice and holds_unit(at, asking))
    if not is_parted:
        yield HostUnit(name, cpus, path=path)
    elif is_slice:
        for child in _groups(at):
            yield from _units(root, f"{path}/{child}", cpus, parents, asking)
    else:
        yield HostUnit(name, cpus, has_containers=True, path=path)


def names_in_slices(root: str) -> list[str]:
    """Return the names of all units of this systemd that have a cgroup."""
    found, within = [], [""]
    while within:
        path = within.pop()
        for group in _groups(f"{root}{path}"):
            name = unit_named(group)
            if name and not is_container(name):
                found.append(name)
                within += [f"{path}/{group}"] if name.endswith(".slice") else []
    return found


def names_that_may_ask(root: str, leave: Sequence[str] = ()) -> list[str]:
    """Return the names of the units of this systemd that have a cgroup, and could ask for CPUs of their own: not those
    that the patterns `leave` leave alone.
    """
    return [
        name
        for name in names_in_slices(root)
        if may_ask(name) and not any(fnmatchcase(name, pattern) for pattern in leave)
    ]


def holds_unit(path: str, names: Collection[str]) -> bool:
    """Return whether one of these units is below the slice at this directory."""
    return bool(names) and any(
        unit_named(child) in names or (unit_named(child).endswith(".slice") and holds_unit(f"{path}/{child}", names))
        for child in _groups(path)
    )


def paths_of(root: str, names: Collection[str]) -> dict[str, str]:
    """Return the paths of the units of these names that have a cgroup: units are in slices alone. What is below others
    may have the name of a unit, and is one of another systemd's (a user's manager), or none.
    """
    found: dict[str, str] = {}
    wanted, within = set(names), [""]
    while wanted and within:
        path = within.pop()
        for group in _groups(f"{root}{path}"):
            name, at = unit_named(group), f"{path}/{group}"
            if name.endswith(".slice"):
                within.append(at)
            if name in wanted and not is_container(name):
                found[name] = at
                wanted.discard(name)
    return found


def is_container(name: str) -> bool:
    """Return whether a group of this name is a container or a pod, of any engine: it is never a unit of the host, and
    nothing in it is, and what it is in is not confined as a whole.
    """
    return _CONTAINER.fullmatch(name) is not None or _POD.fullmatch(name) is not None


def is_in_container(path: str) -> bool:
    """Return whether a group, by its path below the root, is a container's or a pod's, or in one."""
    return any(is_container(part) for part in path.split("/"))


def holds_container(path: str, depth: int = _DEPTH) -> bool:
    """Return whether there is a container somewhere below the group at this directory."""
    return depth > 0 and any(
        is_container(child) or holds_container(f"{path}/{child}", depth - 1) for child in _groups(path)
    )


def _groups(path: str) -> list[str]:
    """Return the names of the groups in a group; none if it is gone."""
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _cpus(path: str, above: CPUSet) -> CPUSet:
    """Return where a group may run: where the one above it may, if it has no cpuset of its own."""
    with suppress(OSError, ValueError), open(f"{path}/{_CPUS}", encoding="ascii") as file:
        return CPUSet.parse(file.read().strip())
    return above
