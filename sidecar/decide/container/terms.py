"""Terms: what a demand is served by on this node. Its own words go before the node's, which hold where it has none."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from sidecar.decide.settings import Settings
from state.model import Demand, NumaRule

T = TypeVar("T")


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Placement options, NUMA rule, and seconds of notice before CPUs are taken: all of them known."""

    options: tuple[str, ...]
    numa: NumaRule
    grace_seconds: float


def terms_of(settings: Settings, demand: Demand) -> Terms:
    """The terms of a demand under these settings."""
    return Terms(
        options=own_or(demand.options, settings.options),
        numa=own_or(demand.numa, settings.numa),
        grace_seconds=own_or(demand.grace_seconds, settings.grace_seconds),
    )


def own_or(own: T | None, node: T) -> T:
    """A container's own word, or the node's where it has none."""
    return node if own is None else own
