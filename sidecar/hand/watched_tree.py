"""Which parents are there, and what is above those that are not: opened, watched, and read.

Each wanted parent has a watch on the nearest directory above it that exists, which says when the parent appears or is
gone. An event of a removal is the only sign of it: watches on the files of a removed cgroup stay until they are left
(Linux up to 6.18), and an open directory is not closed by it.

On v1 a group can be renamed, within its parent: two events, the second right after the first. Under its name it is gone
then, and under the new one a group is born. Whatever that name says, it is taken up: a container's processes are in it.

A parent has one hand: it is watched only while this process holds the lock on its directory (`parent_lock`). One that
another process has locked is *taken*, and is tried again at each `settle`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from sidecar.hand.group_files import CPUS, GroupFiles, watchable
from sidecar.hand.group_names import GroupKind, GroupName, ParentKind, has_inner_group, recognized
from sidecar.hand.group_places import GroupPlaces
from sidecar.hand.groups import Footing, GroupTable, Parent, WatchedGroup, path_below
from sidecar.hand.libc_calls import COMES, GOES, IN_MODIFY, IN_ONLYDIR, Queue, close, open_directory
from sidecar.hand.parent_lock import lock_directory

TREE_MASK: Final = COMES | GOES | IN_ONLYDIR
"""For all watches of directories: a directory has one, with the mask that it was given last."""


class WatchedTree:
    """The watched parents of one hierarchy. It writes nothing."""

    def __init__(self, files: GroupFiles, queue: Queue, table: GroupTable, places: GroupPlaces) -> None:
        self._files = files
        self._queue = queue
        self._table = table
        self._places = places
        self._wanted: dict[str, ParentKind] = {}
        self._found: dict[str, ParentKind] = {}
        """Parents that were found below others: pods, and the group of builds."""
        self._taken: set[str] = set()
        self._above: dict[int, str] = {}
        self._renamed: Parent | None = None
        """Where a group that was taken up has lost its name, and what it is called now is in the next event."""

    @property
    def parents(self) -> tuple[str, ...]:
        """The parents that are watched, sorted."""
        return tuple(sorted(path for path, each in self._table.parents.items() if each.kind is not ParentKind.SCOPE))

    @property
    def taken(self) -> tuple[str, ...]:
        """The parents that are not watched because another process has locked them, sorted."""
        return tuple(sorted(self._taken))

    def want(self, wanted: Mapping[str, ParentKind]) -> bool:
        """Watch these from the next `settle` on, as well as those found below them. Return whether any is new."""
        is_new = not wanted.keys() <= self._wanted.keys()
        for path in self._wanted.keys() - wanted.keys():
            if path not in self._found:
                self.forget(path)
        self._wanted = dict(wanted)
        self._taken &= self._wanted.keys() | self._found.keys()
        return is_new

    def place(self) -> None:
        """Tell the queue the places of the parents: the engine's own may be known only now."""
        for parent in self._table.parents.values():
            self._place(parent)

    def settle(self, footing: Footing, now: float) -> Iterator[WatchedGroup]:
        """Open and watch the wanted parents that have appeared, and yield the groups in them, taken up."""
        for path, kind in sorted((self._wanted | self._found).items()):
            if path in self._table.parents or not self._watch_above(path) or not self._open(path, kind):
                continue
            yield from self.read(self._table.parents[path], footing, now)

    def read(self, parent: Parent, footing: Footing, now: float) -> Iterator[WatchedGroup]:
        """Yield the groups in this parent that were not known, taken up."""
        for name in self._files.names(parent.path):
            if name not in parent.groups:
                yield from self.take_up(parent, name, footing, now)

    def take_up(
        self, parent: Parent, name: bytes, footing: Footing, now: float, *, is_renamed: bool = False
    ) -> Iterator[WatchedGroup]:
        """Yield the group of this name, taken up, and those below it if it is a parent; none if it is none of ours. One
        that `is_renamed` was one of ours before.
        """
        seen = recognized(name, parent.kind) or (GroupName(GroupKind.STEP) if is_renamed else None)
        if seen is None:
            return
        path = parent.below(name)
        if seen.kind is GroupKind.PARENT or path in self._wanted:
            self._found.setdefault(path, seen.parent_kind)
            yield from self.settle(footing, now)
            return
        self._watch_cpuset(parent)
        group = WatchedGroup(parent, name, seen.id or parent.id, footing, now)
        self._table.add(group)
        yield group
        if (
            seen.id
            and self._files.version == 2
            and has_inner_group(name)
            and self._open(path, ParentKind.SCOPE, id=seen.id)
        ):
            yield from self.read(self._table.parents[path], footing, now)

    def created(
        self, watch: int, name: bytes, footing: Footing, now: float, *, is_renamed: bool = False
    ) -> Iterator[WatchedGroup]:
        """Yield the groups that this directory brings, taken up. It is new, or `is_renamed`: has a new name."""
        parent = self._table.parent_by_watch.get(watch)
        was_ours = is_renamed and parent is not None and parent is self._renamed
        if is_renamed:
            self._renamed = None
        if parent and name not in parent.groups:
            yield from self.take_up(parent, name, footing, now, is_renamed=was_ours)
        if watch in self._above:
            yield from self.settle(footing, now)

    def deleted(self, watch: int, name: bytes, *, is_renamed: bool = False) -> WatchedGroup | None:
        """Forget what was in this directory under this name: it is gone, or `is_renamed`. Return the group; None if it
        was none.
        """
        parent = self._table.parent_by_watch.get(watch)
        at = parent.path if parent else self._above.get(watch)
        if at is None:
            return None
        path = path_below(at, name)
        group = parent.groups.get(name) if parent else None
        if is_renamed:
            self._renamed = parent if group else None
        if path in self._table.parents:
            self.forget(path)
        for each in [watch for watch, above in self._above.items() if above == path]:
            self._queue.leave(each)
            del self._above[each]
        if group:
            self._drop(group)
        return group

    def forget(self, path: str) -> None:
        """Close a parent, and forget all below it."""
        self._found.pop(path, None)
        self._taken.discard(path)
        parent = self._table.parents.pop(path, None)
        if parent is None:
            return
        for group in list(parent.groups.values()):
            self._drop(group)
        self._table.parent_by_watch.pop(parent.watch, None)
        if parent.cpuset_watch >= 0:
            self._table.parent_by_cpuset.pop(parent.cpuset_watch, None)
            self._queue.leave(parent.cpuset_watch)
        self._queue.forget_parent(parent.watch)
        if parent.watch not in self._above:
            self._queue.leave(parent.watch)
        self._shut(parent)

    def needs(self, watch: int) -> bool:
        """Return whether this watch is one of a parent, or above one."""
        return watch in self._table.parent_by_watch or watch in self._above

    def is_gone(self, parent: Parent) -> bool:
        """Return whether another directory, or none, has this parent's place now."""
        try:
            fd = self._files.open_path(parent.path)
        except OSError:
            return True
        try:
            return self._queue.watch(watchable(fd), TREE_MASK) != parent.watch
        finally:
            close(fd)

    def is_reborn(self, group: WatchedGroup) -> bool:
        """Return whether another cgroup has this one's name now: another file has another watch."""
        if group.watch < 0:
            return False
        try:
            fd = open_directory(group.parent.fd, group.name)
        except OSError:
            return True
        try:
            return self._queue.watch(watchable(fd, CPUS), IN_MODIFY) != group.watch
        except OSError:
            return True
        finally:
            close(fd)

    def _drop(self, group: WatchedGroup) -> None:
        self._table.drop(group)
        if group.watch >= 0:
            self._queue.leave(group.watch)
        if group.path in self._table.parents:
            self.forget(group.path)

    def _open(self, path: str, kind: ParentKind, id: str = "") -> bool:
        """Open, lock and watch a parent. Return whether it is there, may be written, and has no other hand."""
        self._taken.discard(path)
        if not self._files.is_writable(path):
            return False
        try:
            fd = self._files.open_path(path)
        except OSError:
            return False
        parent = Parent(path, kind, fd, id=id)
        try:
            if kind is not ParentKind.SCOPE:
                parent.lock = lock_directory(fd)
            parent.watch = self._queue.watch(watchable(fd), TREE_MASK)
        except BlockingIOError:
            self._taken.add(path)
            self._shut(parent)
            return False
        except OSError:
            self._shut(parent)
            return False
        self._table.parents[path] = self._table.parent_by_watch[parent.watch] = parent
        self._watch_cpuset(parent)
        self._place(parent)
        return True

    def _place(self, parent: Parent) -> None:
        self._queue.know_parent(parent.watch, parent.fd, parent.kind, self._places.number(parent.path))

    def _watch_cpuset(self, parent: Parent) -> None:
        """Watch a parent's own cpuset, if it has one now: on v2 the first container may bring it, and the root has
        none. That of a scope is watched as its container's.
        """
        if parent.kind is ParentKind.SCOPE or parent.cpuset_watch >= 0:
            return
        with suppress(OSError):
            parent.cpuset_watch = self._queue.watch(watchable(parent.fd, CPUS), IN_MODIFY)
            self._table.parent_by_cpuset[parent.cpuset_watch] = parent

    def _shut(self, parent: Parent) -> None:
        close(parent.fd)
        if parent.lock >= 0:
            close(parent.lock)

    def _watch_above(self, path: str) -> bool:
        """Watch the nearest directory above that exists. Return False if that is not possible."""
        at = os.path.dirname(path)
        while True:
            try:
                fd = self._files.open_path(at)
            except OSError:
                if at in ("", "/"):
                    return False
                at = os.path.dirname(at)
                continue
            try:
                self._above[self._queue.watch(watchable(fd), TREE_MASK)] = at.rstrip("/")
            except OSError:
                return False
            finally:
                close(fd)
            return True
