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


def default_directory(environment: Mapping[str, str], root: str = ROOT) -> str:
    """Return `$CPUSET_SIDECAR_DIR`, or else the container's own directory by id; its host name must then be its id.

    If its own directory is mounted at `root`, as after a strict start, return `root`.
    """
    if named := environment.get("CPUSET_SIDECAR_DIR"):
        return named
    if os.path.lexists(os.path.join(root, STATUS)):
        return root
    return os.path.join(root, "by-id", (environment.get("HOSTNAME") or os.uname().nodename)[:12])


def may_come(directory: str) -> bool:
    """Return whether a directory is there or may still appear: not if it should be by ID, and its name is none.

    So it is with the default directory where `$HOSTNAME` is not a container's ID, as on a host.
    """
    above, name = os.path.split(directory)
    return os.path.lexists(directory) or os.path.basename(above) != "by-id" or _ID.fullmatch(name) is not None


def never_comes(directory: str) -> str:
    """Return why a directory can never appear, as a sentence."""
    return (
        f"there is no projection directory {directory}, and never will be: {os.path.basename(directory)!r} is not a "
        "container's ID; name a directory, or set CPUSET_SIDECAR_DIR"
    )
