"""Unstarted: containers that need no look, since the engine's list says that they have never run, as a look did.

The list is one answer for all, with the state of each; a look is a question for each. A host may have hundreds of
containers that were created and never started. Nothing moves them, no start of one goes unseen (the list has another
state then), and what people change in one is an event. So a look at one that is listed as before is spared for
`LOOK_SECONDS`, unless news was lost. An engine may call a container created whose processes run: where no hand hears
births, the kernel is asked about them as about all others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import trio

from sidecar.board import Board
from sidecar.decide.facts import Phase
from sidecar.decide.sightings import differs
from state.key import ContainerKey

LOOK_SECONDS: Final = 300.0
"""Between two looks at most: an update whose event was lost, though no news seems to be, may go unseen for so long."""


class Unstarted:
    """Judges the containers of one engine."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._listed: frozenset[str] = frozenset()
        self._looked: dict[ContainerKey, float] = {}

    def listed(self, ids: Iterable[str]) -> None:
        """Hear which containers the list of this inventory says have never run; none if it does not count."""
        self._listed = frozenset(ids)
        self._looked = {key: at for key, at in self._looked.items() if key in self._board.latest.containers}

    def looked(self, container: ContainerKey) -> None:
        """Hear of the end of a look."""
        self._looked[container] = trio.current_time()

    def needs_a_look(self, container: ContainerKey) -> bool:
        """Return whether an inventory looks at a container."""
        if container.id not in self._listed:
            return True
        world, age = self._board.latest, trio.current_time() - self._looked.get(container, -math.inf)
        known = world.containers.get(container)
        if known is None or known.view.is_glance or known.view.phase is not Phase.CREATED or known.order:
            return True
        return known.is_held or differs(world, known.view) or age >= LOOK_SECONDS
