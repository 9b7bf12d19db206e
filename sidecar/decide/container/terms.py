"""Terms: the options and rules for a demand on this node. Its own take precedence over the node's."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from sidecar.decide.settings import Settings
from state.demand import Demand, NumaRule

T = TypeVar("T")


class Terms(msgspec.Struct, frozen=True):
    """The options and rules for a demand under these settings. No term is None."""

    settings: Settings
    demand: Demand

    @property
    def options(self) -> tuple[str, ...]:
        """The placement options."""
        return own_or(self.demand.options, self.settings.options)

    @property
    def numa(self) -> NumaRule:
        """The NUMA rule for its CPUs."""
        return own_or(self.demand.numa, self.settings.numa)

    @property
    def grace_seconds(self) -> float:
        """Seconds of notice before CPUs are taken from it: its own, if the owner of the host allows as much."""
        own = self.demand.grace_seconds
        return self.settings.grace_seconds if own is None else min(own, self.settings.longest_notice_seconds)


def own_or(own: T | None, node: T) -> T:
    """Return a container's own value, or the node's if it is None."""
    return node if own is None else own
