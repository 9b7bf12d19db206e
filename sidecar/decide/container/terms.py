"""Terms: what a demand is served by on this node. Its own words go before the node's, which hold where it has none."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from sidecar.decide.settings import Settings
from state.model import Demand, NumaRule

T = TypeVar("T")


class Terms(msgspec.Struct, frozen=True):
    """What a demand is served by under these settings. Each term is known, and read when it is asked for."""

    settings: Settings
    demand: Demand

    @property
    def options(self) -> tuple[str, ...]:
        """Its placement options."""
        return own_or(self.demand.options, self.settings.options)

    @property
    def numa(self) -> NumaRule:
        """How its CPUs must lie to NUMA nodes."""
        return own_or(self.demand.numa, self.settings.numa)

    @property
    def grace_seconds(self) -> float:
        """Seconds of notice before CPUs are taken from it."""
        return own_or(self.demand.grace_seconds, self.settings.grace_seconds)


def own_or(own: T | None, node: T) -> T:
    """A container's own word, or the node's where it has none."""
    return node if own is None else own
