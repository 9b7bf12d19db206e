"""The policy `none`: touches nothing."""

from __future__ import annotations

from sidecar.decide.container.container import Container
from sidecar.decide.world import World
from state.cpuset import CPUSet
from state.model import State


class NonePolicy:
    """Leaves every container where it is, and the books as they are."""

    name = "none"

    def settle(self, world: World) -> State:
        """The books, unchanged."""
        return world.state

    def desired(self, world: World, container: Container) -> CPUSet | None:  # noqa: ARG002 - the protocol's shape
        """Nowhere in particular."""
        return None
