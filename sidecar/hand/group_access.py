"""Opens the host's cgroups for writing: the one question whether a hand is possible here."""

from __future__ import annotations

from pathlib import Path

from sidecar.failures import CgroupClosed
from sidecar.hand.group_files import GroupFiles, find_limits
from sidecar.hand.parents import users_manager
from sidecar.host.cgroup.host_kernel import find_hierarchy
from sidecar.host.cgroup.places import CGROUP
from sidecar.words.hands import unwritable
from state import files as state_files


def open_groups(cgroup: str | Path = CGROUP, proc: str | Path = "/proc") -> tuple[GroupFiles, str]:
    """Return the groups below a mount of /sys/fs/cgroup, and the group of a user's systemd as `users_manager` does.

    Raise CgroupClosed if there are none, or if they cannot be written.
    """
    hierarchy = find_hierarchy(cgroup)
    if hierarchy is None:
        raise CgroupClosed(f"there is no cgroup hierarchy with cpusets at {cgroup}")
    try:
        files = GroupFiles(hierarchy, find_limits(cgroup))
    except OSError as error:
        raise CgroupClosed(f"{hierarchy.root} cannot be opened: {state_files.reason(error)}") from error
    manager = users_manager(str(proc)) if hierarchy.version == 2 else ""
    if not files.is_writable("") and not (manager and files.is_writable(manager)):
        files.close()
        raise CgroupClosed(unwritable(hierarchy.root))
    return files, manager
