"""All footprints combined: which CPUs containers may touch, and where they conflict."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Reach(msgspec.Struct, frozen=True):
    """All footprints combined, as masks: CPUs touched by any container, and by two or more; CPUs touched by a container
    with a grant, and by two or more of these.
    """

    touched: int
    crowded: int
    exclusive: int
    contested: int

    def others(self, footprint: int) -> int:
        """Return the CPUs, as a mask, touched by any container other than the one with this footprint."""
        return self.crowded | (self.touched & ~footprint)

    def other_exclusive(self, footprint: int) -> int:
        """Return the CPUs, as a mask, touched by an exclusive container other than the one with this footprint."""
        return self.contested | (self.exclusive & ~footprint)


def reach_of(footprints: Iterable[tuple[int, bool]]) -> Reach:
    """Return the combination of footprints, given as masks, each with whether its container has a grant."""
    touched = crowded = exclusive = contested = 0
    for footprint, is_exclusive in footprints:
        crowded |= touched & footprint
        touched |= footprint
        if is_exclusive:
            contested |= exclusive & footprint
            exclusive |= footprint
    return Reach(touched, crowded, exclusive, contested)
