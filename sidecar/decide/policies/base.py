"""The Policy protocol: from the world, what the books should say, and where everybody should run.

A policy is pure and idempotent: asked twice, it answers the same and changes nothing the second time. It decides
*who should hold what*; `plan` decides what may be ordered now.
"""

from __future__ import annotations

from typing import Protocol

from sidecar.decide.container.container import Container
from sidecar.decide.world import World
from state.cpuset import CPUSet
from state.model import State


class Policy(Protocol):
    """Who should hold what."""

    name: str

    def settle(self, world: World) -> State:
        """The books as they should be now: departures released, arrivals granted or refused."""

    def desired(self, world: World, container: Container) -> CPUSet | None:
        """Where a container should run; None where it is not this policy's to say."""
