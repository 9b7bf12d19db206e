"""Policies: from the world, what the books should say, and where everybody should run; and which there are.

A policy is pure and idempotent: asked twice, it answers the same and changes nothing the second time. It decides
*what each should hold*; `moves/plan` decides what may be ordered now.
"""

from __future__ import annotations

from typing import Protocol

from sidecar.decide.books.dynamic import DynamicPolicy
from sidecar.decide.books.static import StaticPolicy
from sidecar.decide.container.container import Container
from sidecar.decide.settings import PolicyName
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


class NonePolicy:
    """Leaves every container where it is, and the books as they are."""

    name = "none"

    def settle(self, world: World) -> State:
        """The books, unchanged."""
        return world.state

    def desired(self, world: World, container: Container) -> CPUSet | None:  # noqa: ARG002 - the protocol's shape
        """Nowhere in particular."""
        return None


def policy_named(name: PolicyName) -> Policy:
    """The policy of that name."""
    match name:
        case PolicyName.NONE:
            return NonePolicy()
        case PolicyName.STATIC:
            return StaticPolicy()
        case PolicyName.DYNAMIC:
            return DynamicPolicy()
