"""Below which cgroups containers are born: the engines' defaults, a user's own, and those that containers name.

A parent that containers name may hold anything else as well, so there only names of containers count. The defaults of
the cgroupfs drivers belong to their engine alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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


def default_parents(engine: str = "", manager: str = "", parent: str = "") -> dict[str, ParentKind]:
    """Return the parents of containers that name none, as paths below the hierarchy's root: all that are possible, or
    `parent` alone, which is what the engine was given as its default (a path or a slice).

    `manager` is the group of a user's systemd, "" for the host's: slices lie below it, and a rootless engine's default
    is its `user.slice`. With the name of an `engine`, only its own defaults count.
    """
    if parent:
        own = ParentKind.PODS if engine == "podman" else ParentKind.OWN
        return {path: ParentKind.GUESTS if path.endswith(".slice") else own for path in paths_of(parent, manager)}
    found = dict({"docker": _DOCKER, "podman": _PODMAN}.get(engine, DEFAULTS))
    if manager:
        found[f"{manager}/user.slice"] = ParentKind.GUESTS
    return found


def wanted_parents(
    defaults: Mapping[str, ParentKind],
    named: Iterable[str],
    manager: str = "",
    home: Iterable[str] = (),
    *,
    keeps_defaults: bool = False,
) -> dict[str, ParentKind]:
    """Return the parents to watch: the defaults, and those that containers name. A name that is no path is left out.

    `home` are the parents where containers that name none are found; none if that is not known. Once it is, the other
    defaults are not watched, as they may be another engine's, unless the sidecar serves several (`keeps_defaults`).
    """
    home = tuple(home)
    found = {path: kind for path, kind in defaults.items() if keeps_defaults or not home or path in home}
    for each in (*home, *named):
        for path in paths_of(each, manager):
            found.setdefault(path, ParentKind.GUESTS)
    return found


def paths_of(parent: str, manager: str) -> tuple[str, ...]:
    """Return where a parent may be that an engine was given, below the hierarchy's root; none if it is no path."""
    if not parent:
        return ()
    bare = parent.strip("/")
    paths = (slice_path(bare), f"{manager}{slice_path(bare)}") if is_slice(bare) else (f"/{bare}",)
    return tuple(path for path in dict.fromkeys(paths) if is_path(path))


def is_path(path: str) -> bool:
    """Return whether this is the root, or a path below it, without steps back."""
    return path == "/" or (_PATH.fullmatch(path) is not None and not {".", ".."} & set(path.split("/")))


def users_manager(proc: str = "/proc") -> str:
    """Return the cgroup v2 of the systemd that runs this process for a user; "" if it is the host's."""
    try:
        lines = Path(f"{proc}/self/cgroup").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    found = (_USERS.fullmatch(line[3:]) for line in lines if line.startswith("0::"))
    return next((each[1] for each in found if each and is_path(each[1])), "")
