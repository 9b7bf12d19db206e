"""The cgroups that the hand knows: parents that are open and watched, and the groups below them."""

from __future__ import annotations

import enum
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sidecar.hand.group_names import ParentKind
from sidecar.hand.inner_groups import InnerGroups
from sidecar.hand.libc_calls import close, open_directory
from sidecar.hand.overwrites import Overwrites


class Footing(enum.Enum):
    """How the expected CPUs of a group follow."""

    NEWBORN = enum.auto()
    """From the standing answers, and from what other programs wrote since its birth."""
    FOUND = enum.auto()
    """It existed when the hand began: the same, but it is left as it is while it has no owners' CPUs."""
    KNOWN = enum.auto()
    """They were written by an order."""
    RELEASED = enum.auto()
    """There are none: it is left as it is."""


class ShutGroup:
    """What is known of a group that was closed to the hand (`shut_groups`): the `reason`, for people; when it was told
    last, and whether it is due to be told again. `is_inside`: one inside it is.
    """

    __slots__ = ("is_due", "is_inside", "reason", "told_at")

    def __init__(self, reason: str, *, is_inside: bool = False) -> None:
        self.reason = reason
        self.is_inside = is_inside
        self.told_at = -math.inf
        self.is_due = False


class Parent:
    """A cgroup below which containers are born, open as `fd` and watched as `watch`; `cpuset_watch` is that of its own
    cpuset, -1 without one. `lock` is the descriptor that holds the lock on it, -1 without one. `id` is that of a
    container whose scope it is, "" for all others. `pinned` is what a pod's group had before it was widened.
    """

    __slots__ = ("cpuset_watch", "fd", "groups", "id", "kind", "lock", "path", "pinned", "watch")

    def __init__(self, path: str, kind: ParentKind, fd: int, lock: int = -1, id: str = "") -> None:
        self.path = path
        self.kind = kind
        self.fd = fd
        self.lock = lock
        self.id = id
        self.watch = -1
        self.cpuset_watch = -1
        self.pinned = b""
        self.groups: dict[bytes, WatchedGroup] = {}

    @property
    def place(self) -> str:
        """The parent below which the containers in it are born, as a path: a scope is only a part of one."""
        return os.path.dirname(self.path) if self.kind is ParentKind.SCOPE else self.path

    def below(self, name: bytes) -> str:
        """Return the path of a group in this one."""
        return path_below(self.path, name)


class WatchedGroup:
    """A cgroup below a parent. `watch` is that of its cpuset, -1 without one.

    `expected` is the line of the last order, None without one; `line` what its cpuset had last, None if it was never
    read or written. `is_closed`: the last attempt to write it failed. `theirs` is what other programs wrote last, b""
    if none has; `runs_on` the same for a group that was found, None before it is read.
    `inner` are the groups inside it, None as long as they were in no way.
    `is_answered`: what it has is a standing answer. `is_pinned`: that its runtime gave it CPUs of its own was told.
    `pin` is to which CPUs its engine had it pinned when an order guarded it no more, b"" if to none.
    `shut` is there while its cpuset may not be opened.
    """

    __slots__ = (
        "answers",
        "born_at",
        "expected",
        "footing",
        "id",
        "inner",
        "is_answered",
        "is_closed",
        "is_due",
        "is_pinned",
        "line",
        "name",
        "parent",
        "pin",
        "runs_on",
        "second",
        "shut",
        "theirs",
        "tries",
        "watch",
        "writes",
    )

    def __init__(self, parent: Parent, name: bytes, id: str, footing: Footing, born_at: float) -> None:
        self.parent = parent
        self.name = name
        self.id = id
        self.footing = footing
        self.born_at = born_at
        self.watch = -1
        self.expected: bytes | None = None
        self.line: bytes | None = None
        self.runs_on: bytes | None = None
        self.theirs = b""
        self.inner: InnerGroups | None = None
        self.is_answered = False
        self.is_closed = False
        self.is_pinned = False
        self.pin = b""
        self.shut: ShutGroup | None = None
        self.tries = 0
        self.is_due = False
        # How often it was answered within this second of the clock.
        self.second = 0
        self.answers = 0
        self.writes = Overwrites()

    @property
    def path(self) -> str:
        """Its path below the hierarchy's root."""
        return self.parent.below(self.name)

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Open its directory. Raise OSError."""
        fd = open_directory(self.parent.fd, self.name)
        try:
            yield fd
        finally:
            close(fd)


def path_below(path: str, name: bytes) -> str:
    """Return the path of a group in the one at this path, which may be the root."""
    return f"{path.rstrip('/')}/{os.fsdecode(name)}"


class GroupTable:
    """All of them: parents by path, both by watch, groups by the id of their container (outermost first)."""

    def __init__(self) -> None:
        self.parents: dict[str, Parent] = {}
        self.by_watch: dict[int, WatchedGroup] = {}
        self.parent_by_watch: dict[int, Parent] = {}
        self.parent_by_cpuset: dict[int, Parent] = {}
        self.by_id: dict[str, list[WatchedGroup]] = {}

    def add(self, group: WatchedGroup) -> None:
        """Take up a group."""
        group.parent.groups[group.name] = group
        if group.id:
            self.by_id.setdefault(group.id, []).append(group)

    def drop(self, group: WatchedGroup) -> None:
        """Forget a group; no error if it is unknown."""
        if group.parent.groups.get(group.name) is group:
            del group.parent.groups[group.name]
        if group.inner:
            group.inner.close()
        if self.by_watch.get(group.watch) is group:
            del self.by_watch[group.watch]
        alike = self.by_id.get(group.id, [])
        if group in alike:
            alike.remove(group)
        if not alike:
            self.by_id.pop(group.id, None)

    def groups(self) -> Iterator[WatchedGroup]:
        """Yield all groups; the table may change meanwhile."""
        for parent in list(self.parents.values()):
            yield from list(parent.groups.values())
