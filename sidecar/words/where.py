"""Where a container runs, or would start, as people read it. Pure."""

from __future__ import annotations

from sidecar.decide.world import World
from state.cpuset import CPUSet


def without_offline(world: World, cpus: CPUSet) -> CPUSet:
    """Return these CPUs of a look without those that went offline since: nothing runs there. If all did, all of them:
    the kernel moved what runs, and the next look shows where.
    """
    return cpus & world.topology.online or cpus
