"""Intruders: the containers that run where another one is settled, in a simulation; there should be none. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.decide.books.takes import held
from sidecar.decide.moves.alone import is_alone, is_never_moved
from sidecar.decide.moves.settled import is_settled
from sidecar.decide.world import World
from sidecar.simulation.busy_container import BusyContainer
from state.cpuset import EMPTY
from state.key import ContainerKey


def intruders(world: World, containers: Mapping[ContainerKey, BusyContainer]) -> list[str]:
    """Return a sentence for each container that runs where another is settled, once the sidecar looked at both. One
    that is never moved counts if the other is said to be alone.
    """
    found = []
    seen = {key: each for key, each in containers.items() if not each.is_unseen and each.effective}
    for key, assignment in world.state.assignments.items():
        container, real = world.containers.get(key), seen.get(key)
        if container is None or real is None or not is_settled(world, container):
            continue
        is_by_itself = is_alone(world, container)
        own = held(assignment, container)
        if real.effective != own:
            found.append(f"{real.name} is settled on {own} and runs on {real.effective}")
        for other_key, other in seen.items():
            known = world.containers.get(other_key)
            if other is real or known is None:
                continue
            if is_never_moved(known) and not (is_by_itself and known.view.phase.is_live):
                continue
            if both := (other.effective or EMPTY) & own:
                found.append(f"{real.name} is settled on {own}, and {other.name} runs on {both}")
    return found
