"""The groups inside owners' groups, watched for births: a container that is created there runs on the owner's CPUs.

Nothing is written there: on v1 a group has no CPU that the one above it lacks, and the owner's is enforced. A birth is
told, and so is that the group is gone. Which of them are containers of an engine is not known here: a workload may make
groups inside its own, and an engine inside a container calls them by ids as well.

1. A group is watched first and listed then, so none is born unseen in between.
2. It is a walk without calls of itself, and without paths from the root: a tenant chooses how deep it is.
3. Up to `MOST_GROUPS` groups of an owner are watched. What is born below another one is found by looks alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from sidecar.hand.group_files import GroupFiles, watchable
from sidecar.hand.group_names import ParentKind, recognized
from sidecar.hand.groups import path_below
from sidecar.hand.libc_calls import Queue, close, directories, open_directory
from sidecar.hand.watched_tree import TREE_MASK
from sidecar.host.cgroup.descent import Descent
from sidecar.ports import GroupBorn, GroupGone, HandNews

MOST_GROUPS: Final = 256
"""Watched groups of one owner, its own included: a system in a container has some dozens. Each is an inotify watch."""


class _Owner:
    """An owner's group: `watches` by the paths of the groups that are watched, `told` the ids of those that were told,
    by their paths.
    """

    __slots__ = ("id", "path", "told", "watches")

    def __init__(self, id: str, path: str) -> None:
        self.id = id
        self.path = path
        self.watches: dict[str, int] = {}
        self.told: dict[str, str] = {}


class OwnersGroups:
    """Watches below the groups of owners. `is_needed` tells which watches others need, `tell` receives the news."""

    def __init__(
        self, files: GroupFiles, queue: Queue, is_needed: Callable[[int], bool], tell: Callable[[HandNews], None]
    ) -> None:
        self._files = files
        self._queue = queue
        self._is_needed = is_needed
        self._tell = tell
        self._owners: dict[str, _Owner] = {}
        self._at: dict[int, tuple[_Owner, str]] = {}

    def follow(self, owners: Iterable[tuple[str, str]]) -> None:
        """Watch the groups of these owners, each by its path and its container's id, and no others."""
        wanted = dict(owners)
        for path in [path for path, each in self._owners.items() if wanted.get(path) != each.id]:
            self.forget(path)
        for path, id in wanted.items():
            self.add(path, id)

    def add(self, path: str, id: str) -> None:
        """Watch the group of one owner more, if it is not watched yet."""
        if path not in self._owners:
            self._begin(_Owner(id, path))

    def _begin(self, owner: _Owner) -> None:
        self._enter(owner, owner.path)
        if owner.watches:
            self._owners[owner.path] = owner

    def forget(self, path: str) -> None:
        """Leave the group of an owner, which is none any more, or is gone; no error if it is not known."""
        if owner := self._owners.pop(path, None):
            self._leave(owner, path)

    def created(self, watch: int, name: bytes) -> None:
        """Take up a new directory, if it is in a group that is watched here."""
        if found := self._at.get(watch):
            owner, above = found
            path = path_below(above, name)
            self._meet(owner, path, name)
            if path not in owner.watches:
                self._enter(owner, path)

    def deleted(self, watch: int, name: bytes) -> None:
        """Forget a directory, and what was in it."""
        if found := self._at.get(watch):
            owner, above = found
            self._leave(owner, path_below(above, name))

    def read_all(self) -> None:
        """Read all of it again in place of events that were lost."""
        for owner in list(self._owners.values()):
            self.forget(owner.path)
            self._begin(owner)

    def _enter(self, owner: _Owner, path: str) -> None:
        """Watch the group at this path and those in it, and tell of those that have a container's name."""
        with suppress(OSError):
            fd = self._files.open_path(path)
            try:
                at = Descent(fd, open_directory, close)
            finally:
                close(fd)
            try:
                self._walk(owner, path, at)
            finally:
                at.close()

    def _walk(self, owner: _Owner, path: str, at: Descent) -> None:
        stack = [(path, self._watch(owner, path, at.fd))]
        while stack:
            above, names = stack[-1]
            if not names:
                stack.pop()
                if stack:
                    at.up()
                continue
            name = names.pop()
            path = path_below(above, name)
            self._meet(owner, path, name)
            if path in owner.watches or len(owner.watches) >= MOST_GROUPS:
                continue
            with suppress(OSError):
                at.down(name)
                stack.append((path, []))
                stack[-1] = path, self._watch(owner, path, at.fd)

    def _watch(self, owner: _Owner, path: str, fd: int) -> list[bytes]:
        """Watch an open group (1). Return the names of those in it; none if there is no watch for it."""
        if len(owner.watches) >= MOST_GROUPS:
            return []
        watch = owner.watches[path] = self._queue.watch(watchable(fd), TREE_MASK)
        self._at[watch] = owner, path
        return [name for name, _ in directories(fd, b".")]

    def _meet(self, owner: _Owner, path: str, name: bytes) -> None:
        seen = recognized(name, ParentKind.GUESTS)
        if seen and seen.id and path not in owner.told and len(owner.told) < MOST_GROUPS:
            owner.told[path] = seen.id
            self._tell(GroupBorn(seen.id, path, None, time.monotonic(), owner.id))

    def _leave(self, owner: _Owner, path: str) -> None:
        """Leave the group at this path and those in it, and tell that they are gone."""
        within = f"{path}/"
        for each in [each for each in owner.watches if each == path or each.startswith(within)]:
            watch = owner.watches.pop(each)
            self._at.pop(watch, None)
            if not self._is_needed(watch):
                self._queue.leave(watch)
        for each in [each for each in owner.told if each == path or each.startswith(within)]:
            self._tell(GroupGone(owner.told.pop(each), each, owner.id))
