"""Looks that are on their way to the daemon: what was seen, and when each began."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable

from sidecar.decide.facts import ContainerView
from state.key import ContainerKey
from tests.support.decide.real import Real


@dataclasses.dataclass
class Inventory:
    """An inventory under way: taken, not yet delivered."""

    views: tuple[ContainerView, ...]
    began: int
    engine: str = ""
    """The name of the engine, where there are several."""
    has_list: bool = True
    """Whether the engine listed its containers for it: else those were looked at that were known when it began."""

    def covers(self, key: ContainerKey) -> bool:
        """Return whether it is a look at this container as well, or tells that it does not exist."""
        return self.has_list or any(view.key == key for view in self.views)


def inventory_of(
    reals: Iterable[Real], began: int, engine: str = "", *, known: Collection[ContainerKey] | None = None
) -> Inventory:
    """Return an inventory of these; if the list rests, of those among them that are `known`."""
    views = []
    for real in reals:
        if known is None or real.key in known:
            real.be_looked_at()
            views.append(real.glance() if real.is_locked else real.view())
    return Inventory(tuple(views), began, engine, has_list=known is None)


@dataclasses.dataclass
class Look:
    """A look under way: taken, not yet delivered."""

    view: ContainerView | None
    container: ContainerKey
    began: int
