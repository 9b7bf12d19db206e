"""Directories of which a workload left more than is removed at once: what is left goes with the next calls."""

from __future__ import annotations

from collections.abc import Iterable

from sidecar.projection.directories import ProjectionTree
from sidecar.projection.leases import Place


class Leftovers:
    """The directories that are to go, and are still there."""

    def __init__(self) -> None:
        self._places: set[Place] = set()

    def remove(self, tree: ProjectionTree, place: Place) -> None:
        """Remove a directory, or as much of it as takes no time."""
        tree.remove(place[:-1], place[-1])
        if tree.is_there(place):
            self._places.add(place)
        else:
            self._places.discard(place)

    def used(self, places: Iterable[Place]) -> None:
        """Take it that these are a container's again."""
        self._places.difference_update(places)

    def go_on(self, tree: ProjectionTree) -> None:
        """Remove more of what is left."""
        for place in sorted(self._places):
            self.remove(tree, place)

    def __bool__(self) -> bool:
        """Return whether anything is left."""
        return bool(self._places)
