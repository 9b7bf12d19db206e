"""Where containers run, asked of the kernel every period, whatever the engine does meanwhile.

Looks ask the kernel as well, and in a usual period each container was looked at: then nothing is left to ask. What an
engine answers late, or is asked for seldom, is read here. A difference is told at once, and looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

from sidecar.beat import beat
from sidecar.board import Board
from sidecar.crashes import Crashes
from sidecar.decide.container.container import Container
from sidecar.decide.covering import is_heard
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.world import World
from sidecar.failures import EngineFailed
from sidecar.observe.foreign_writes import ToldWrites
from state.key import ContainerKey

INVENTORY_SECONDS: Final = 1.0
"""How long the kernel's turn waits for the inventory of the same beat, which asks it as well."""


class KernelTurns:
    """Asks the kernel of containers that are known. `complete` asks it, and returns the view as it is now; `tell_moved`
    takes one that differs. `is_ours` tells whether a container belongs to the engine that is looked after.
    """

    def __init__(
        self,
        board: Board,
        crashes: Crashes,
        writes: ToldWrites,
        *,
        complete: Callable[[ContainerView], ContainerView],
        tell_moved: Callable[[ContainerView], None],
        is_ours: Callable[[ContainerKey], bool],
    ) -> None:
        self._board = board
        self._crashes = crashes
        self._writes = writes
        self._complete = complete
        self._tell_moved = tell_moved
        self._is_ours = is_ours
        self._asked: dict[ContainerKey, float] = {}
        """When the kernel was last asked where a container runs."""
        self._inventory = trio.Event()
        """Set at the end of an inventory."""

    def asked(self, container: ContainerKey) -> None:
        """Hear that the kernel was asked where a container runs."""
        self._asked[container] = trio.current_time()

    def end_inventory(self) -> None:
        """Hear that an inventory has ended."""
        self._inventory.set()
        self._inventory = trio.Event()

    async def keep(self, period_seconds: float) -> None:
        """Ask at each beat of the period of which nothing was asked since, until cancelled."""
        while True:
            began = await beat(period_seconds)
            with trio.move_on_after(min(INVENTORY_SECONDS, period_seconds / 2)):
                await self._inventory.wait()
            world = self._board.latest
            self._writes.forget_calm(trio.current_time())
            self._asked = {key: at for key, at in self._asked.items() if key in world.containers}
            for key, known in world.containers.items():
                if self._asked.get(key, -math.inf) < began and self._is_ours(key) and _tells(world, known):
                    with suppress(EngineFailed), self._crashes.contained(key, "look"):
                        if (view := self._complete(known.view)) != known.view:
                            self._tell_moved(view)


def _tells(world: World, known: Container) -> bool:
    """Return whether the kernel shows anything of a container: an order shows where it ends, and a doubt is ended by a
    look alone. Of one that has never run, the hand hears the birth; to find that it has no cgroup takes long.
    """
    is_unborn = known.view.phase is Phase.CREATED and is_heard(world, known)
    return not (known.order or known.is_doubtful or known.is_held or known.view.is_glance or is_unborn)
