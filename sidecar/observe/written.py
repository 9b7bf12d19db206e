"""Looks at containers whose cpuset was written and that no hand guards: a write is a hint, like an engine's event.

Our own writes, through the engine, are heard as well. The look that follows finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Final

import trio

from sidecar.board import Board
from sidecar.decide.covering import will_cover
from sidecar.decide.facts import ContainerView
from sidecar.decide.world import World
from sidecar.host_ports import Kernel
from state.key import ContainerKey

PAUSE_SECONDS: Final = 0.05
"""Between two times of hearing: a loop of writes costs no more looks than that, and a runtime's writes are one. As long
between two choices of the cgroups to hear.
"""


async def follow_writes(
    board: Board, kernel: Kernel, look: Callable[[ContainerKey], None], look_at_everything: Callable[[], None]
) -> None:
    """Listen to all live containers that no hand guards, and ask for looks; return if nothing can be heard here."""
    ears = kernel.ears()
    if ears is None:
        return

    async def hear() -> None:
        while True:
            await trio.lowlevel.wait_readable(ears.fd)
            heard = ears.heard()
            if heard is None:
                look_at_everything()
            for key in heard or ():
                if key in board.latest.containers:
                    look(key)
            await trio.sleep(PAUSE_SECONDS)

    with closing(ears):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hear)
            async for world in board.worlds():
                ears.listen(_unguarded(world))
                await trio.sleep(PAUSE_SECONDS)


def _unguarded(world: World) -> Iterable[ContainerView]:
    live = (each for each in world.containers.values() if each.view.phase.is_live)
    return (each.view for each in live if not each.is_covered and not will_cover(world, each))
