"""What confines a container apart from its own cpuset: the first cgroup above it with fewer CPUs.

On cgroup v2 a cpuset outside the parent's is accepted and has no effect, so the reason must be looked for in its
ancestors (cpuset(7)). A slice with AllowedCPUs=, a cgroup parent made by hand, dockerd's own unit: the kernel treats
them alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from sidecar.decide.facts import ContainerView, Phase
from sidecar.host.cgroup.places import CGROUP, find_directory, read, v1_hierarchy, v2_hierarchy
from sidecar.words.counts import named
from state.cpuset import EMPTY, CPUSet
from state.errors import CPUSetError


class Confinement(NamedTuple):
    """A cgroup by its path below the hierarchy's root, and the CPUs that it has."""

    path: str
    cpus: CPUSet


def confining(
    view: ContainerView, cpus: CPUSet, *, cgroup: str | Path = CGROUP, proc: str | Path = "/proc"
) -> Confinement | None:
    """Return the highest cgroup above a live container that lacks some of these CPUs; None if none does."""
    above = list(parents(view, cgroup=cgroup, proc=proc))
    return next((each for each in above if each.cpus and not cpus <= each.cpus), None)


def parents(view: ContainerView, *, cgroup: str | Path = CGROUP, proc: str | Path = "/proc") -> Iterator[Confinement]:
    """Yield the cgroups above a live container, from the root down to its parent; EMPTY if one has no readable CPUs."""
    hierarchy = v1_hierarchy(cgroup, "cpuset", "cpuset.cpus") or v2_hierarchy(cgroup, "cpuset")
    if hierarchy is None or not view.phase.is_live:
        return
    directory = find_directory(hierarchy, msgspec.structs.replace(view, phase=Phase.RUNNING), str(proc))
    if directory is None:
        return
    at = ""
    for part in directory.removeprefix(hierarchy.root).strip("/").split("/")[:-1]:
        at = f"{at}/{part}"
        yield Confinement(at, _effective(f"{hierarchy.root}{at}", hierarchy.version))


def reason(found: Confinement | None) -> str:
    """Return the same as the end of a sentence; "" if nothing confines."""
    return f": the cgroup {found.path} above it has only {named(found.cpus)}" if found else ""


def _effective(directory: str, version: int) -> CPUSet:
    for name in ("cpuset.effective_cpus", "cpuset.cpus") if version == 1 else ("cpuset.cpus.effective",):
        try:
            if cpus := CPUSet.parse((read(f"{directory}/{name}") or b"").decode("ascii")):
                return cpus
        except (UnicodeDecodeError, CPUSetError):
            continue
    return EMPTY
