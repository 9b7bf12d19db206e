"""Hints that may wait: most containers that are started by the dozen are gone before a look would be of use.

1. A container that asks for nothing, and that the hand covers, is where its answer says, whether it runs or not.
2. One that is not known was answered like all newborns, and its first look is under way since its creation: a second
   one would wait for the same lock. Once that look is told, its hints are judged again.
3. What the hand covers is where it was told to be, however often its settings are changed. So the first change is
   looked at at once, and those that follow it together, a while later: a loop of updates costs no more than that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import trio

from sidecar.board import Board
from sidecar.crashes import Crashes
from sidecar.decide.covering import will_cover
from sidecar.decide.moves.plain import is_plain
from sidecar.decide.world import World
from state.key import ContainerKey

BRIEF_SECONDS: Final = 2.0
"""How long a look waits after the last hint: a start takes a tenth of that, or half of it on a busy host."""

MOST_SECONDS: Final = 5.0
"""How long it waits after the first one at most: for one that starts and ends without pause, and for a first look."""

REPEAT_SECONDS: Final = 0.5
"""Between two looks because of changes: a person does not change a container so often, and a loop does 70 times in a
second.
"""

DECISION_SECONDS: Final = 0.01
"""From a look until the World has it, and more."""


def may_wait(world: World, key: ContainerKey) -> bool:
    """Return whether a start or an end of this container changes nothing that cannot wait: where it may run is known,
    whether it runs or not.
    """
    container = world.containers.get(key)
    if container is None:
        # 2.
        return world.hand is not None and world.hand.is_answering
    if container.order is not None or container.is_doubtful or not is_plain(world, container):
        return False
    return container.is_covered or will_cover(world, container)


class Hints:
    """Asks for looks some time after hints, by tasks of `nursery`."""

    def __init__(
        self, nursery: trio.Nursery, board: Board, look: Callable[[ContainerKey], None], crashes: Crashes
    ) -> None:
        self._nursery = nursery
        self._board = board
        self._look = look
        self._crashes = crashes
        self._due: dict[ContainerKey, float] = {}
        self._latest: dict[ContainerKey, float] = {}
        self._changed: dict[ContainerKey, float] = {}
        """When a look because of a change was asked for, or is to be, of those where that is not long ago."""

    def hear(self, container: ContainerKey, seconds: float = BRIEF_SECONDS) -> None:
        """Ask for a look because a container may have started or ended: at once, or later if it may wait."""
        if not self._may_wait(container):
            self._look(container)
            return
        now = trio.current_time()
        if container not in self._due:
            self._latest[container] = now + MOST_SECONDS
            self._nursery.start_soon(self._wait, container)
        self._due[container] = min(now + seconds, self._latest[container])

    def changed(self, container: ContainerKey) -> None:
        """Ask for a look because its settings may have changed: at once, or later if that comes again and again (3)."""
        now = trio.current_time()
        self._changed = {key: at for key, at in self._changed.items() if now < at + REPEAT_SECONDS}
        known = self._board.latest.containers.get(container)
        if known is None or not known.is_covered or container not in self._changed:
            self._changed[container] = now
            self._look(container)
        elif (at := self._changed[container] + REPEAT_SECONDS) < self._due.get(container, math.inf):
            self._changed[container] = self._due[container] = self._latest[container] = at
            self._nursery.start_soon(self._wait, container)

    def born(self, container: ContainerKey) -> None:
        """Hear of a birth. The first look waits for the same start."""
        self.hear(container, BRIEF_SECONDS if container in self._board.latest.containers else MOST_SECONDS)

    def told(self, container: ContainerKey) -> None:
        """Judge the hints of a container again whose first look was told."""
        if container in self._due:
            self._nursery.start_soon(self._judge, container)

    def answered(self, container: ContainerKey) -> None:
        """Forget its hints: a look begins now, or it is gone."""
        self._due.pop(container, None)
        self._latest.pop(container, None)

    async def _judge(self, container: ContainerKey) -> None:
        await trio.sleep(DECISION_SECONDS)
        if container in self._due and not self._may_wait(container):
            self._look(container)

    def _may_wait(self, container: ContainerKey) -> bool:
        with self._crashes.contained(container, "hint"):
            return may_wait(self._board.latest, container)
        return False

    async def _wait(self, container: ContainerKey) -> None:
        while (due := self._due.get(container)) is not None:
            if due <= trio.current_time():
                self._look(container)
            else:
                await trio.sleep_until(due)
