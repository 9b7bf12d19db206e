"""The leases of projection directories, as the daemon keeps them: begun, renewed, ended, and mended if spoiled.

1. Each directory has a file of its own. A workload may have its own directory mounted writable: with a file that
   several directories share, it could vouch for all of them.
2. Each file has a second name, a hard link in `.staging`, by which it is renewed: the kernel tells the watchers of the
   directory of the name that was used (fsnotify, `__fsnotify_parent`), so no watcher of the other one wakes.
3. A lease begins and ends by a fresh file that is moved into place, which wakes every watcher. One that
   ran out begins again, so that a reader that waits for it is notified.
4. What a workload does to its lease harms only itself. A lease whose time cannot be set is replaced at once. One that
   was removed or replaced has one name less, which is noticed in one of `CHECK_ROUNDS` rounds. If it cannot be
   replaced, since a directory is in its place, that is tried once in a round. A lease that was renamed is noticed when
   the files are written next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from sidecar.projection.directories import ProjectionTree
from state.errors import FileUnreadable, FileUnwritable, StateError
from state.lease import LEASE_SECONDS, seconds_left

CHECK_ROUNDS: Final = 12
"""In so many rounds the names of each lease are counted once: each minute, as that costs as much as a renewal."""

_NEVER: Final = -math.inf

Place = tuple[str, ...]
"""The names of a directory, below the root."""


class Leases:
    """The leases of all directories below one root, held by their paths."""

    def __init__(self, clock: Callable[[], float], seconds: float = LEASE_SECONDS) -> None:
        """`clock` gives seconds since 1970; a renewal counts for `seconds`."""
        self._clock = clock
        self._seconds = seconds
        self._renewed: dict[Place, float] = {}
        """When each lease that is held was last renewed; `_NEVER` for one that must begin again."""
        self._rounds = 0
        self._to_check: frozenset[Place] = frozenset()
        """The leases whose names are counted in this round."""

    def hold(self, tree: ProjectionTree, path: Place, at: int) -> None:
        """Begin the lease of the directory that is open as `at`, unless it counts. Raise FileUnwritable."""
        renewed = self._renewed.setdefault(path, _NEVER)
        if seconds_left(renewed, self._seconds, self._clock()) and tree.has_lease(path, at):
            return
        self._begin(tree, path, at)

    def places(self) -> list[Place]:
        """Begin a round, and return the directories whose leases are held."""
        self._rounds += 1
        places = list(self._renewed)
        self._to_check = frozenset(places[self._rounds % CHECK_ROUNDS :: CHECK_ROUNDS])
        return places

    def renew(self, tree: ProjectionTree, places: Iterable[Place]) -> list[str]:
        """Renew the leases of these directories, of those that are held. Return the errors."""
        errors: list[str] = []
        for path in places:
            if path not in self._renewed:
                continue
            try:
                self._renew(tree, path)
            except FileUnreadable:
                # The directory is gone, and so is the lease; it begins when the files are written again.
                self._renewed[path] = _NEVER
            except StateError as error:
                self._renewed[path] = _NEVER
                errors.append(f"{'/'.join(path)}: {error}")
        return errors

    def end(self, tree: ProjectionTree, path: Place) -> None:
        """End a lease. Without a word if it cannot be ended: then it runs out."""
        if self._renewed.pop(path, None) is None:
            return
        # By its second name first, which needs no space and no directory.
        tree.renew_lease(path, 0.0)
        with suppress(StateError), tree.opened(path) as at:
            tree.put_ended_lease(at)
        self.forget(tree, path)

    def end_all(self, tree: ProjectionTree) -> None:
        """End every lease that is held."""
        for path in sorted(self._renewed):
            self.end(tree, path)

    def forget(self, tree: ProjectionTree, path: Place) -> None:
        """Hold the lease of a directory no more that was removed, or is about to be."""
        self._renewed.pop(path, None)
        with suppress(FileUnwritable):
            tree.drop_lease(path)

    def _renew(self, tree: ProjectionTree, path: Place) -> None:
        now = self._clock()
        if seconds_left(self._renewed[path], self._seconds, now) and tree.renew_lease(path, now):
            self._renewed[path] = now
            if path not in self._to_check or tree.has_both_names(path):
                return
        else:
            self._renewed[path] = _NEVER
        with tree.opened(path) as at:
            self.hold(tree, path, at)

    def _begin(self, tree: ProjectionTree, path: Place, at: int) -> None:
        now = self._clock()
        tree.put_lease(path, at, now)
        self._renewed[path] = now
