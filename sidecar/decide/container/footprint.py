"""All footprints laid on top of each other: who may be where, and who is in whose way."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Reach(msgspec.Struct, frozen=True):
    """All footprints laid on top of each other, as masks: CPUs touched by anybody, by two or more; and by those with a
    grant, by two or more of these.
    """

    anybody: int
    crowded: int
    exclusive: int
    contested: int

    def others(self, footprint: int) -> int:
        """CPUs touched by anybody but the container with this footprint."""
        return self.crowded | (self.anybody & ~footprint)

    def other_exclusive(self, footprint: int) -> int:
        """CPUs touched by an exclusive container other than the one with this footprint."""
        return self.contested | (self.exclusive & ~footprint)


def reach_of(footprints: Iterable[tuple[int, bool]]) -> Reach:
    """Where everybody may be: footprints as masks, each with whether its container has a grant."""
    anybody = crowded = exclusive = contested = 0
    for footprint, is_exclusive in footprints:
        crowded |= anybody & footprint
        anybody |= footprint
        if is_exclusive:
            contested |= exclusive & footprint
            exclusive |= footprint
    return Reach(anybody, crowded, exclusive, contested)
