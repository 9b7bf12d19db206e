"""Which container a directory by id or by name belongs to, and which directories of names belong to none.

A container's directories are found by its id (`short_of`). A unit of the host with CPUs of its own has one by its name,
and is found by the text of its key.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from state.errors import ProjectionError
from state.key import MARK, SYSTEMD
from state.projection import Projection, ProjectionFiles

SPARE_NAMES: Final = 64
"""Directories of unused names that are kept for a container to come: a compose project that is down, and its like."""

BY_UNIT: Final = "by-unit"
OF_UNIT: Final = f"{SYSTEMD}{MARK}"
"""How the handle of a unit begins."""

_FULL_ID: Final = re.compile(r"[0-9a-f]{12,64}")
_UNIT: Final = re.compile(OF_UNIT + r"[A-Za-z0-9:_\\@-][A-Za-z0-9:_.\\@-]{0,199}")
"""A unit's name as systemd allows it, short enough for the names that are made of it (systemd.unit(5))."""


def short_of(container: str) -> str:
    """Return the name of a container's directory by id, or a unit's handle. Raise ProjectionError if this is neither
    a container's id nor a unit's key.
    """
    if container.startswith(OF_UNIT) and _UNIT.fullmatch(container):
        return container
    if not _FULL_ID.fullmatch(container):
        raise ProjectionError(f"{container[:70]!r} is not a container's id")
    return container[:12]


def own_place(short: str) -> tuple[str, str]:
    """Return the directory that belongs to a container, or to a unit, alone, as a path below the root."""
    return (BY_UNIT, short.removeprefix(OF_UNIT)) if short.startswith(OF_UNIT) else ("by-id", short)


class ToldProjection(msgspec.Struct, frozen=True):
    """The last projection of a container, the names that it uses, and whether all its directories hold it."""

    written: ProjectionFiles | None
    names: frozenset[str]
    is_everywhere: bool = False
    since: int | None = None
    """The first generation from which on all leaving CPUs have been announced as leaving, without a break."""

    @property
    def projection(self) -> Projection | None:
        """The projection, None if it is not known."""
        return self.written.projection if self.written else None


class Owners:
    """The containers to which the directories by id belong: each to the first one whose id begins so."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    def own(self, container: str) -> str:
        """Return the name of the container's directory, which is its own now. Raise ProjectionError if it is
        another's.
        """
        short = short_of(container)
        if (owner := self._owners.setdefault(short, container)) != container:
            raise ProjectionError(f"{'/'.join(own_place(short))}: it belongs to {owner}, so {container} has none")
        return short

    def is_owner(self, container: str) -> bool:
        """Return whether the directory is the container's own, or no container's."""
        return self._owners.get(short_of(container), container) == container

    def release(self, short: str) -> None:
        """Leave a directory to the next container."""
        self._owners.pop(short, None)


class NameClaims:
    """Which containers use each name, by their short ids, in the order of their claims. The first has the files at the
    top of the name, until it is gone or leaves the name: no later claim takes them from it.
    """

    def __init__(self) -> None:
        self._claims: dict[str, list[str]] = {}

    def begin(self, name: str, recorded: Iterable[str], users: Collection[str]) -> None:
        """Take up what an earlier run left: the recorded order of its users, then the others by id."""
        order = dict.fromkeys([*(short for short in recorded if short in users), *sorted(users)])
        self._claims[name] = list(order)

    def claim(self, name: str, short: str) -> bool:
        """Note a claim. Return whether it is new."""
        claims = self._claims.setdefault(name, [])
        if short in claims:
            return False
        claims.append(short)
        return True

    def leave(self, name: str, short: str) -> None:
        """Note that a container does not use a name any more."""
        claims = [each for each in self._claims.pop(name, []) if each != short]
        if claims:
            self._claims[name] = claims

    def of(self, name: str) -> tuple[str, ...]:
        """Return the containers that use a name, the first one first."""
        return tuple(self._claims.get(name, ()))

    def is_first(self, name: str, short: str) -> bool:
        """Return whether the name belongs to this container."""
        return self.of(name)[:1] == (short,)

    def shared(self) -> dict[str, tuple[str, ...]]:
        """Return the names that several containers use."""
        return {name: tuple(claims) for name, claims in self._claims.items() if len(claims) > 1}


class SpareNames:
    """The names that no container uses, in the order in which they were left."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = dict.fromkeys(names)

    def used(self, names: Iterable[str]) -> None:
        """Note that a container uses these names, or that their directories are gone."""
        for name in names:
            self._names.pop(name, None)

    def left(self, name: str) -> None:
        """Note that the last container has left a name."""
        self.used([name])
        self._names[name] = None

    def too_many(self) -> int:
        """Return how many there are beyond `SPARE_NAMES`; 0 for none."""
        return max(0, len(self._names) - SPARE_NAMES)

    def oldest(self, kept: Collection[str]) -> list[str]:
        """Return those that are too many, the first that were left, but none of `kept`."""
        return [name for name in self._names if name not in kept][: self.too_many()]
