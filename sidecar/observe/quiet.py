"""Quiet: inventories of which no decision knows, since nothing followed from the last one, and nothing is new.

A decision costs the journal a line, and each reader of the board a round: the status is written again, and each file of
a projection is compared. So an inventory that shows what is known is told once after each change, and then no more. It
is told all the same

1. where it was asked for, because news was lost;
2. while a look is under way, which may have begun before it: the inventory proves that it is outdated;
3. while there is a problem: what failed, as the writing of a file, is tried again with the next decision.

What people remove from directories is looked for without a decision, by `projection/teller` and `status/narrator`.
"""

from __future__ import annotations

from sidecar.board import Board
from sidecar.decide.facts import InventoryTaken
from sidecar.decide.sightings import is_same, shows_news
from sidecar.decide.world import World


class Quiet:
    """Judges one engine's inventories, each once."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._last: World | None = None
        """The world at the end of the last inventory."""

    def holds(self, taken: InventoryTaken, *, is_awaited: bool) -> bool:
        """Return whether nothing follows from an inventory. `is_awaited`: it was asked for, or a look is under way."""
        before, self._last = self._last, self._board.latest
        if before is None or is_awaited or self._board.problems:
            return False
        return is_same(before, self._last) and not shows_news(self._last, taken)
