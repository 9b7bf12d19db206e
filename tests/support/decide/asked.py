"""A world in which something was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sidecar.decide.whatif import turns
from sidecar.decide.world import World


def asking(world: World, requests: Iterable[tuple[str, Mapping[str, str]]]) -> World:
    """Return the world after all of these requests; without any, the same one."""
    *_, last = (world, *turns(world, requests))
    return last
