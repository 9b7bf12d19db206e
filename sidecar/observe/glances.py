"""Glances: what an engine shows of a container without its lock, and what the kernel shows of it.

The lock may be held by a start whose program runs already, while the engine calls the container created or exited. So
the kernel is asked first where the hand would have answered its birth: what the books know of its parent says where.
Of what is born while its engine is away the books know nothing: the hand's news says where it is, such as in a pod's
cgroup.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from sidecar.board import Board
from sidecar.crashes import Crashes
from sidecar.decide.covering import birthplaces
from sidecar.decide.facts import ContainerRemoved, ContainerSeen, ContainerView, Phase
from sidecar.failures import EngineFailed, EngineRefused, EngineSilent
from sidecar.ports import Engine
from state.key import ContainerKey

GLANCE_SECONDS: Final = 1.0
"""How long an inventory waits for a glance at a container without a grant: it takes a millisecond, or as long as all
its labels do.
"""


class Glances:
    """Glances at the containers of one engine. `complete` adds what the kernel shows of a view. EngineFailed."""

    def __init__(
        self, board: Board, engine: Engine, crashes: Crashes, complete: Callable[[ContainerView], ContainerView]
    ) -> None:
        self._board = board
        self._engine = engine
        self._crashes = crashes
        self._complete = complete
        self._born: dict[ContainerKey, str] = {}
        """Below which cgroup containers were born while their engine was away, until a look shows them."""

    def born(self, container: ContainerKey, below: str) -> None:
        """Hear that a container was born below this cgroup while its engine is away."""
        known = self._board.latest.containers
        self._born = {key: at for key, at in self._born.items() if key not in known or known[key].view.is_glance}
        self._born[container] = below

    def forget(self, container: ContainerKey) -> None:
        """Forget where a container was born that is gone."""
        self._born.pop(container, None)

    async def at(self, container: ContainerKey) -> ContainerView:
        """Return a glance; one that cannot be understood shows a container that may run anywhere."""
        try:
            with self._crashes.contained(container, "glance"):
                return self._found(await self._engine.glance(container.id))
        except (EngineFailed, EngineRefused, EngineSilent):
            pass
        return self.unread(container)

    def unread(self, container: ContainerKey) -> ContainerView:
        """Return the view of a container of which nothing can be read."""
        # The kernel knows whether an exited container runs.
        unread = ContainerView(engine=container.engine, id=container.id, name=container.short, phase=Phase.EXITED)
        return self._found(msgspec.structs.replace(unread, is_glance=True))

    def by_the_kernel(self, container: ContainerKey, began: int) -> ContainerSeen | ContainerRemoved | None:
        """Return what the kernel alone tells of a container that no look has shown, while its engine is away: that it
        runs, under its id, or that it does no more; None if that is known, or cannot be found out.
        """
        world = self._board.latest
        known = world.containers.get(container)
        if known is not None and not known.view.is_glance:
            return None
        try:
            with self._crashes.contained(container, "glance"):
                found = self.unread(container)
        except EngineFailed:
            return None
        if found.effective is None:
            self.forget(container)
        if known is None:
            return ContainerSeen(found, began) if found.effective is not None else None
        has_ended = found.effective is None and not world.state.has_records(container)
        return ContainerRemoved(container, began) if has_ended else None

    def _found(self, glance: ContainerView) -> ContainerView:
        """Return a glance with what the kernel shows: below the cgroup where its birth was seen, or the parents where
        it is born, as the books know; or else wherever engines put containers.
        """
        seen = [below] if (below := self._born.get(glance.key)) else []
        for parent in (*seen, *birthplaces(self._board.latest, glance.key)):
            found = self._complete(msgspec.structs.replace(glance, cgroup_parent=parent))
            if found.effective is not None:
                return msgspec.structs.replace(found, cgroup_parent=glance.cgroup_parent)
        return self._complete(glance)
