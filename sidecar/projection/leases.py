"""The leases of projection directories, as the daemon keeps them: begun, renewed, ended, and mended if spoiled.

1. A workload may have its own directory mounted writable, so a lease vouches for one mount alone: two directories share
   the file only if one is inside the other. The directory of a name shares it with that of its container below.
2. Each file has one more name, a hard link in `.staging`, by which it is renewed: the kernel tells the watchers of the
   directory of the name that was used (fsnotify, `__fsnotify_parent`), so no watcher of the other one wakes.
3. A lease begins and ends by a fresh file that is moved into place, which wakes every watcher. One that
   ran out begins again, so that a reader that waits for it is notified.
4. What a workload does to its lease harms only itself. A lease whose time cannot be set is replaced at once. One that
   was removed or replaced has one name less, which is noticed in one of `CHECK_ROUNDS` rounds. If it cannot be
   replaced, since a directory is in its place, that is tried once in a round. A lease that was renamed is noticed when
   the files are written next.
5. A lease that ends in one of two directories begins again in the other.
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
    """The leases of all directories below one root. Each is known by the place of the directory that it is for."""

    def __init__(self, clock: Callable[[], float], seconds: float = LEASE_SECONDS) -> None:
        """`clock` gives seconds since 1970; a renewal counts for `seconds`."""
        self._clock = clock
        self._seconds = seconds
        self._renewed: dict[Place, float] = {}
        """When each lease that is held was last renewed; `_NEVER` for one that must begin again."""
        self._lease_of: dict[Place, Place] = {}
        """The lease of each directory."""
        self._places: dict[Place, list[Place]] = {}
        """The directories of each lease."""
        self._spoiled: set[Place] = set()
        """The directories in which the lease must be put again."""
        self._rounds = 0
        self._to_check: frozenset[Place] = frozenset()
        """The leases whose names are counted in this round."""

    def hold(self, tree: ProjectionTree, path: Place, at: int, lease: Place | None = None) -> None:
        """Begin the lease of the directory that is open as `at`, unless it counts: its own, or the `lease` of another.

        Raise FileUnwritable.
        """
        lease = lease or path
        if self._lease_of.get(path, lease) != lease:
            self.forget(tree, path)
        if path not in self._lease_of:
            self._lease_of[path] = lease
            self._places.setdefault(lease, []).append(path)
        if not self._counts(lease) or not (tree.has_lease(lease, at) or tree.share_lease(lease, at)):
            self._begin(tree, lease, at)
        self._spoiled.discard(path)

    def held(self) -> list[Place]:
        """Begin a round, and return the leases that are held."""
        self._rounds += 1
        leases = list(self._renewed)
        self._to_check = frozenset(leases[self._rounds % CHECK_ROUNDS :: CHECK_ROUNDS])
        return leases

    def renew(self, tree: ProjectionTree, leases: Iterable[Place]) -> list[str]:
        """Renew these leases, of those that are held. Return the errors."""
        errors: list[str] = []
        now = self._clock()
        for lease in leases:
            renewed = self._renewed.get(lease)
            if renewed is None:
                continue
            if seconds_left(renewed, self._seconds, now) and tree.renew_lease(lease, now):
                self._renewed[lease] = now
                if self._spoiled or lease in self._to_check:
                    errors += self._put(tree, lease, self._lost(tree, lease))
            else:
                self._renewed[lease] = _NEVER
                errors += self._put(tree, lease, self._places[lease])
        return errors

    def end(self, tree: ProjectionTree, path: Place) -> None:
        """End the lease of a directory. Without a word if it cannot be ended: then it runs out."""
        if (lease := self._lease_of.get(path)) is None:
            return
        self._end(tree, lease, [path])
        self.forget(tree, path)
        if lease in self._renewed:
            self._renewed[lease] = _NEVER
            self._put(tree, lease, self._places[lease])

    def end_all(self, tree: ProjectionTree) -> None:
        """End every lease that is held."""
        for lease, places in sorted(self._places.items()):
            self._end(tree, lease, places)
        for path in list(self._lease_of):
            self.forget(tree, path)

    def forget(self, tree: ProjectionTree, path: Place) -> None:
        """Hold the lease of a directory no more that was removed, or is about to be."""
        lease = self._lease_of.pop(path, None)
        self._spoiled.discard(path)
        if lease is None:
            return
        self._places[lease].remove(path)
        if not self._places[lease]:
            del self._places[lease], self._renewed[lease]
            with suppress(FileUnwritable):
                tree.drop_lease(lease)

    def _counts(self, lease: Place) -> bool:
        return seconds_left(self._renewed.setdefault(lease, _NEVER), self._seconds, self._clock()) > 0

    def _lost(self, tree: ProjectionTree, lease: Place) -> list[Place]:
        """Return the directories of a lease that may be without it."""
        places = self._places[lease]
        if lease in self._to_check and not tree.has_names(lease, 1 + len(places)):
            return places
        return [path for path in places if path in self._spoiled]

    def _put(self, tree: ProjectionTree, lease: Place, places: Iterable[Place]) -> list[str]:
        """Put a lease into these directories, where it is not there. Return the errors."""
        errors: list[str] = []
        for path in places:
            try:
                with tree.opened(path) as at:
                    self.hold(tree, path, at, lease)
            except FileUnreadable:
                # The directory is gone, and so is the lease; it begins when the files are written again.
                self._spoiled.add(path)
            except StateError as error:
                self._spoiled.add(path)
                errors.append(f"{'/'.join(path)}: {error}")
        return errors

    def _begin(self, tree: ProjectionTree, lease: Place, at: int) -> None:
        now = self._clock()
        tree.put_lease(lease, at, now)
        self._renewed[lease] = now
        # The former file is still in the others.
        self._spoiled.update(self._places[lease])

    def _end(self, tree: ProjectionTree, lease: Place, places: Iterable[Place]) -> None:
        # By its name in staging first, which needs no space and no directory.
        tree.renew_lease(lease, 0.0)
        for path in places:
            with suppress(StateError), tree.opened(path) as at:
                tree.put_ended_lease(at)


def lease_of(path: Place, short: str) -> Place:
    """Return the directory whose lease this one shares: a name's has that of its container's directory inside."""
    return (*path, "by-id", short) if path[0] == "by-name" and len(path) == 2 else path
