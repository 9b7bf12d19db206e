"""What is said of where processes begin that join a container. Pure."""

from __future__ import annotations

from sidecar.decide.container.container import Container
from sidecar.decide.moves.exec_cpus import exec_cpus, exec_rule
from sidecar.decide.world import World

NO_FRONT = "cpuset.exec has no effect: no front is seen here, so exec and health checks begin on any CPU of a container"
NO_FRONT_CURE = "`cpuset-sidecar install-runtime --default` puts one before the engine's own runtime"
OLD_KERNEL = "cpuset.exec has no effect before Linux 6.2: that forgets where a process was to begin as it joins"


def exec_told(world: World, container: Container) -> str:
    """Return where they begin, as a sentence; "" if on any of its CPUs."""
    if not (chosen := exec_cpus(world, container)):
        return ""
    rule = exec_rule(world, container)
    return f"Where a front starts them, exec and health checks begin on {chosen} (cpuset.exec is {rule})."
