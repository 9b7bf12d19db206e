"""Find the projection directory of a container by what people type on a host: its name, or the beginning of its ID."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final, NamedTuple

from sidecar.failures import SidecarError
from sidecar.log import printable
from sidecar.natural_order import natural
from sidecar.status.find_container import NotFound, find
from state.errors import ProjectionError
from state.projection import read

_SHOWN: Final = 20
"""Containers that an error names at most."""


class Projected(NamedTuple):
    """A container, or a unit of the host, with a projection directory."""

    id: str
    name: str
    directory: str


def directory_of(root: str, wanted: str) -> str:
    """Return the directory of the container of this name or ID below a root, or of the projection name.

    Raise SidecarError, which names the containers that have one, if there is none.
    """
    known = projected(root)
    try:
        return find(known, wanted, listed=" with a projection").directory
    except NotFound as error:
        named = os.path.join(root, "by-name", wanted)
        if wanted not in ("", ".", "..") and os.path.isdir(named):
            return named
        raise SidecarError(f"{error}; {_listed(known, root)}") from error


def no_name(directory: str, root: str) -> SidecarError:
    """Return the error of a default directory that can never appear."""
    host = printable(os.path.basename(directory))
    return SidecarError(
        f"no container was named, and the host name {host!r} is not a container's ID: give a name, or a directory; "
        f"{_listed(projected(root), root)}"
    )


def projected(root: str) -> list[Projected]:
    """Return the containers, and the units of the host, that have a readable directory below a root, in the natural
    order of their names.
    """
    found = []
    for kind in ("by-id", "by-unit"):
        with suppress(OSError):
            for short in os.listdir(os.path.join(root, kind)):
                directory = os.path.join(root, kind, short)
                with suppress(ProjectionError):
                    told = read(directory)
                    # A workload may write into its own directory, whose name it cannot change.
                    id = told.container if told.container.startswith(short) else short
                    found.append(Projected(id, told.name or short, directory))
    return sorted(found, key=lambda each: (natural(each.name), each.id))


def _listed(known: list[Projected], root: str) -> str:
    if not known:
        why = "the policy is none, or everything was released, or the daemon writes elsewhere"
        return f"there is no projection of any container below {root}: {why}"
    names = ", ".join(printable(each.name) for each in known[:_SHOWN])
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"containers with a projection: {names}{more}"
