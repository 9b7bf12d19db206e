"""BusyHost: the modelled host of a scenario, whose containers are identified by name, and the durations on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from sidecar.failures import ConfigError, EngineRefused
from sidecar.simulation.busy_container import BusyContainer
from sidecar.simulation.model_host import ModelHost
from sidecar.simulation.model_kernel import ModelKernel
from sidecar.simulation.model_limits import Limits
from sidecar.simulation.simulated_use import SimulatedUse
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.topology import Topology

ENGINE: Final = "simulated"
"""What the simulated engine calls itself."""


class ScenarioError(ConfigError):
    """A scenario that cannot be played: what is wrong, where, and what would be right."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How long things take, in seconds, on a quiet host with Docker."""

    hint: float = 0.001
    """From an event of the engine to the end of the look at the container."""
    store: float = 0.003
    """An update of a container without processes: a write of configuration."""
    apply: float = 0.010
    """An update of a live container, with the kernel's confirmation."""
    between: float = 0.010
    """From the create to the start of one `docker run`."""
    start: float = 0.200
    stop: float = 0.050
    hotplug: float = 0.050
    """From the arrival or loss of a CPU until the machine was read again."""


class BusyHost(ModelHost[BusyContainer]):
    """What a scenario's host adds to the model. It follows cgroup v2."""

    def __init__(self, machine: Topology) -> None:
        super().__init__(ModelKernel(machine))
        self._created = 0

    def named(self, name: str) -> BusyContainer:
        """Return the container of that name. Raise ScenarioError if there is none now."""
        for each in self.containers.values():
            if each.name == name:
                return each
        there = ", ".join(each.name for each in self.containers.values()) or "none"
        raise ScenarioError(f"there is no container {name!r} now; there is {there}")

    def create(
        self,
        name: str,
        labels: Mapping[str, str],
        limits: Limits,
        now: float,
        demand: float,
        *,
        image: str = "",
        runtime: str = "",
    ) -> BusyContainer:
        """Add a container, not started, and return it. Raise ScenarioError if the name is in use."""
        self._created += 1
        key, use = ContainerKey(ENGINE, f"{self._created:064x}"), SimulatedUse(demand, now)
        try:
            return self.add(
                BusyContainer(
                    key=key,
                    name=name,
                    kernel=self.kernel,
                    labels=labels,
                    limits=limits,
                    use=use,
                    image=image,
                    runtime=runtime,
                )
            )
        except EngineRefused as error:
            raise ScenarioError(
                f"there is a container {name!r} already: remove it before it is created again"
            ) from error

    def switch(self, online: CPUSet, now: float = 0.0) -> None:
        """Set which CPUs of the machine are online from now on. Raise ScenarioError if there are none."""
        if not online:
            raise ScenarioError("the last CPU cannot go offline")
        super().switch(online, now)
