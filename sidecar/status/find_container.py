"""Find a container by what people type: its name, or the beginning of its ID. Pure."""

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


LISTED: Final = "; `cpuset-sidecar status` lists them"
"""Where people find the names."""


class NotFound(SidecarError):
    """No container has that name, or several IDs begin with it; the message names the nearest."""


def find(candidates: Iterable[N], wanted: str, *, listed: str = LISTED) -> N:
    """Return the candidate of this name, or the only one whose id begins so. Raise NotFound; where no name is near, it
    ends with `listed`.
    """
    known = tuple(candidates)
    named = [each for each in known if each.name == wanted.removeprefix("/")]
    found = named or [each for each in known if wanted and each.id.startswith(wanted.lower())]
    if len(found) == 1:
        return found[0]
    shown = printable(kept(wanted, _SHOWN))
    if found:
        names = ", ".join(sorted((printable(each.name) for each in found), key=natural)[:10])
        raise NotFound(f"{shown!r} is the beginning of {len(found)} ids ({names}): give more characters")
    near = closest(wanted, [each.name for each in known])
    hint = f"; did you mean {printable(near)!r}?" if near else listed
    raise NotFound(f"there is no container {shown!r}{hint}")
