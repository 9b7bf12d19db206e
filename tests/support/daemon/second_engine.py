"""A second simulated engine on the kernel of the first: its containers, and its calls under a name of its own."""

from __future__ import annotations

from random import Random
from typing import Final

from sidecar.decide.facts import ContainerView
from sidecar.decide.world import replace
from state.topology import Topology
from tests.support.engine.simulated import SimulatedEngine
from tests.support.engine.simulated_docker import SimulatedDocker
from tests.support.engine.simulated_kernel import SimulatedKernel

OTHER: Final = "podman"


class SecondEngine(SimulatedEngine):
    """Shows its containers under its own name."""

    def __init__(self, machine: Topology, kernel: SimulatedKernel | None = None, seed: int = 2) -> None:
        super().__init__(SimulatedDocker(machine, chance=Random(seed)))
        self.name = OTHER
        if kernel is not None:
            self.docker.kernel = kernel

    async def inspect(self, container: str) -> ContainerView:
        """Return the engine's view of one container."""
        return replace(await super().inspect(container), engine=OTHER)

    async def glance(self, container: str) -> ContainerView:
        """Return the identity of a container."""
        return replace(await super().glance(container), engine=OTHER)
