"""Find a container by what people type: its name, or the beginning of its ID. Pure.

A container's author chooses its name, and may choose the ID of another one. So a full ID is never a name, and a word
that is the name of one container and the beginning of another's ID names neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol, TypeVar

from sidecar.failures import SidecarError
from sidecar.log import printable
from sidecar.natural_order import natural
from sidecar.readers import closest, kept


class HasName(Protocol):
    """Anything with an id and a name."""

    @property
    def id(self) -> str:
        """Its full id."""

    @property
    def name(self) -> str:
        """Its name, without a slash."""


N = TypeVar("N", bound=HasName)


_SHOWN: Final = 64
"""Characters of a name that are shown: an ID has so many."""


_ID_SHOWN: Final = 16
"""Digits of an id that are shown beside others."""

_MOST_SHOWN: Final = 10
"""Containers that an error names at most."""

LISTED: Final = "; `cpuset-sidecar status` lists them"
"""Where people find the names."""


class NotFound(SidecarError):
    """No container has that name, or several IDs begin with it; the message names the nearest."""


def find(candidates: Iterable[N], wanted: str, *, listed: str = LISTED) -> N:
    """Return the candidate with this id, or the only one that has this name or whose id begins so. Raise NotFound;
    where no name is near, it ends with `listed`.
    """
    known = tuple(candidates)
    if exact := [each for each in known if each.id == wanted.lower()]:
        return exact[0]
    named = [each for each in known if each.name == wanted.removeprefix("/")]
    begun = [each for each in known if wanted and each.id.startswith(wanted.lower()) and each not in named]
    found = [*named, *begun]
    if len(found) == 1:
        return found[0]
    shown = printable(kept(wanted, _SHOWN))
    if named:
        ids = ", ".join(each.id[:_ID_SHOWN] for each in found[:_MOST_SHOWN])
        which = "a name, and the beginning of another's id" if begun else "the name of more than one container"
        raise NotFound(f"{shown!r} is {which} ({ids}): give the full id")
    if found:
        names = ", ".join(sorted((printable(each.name) for each in found), key=natural)[:_MOST_SHOWN])
        raise NotFound(f"{shown!r} is the beginning of {len(found)} ids ({names}): give more characters")
    near = closest(wanted, [each.name for each in known])
    hint = f"; did you mean {printable(near)!r}?" if near else listed
    raise NotFound(f"there is no container {shown!r}{hint}")
