"""Policies: what the State should be, and where each container should run; and the policies by name.

A policy is pure and idempotent: a second call gives the same answer and changes nothing. It decides *what each
container should hold*; `moves/plan` decides what may be ordered now.
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
    """The rules for which CPUs each container should hold."""

    name: str

    def settle(self, world: World, last: World | None = None) -> State:
        """Return the State as it should be now: departures released, arrivals granted or refused. `last` is a world in
        which all that asked were answered: what has not changed since need not be decided again.
        """

    def desired(self, world: World, container: Container) -> CPUSet | None:
        """Return where a container should run; None if this policy does not place it."""


class NonePolicy:
    """Leaves every container where it is, and the State as it is."""

    name = "none"

    def settle(self, world: World, last: World | None = None) -> State:  # noqa: ARG002 - the protocol's shape
        """Return the State, unchanged."""
        return world.state

    def desired(self, world: World, container: Container) -> CPUSet | None:  # noqa: ARG002 - the protocol's shape
        """Return None: it places no container."""
        return None


def policy_named(name: PolicyName) -> Policy:
    """Return the policy of that name."""
    match name:
        case PolicyName.NONE:
            return NonePolicy()
        case PolicyName.STATIC:
            return StaticPolicy()
        case PolicyName.DYNAMIC:
            return DynamicPolicy()
