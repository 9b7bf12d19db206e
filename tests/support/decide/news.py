"""Looks that are on their way to the daemon: what was seen, and when each began."""

from __future__ import annotations

import dataclasses

from sidecar.decide.facts import ContainerView
from state.key import ContainerKey


@dataclasses.dataclass
class Inventory:
    """An inventory under way: taken, not yet delivered."""

    views: tuple[ContainerView, ...]
    began: int
    engine: str = ""
    """The name of the engine, where there are several."""


@dataclasses.dataclass
class Look:
    """A look under way: taken, not yet delivered."""

    view: ContainerView | None
    container: ContainerKey
    began: int
