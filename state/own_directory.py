"""Where a workload finds its own projection directory, unless it names one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from state.projection import STATUS

ROOT: Final = "/run/cpuset-sidecar"
"""Where the volume is mounted by convention."""

_ID: Final = re.compile(r"[0-9a-f]{12}")
_FULL_ID: Final = re.compile(r"(?:docker-|libpod-)?([0-9a-f]{64})(?:\.scope)?")
"""A container's id, in the spelling of either cgroup driver."""
_MARK: Final = "/run/.containerenv"
"""A file that Podman mounts in each container, from a directory below the container's id."""


def default_directory(environment: Mapping[str, str], root: str = ROOT, proc: str = "/proc/self") -> str:
    """Return `$CPUSET_SIDECAR_DIR`, or else the container's own directory by id.

    If its own directory is mounted at `root`, as after a strict start, return `root`. The id is that of its cgroup, as
    far as it sees that, or of what Podman mounts in it; else its host name must be its id. In a pod that is the pod's.
    """
    if named := environment.get("CPUSET_SIDECAR_DIR"):
        return named
    if os.path.lexists(os.path.join(root, STATUS)):
        return root
    host = (environment.get("HOSTNAME") or os.uname().nodename)[:12]
    id = own_id(proc)[:12]
    own = os.path.join(root, "by-id", id)
    is_own = id and (os.path.lexists(own) or not _ID.fullmatch(host))
    return own if is_own else os.path.join(root, "by-id", host)


def own_id(proc: str = "/proc/self") -> str:
    """Return the full id of the container in which this process runs, by its cgroup or its mounts; "" if neither
    tells.
    """
    for line in _lines(os.path.join(proc, "cgroup")):
        # Under crun with systemd, the processes are one level deeper.
        path = line.rstrip("\n").removesuffix("/container")
        if found := _FULL_ID.fullmatch(path.rpartition("/")[2]):
            return found[1]
    for line in _lines(os.path.join(proc, "mountinfo")):
        # proc_pid_mountinfo(5): the fourth field is what is mounted, the fifth is where.
        fields = line.split(" ", 5)
        if len(fields) > 5 and fields[4] == _MARK:
            ids = [part for part in fields[3].split("/") if _FULL_ID.fullmatch(part)]
            return ids[-1] if ids else ""
    return ""


def _lines(path: str) -> list[str]:
    try:
        with open(path, errors="replace") as file:
            return file.readlines()
    except OSError:
        return []


def may_come(directory: str) -> bool:
    """Return whether a directory is there or may still appear: not if it should be by ID, and its name is none.

    So it is with the default directory where neither cgroup nor `$HOSTNAME` has a container's ID, as on a host.
    """
    above, name = os.path.split(directory)
    return os.path.lexists(directory) or os.path.basename(above) != "by-id" or _ID.fullmatch(name) is not None


def never_comes(directory: str) -> str:
    """Return why a directory can never appear, as a sentence."""
    return (
        f"there is no projection directory {directory}, and never will be: {os.path.basename(directory)!r} is not a "
        "container's ID; name a directory, or set CPUSET_SIDECAR_DIR"
    )
