"""Below which cgroups containers are born: the engines' defaults, a user's own, and those that containers name.

A parent that containers name may hold anything else as well, so there only names of containers count. The defaults of
the cgroupfs drivers belong to their engine alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from sidecar.hand.group_names import ParentKind
from sidecar.systemd_names import is_slice, slice_path

_DOCKER: Final = {"/docker": ParentKind.OWN, "/system.slice": ParentKind.GUESTS}
_PODMAN: Final = {"/libpod_parent": ParentKind.PODS, "/machine.slice": ParentKind.GUESTS}
"""With the cgroupfs driver, and with systemd's."""

DEFAULTS: Final = {**_DOCKER, **_PODMAN}

_PATH: Final = re.compile(r"(?:/[A-Za-z0-9_.:@\\-]{1,255}){1,16}")
_USERS: Final = re.compile(r"(/.*/user@\d+\.service)(?:/.*)?")


def wanted_parents(named: Iterable[str], manager: str = "", engine: str = "") -> dict[str, ParentKind]:
    """Return the parents to watch, as paths below the hierarchy's root: the defaults, and these as engines name them.

    `manager` is the group of a user's systemd, "" for the host's: slices lie below it, and a rootless engine's default
    is its `user.slice`. A name that is no path is left out. With the name of an `engine`, only its own defaults count:
    another engine has a sidecar of its own, and two hands on one group would never come to rest.
    """
    found = dict({"docker": _DOCKER, "podman": _PODMAN}.get(engine, DEFAULTS))
    if manager:
        found[f"{manager}/user.slice"] = ParentKind.GUESTS
    for each in named:
        bare = each.strip("/")
        paths = [f"/{bare}"]
        if is_slice(bare):
            paths = [slice_path(bare), f"{manager}{slice_path(bare)}"]
        for path in paths:
            if is_path(path):
                found.setdefault(path, ParentKind.GUESTS)
    return found


def is_path(path: str) -> bool:
    """Return whether this is a path below the root, without steps back."""
    return _PATH.fullmatch(path) is not None and not {".", ".."} & set(path.split("/"))


def users_manager(proc: str = "/proc") -> str:
    """Return the cgroup v2 of the systemd that runs this process for a user; "" if it is the host's."""
    try:
        lines = Path(f"{proc}/self/cgroup").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    found = (_USERS.fullmatch(line[3:]) for line in lines if line.startswith("0::"))
    return next((each[1] for each in found if each and is_path(each[1])), "")
