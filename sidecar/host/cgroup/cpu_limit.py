"""The CPU limit that the kernel enforces on a live container: its cgroup's, v1 and v2.

It is read of containers alone whose engine forgets updates: Podman before 5.1 shows neither an update of a limit, by
people or by an earlier sidecar, nor tells of it by an event (measured on 4.3.1; checked in tests/live/test_podman.py).

| | v1, in the hierarchy of the controller `cpu` | v2 |
| --- | --- | --- |
| limit | `cpu.cfs_quota_us`, -1 for none, and `cpu.cfs_period_us` | `cpu.max`: `max` or a quota, and the period |
"""

from __future__ import annotations

import os
from contextlib import suppress

from sidecar.decide.container.originals import NANO
from sidecar.decide.facts import ContainerView
from sidecar.host.cgroup.places import find_directory, has_place, read, v1_hierarchy, v2_hierarchy
from state.errors import FileUnreadable


def limit_of(view: ContainerView, *, cgroup: str, proc: str) -> int | None:
    """Return a container's limit in 1e-9 CPUs, 0 for none; None if it is not live, or that cannot be read."""
    hierarchy = v1_hierarchy(cgroup, "cpu", "cpu.cfs_quota_us") or v2_hierarchy(cgroup, "cpu")
    directory = None
    with suppress(FileUnreadable):
        directory = find_directory(hierarchy, view, proc) if hierarchy and has_place(view) else None
    if hierarchy is None or directory is None:
        return None
    found = _read(directory, hierarchy.version)
    while found is not None and view.id not in os.path.basename(directory) and view.id in directory:
        # What lies within the container's cgroup is limited by that, too.
        directory = os.path.dirname(directory)
        above = _read(directory, hierarchy.version)
        found = min(filter(None, (found, above)), default=0)
    return found


def _read(directory: str, version: int) -> int | None:
    if version == 1:
        quota, period = read(f"{directory}/cpu.cfs_quota_us"), read(f"{directory}/cpu.cfs_period_us")
    else:
        quota, _, period = (read(f"{directory}/cpu.max") or b"").partition(b" ")
    if (quota or b"").strip() in (b"-1", b"max"):
        return 0
    try:
        return round(int(quota or b"") * NANO / int(period or b""))
    except (ValueError, ZeroDivisionError):
        return None
