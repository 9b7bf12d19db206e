"""Simulations for tests: small machines under the dynamic policy."""

from __future__ import annotations

from sidecar.config.config import Config
from sidecar.decide.settings import PolicyName
from sidecar.simulation.virtual_host import Simulation
from state.cpuset import CPUSet
from state.topology import Topology, uniform

CONFIG = Config(policy=PolicyName.DYNAMIC, reserved=CPUSet.of(0), linger_seconds=1.0)


def host(cores: int = 8, config: Config = CONFIG, machine: Topology | None = None) -> Simulation:
    """Return a host of this many cores, one CPU each; CPU 0 is reserved."""
    return Simulation(machine or uniform(cores=cores), config)


def runs(
    simulation: Simulation,
    name: str,
    cpus: int,
    *,
    most: int | None = None,
    scale: str = "",
    grace: str = "",
    follows: bool = False,
    moves_in: float | None = None,
    demand: float = 0.0,
) -> None:
    """Create and start a container now that asks for this many CPUs, up to `most`."""
    labels = {"cpuset.exclusive": str(cpus)}
    labels |= {"cpuset.max": str(most)} if most else {}
    labels |= {"cpuset.scale": scale} if scale else {}
    labels |= {"cpuset.grace": grace} if grace else {}
    simulation.create(name, labels, follows=follows, moves_in=moves_in, demand=demand)
    simulation.run(name)


def said(simulation: Simulation, name: str, what: str) -> list[float]:
    """Return when this happened to a container."""
    return [each.at for each in simulation.log if each.container == name and each.what == what]
