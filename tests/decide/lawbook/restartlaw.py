"""The law of restarts: after a restart at rest, what people and workloads read is the same.

Compared are the status document and every projection. What tells about one life of the sidecar is left out: the notes
about its last start, loads, which it measures again, and faults of orders, which it tries again, as it does memory
nodes that failed with an order. A member that is held back gets no other order, so its fault stays. A host on which a
lost order may still take effect is left out as well: a restart ends that doubt by a rule of its own.
"""

from __future__ import annotations

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.world import World, replace
from sidecar.projection.projection_of import projection_of
from sidecar.status.describe import status_of
from state.codec import to_builtins
from tests.support.decide import strictstarts
from tests.support.decide.reality import Reality

_STEPS = 2000
"""More than any restart takes."""


def changed_by_a_restart(reality: Reality) -> list[str]:
    """Restart the sidecar, let everything come to rest, and return what reads differently."""
    is_unsure = any(each.is_doubtful for each in reality.world.containers.values())
    if reality.world.is_releasing or is_unsure or any(each.is_locked for each in reality.containers.values()):
        return []
    before, memory = reality.world, tries_memory_again(reality.world)
    reality.crash([True])
    for _ in range(_STEPS):
        if not strictstarts.one_goes_on(reality) and not reality.go_on():
            return [words for where, words in differences(before, reality.world).items() if where not in memory]
    raise AssertionError("it never comes to rest")


def tries_memory_again(world: World) -> set[str]:
    """Return the fields that tell of memory nodes which failed with an order, or that a lost order may still change: a
    restart tries them again, and ends that doubt.
    """
    unsure = (each for each in world.containers.values() if each.keeps_mems or each.may_change_memory)
    return {f"{each.view.name} projected mems" for each in unsure}


def differences(before: World, world: World) -> dict[str, str]:
    """Return what reads differently after a restart, as a sentence for each field."""
    was, now = told(before), told(world)
    return {
        where: f"{where} was {was.get(where)!r}, and is {now.get(where)!r} after a restart"
        for where in sorted(was.keys() | now.keys())
        if was.get(where) != now.get(where)
    }


def told(world: World) -> dict[str, object]:
    """Return what people and workloads read, by field."""
    containers = {
        key: replace(each, fault=each.fault if _is_kept(each) else None, keeps_mems=False)
        for key, each in world.containers.items()
    }
    world = replace(world, loads={}, notes=(), containers=containers)
    status = to_builtins(status_of(world))
    found = {f"status {field}": value for field, value in status.items() if field != "containers"}
    for each in status["containers"]:
        found |= {f"{each['name']} {field}": value for field, value in each.items()}
    for container in world.containers.values():
        projection = to_builtins(projection_of(world, container))
        found |= {f"{container.view.name} projected {field}": value for field, value in projection.items()}
    return found


def _is_kept(container: Container) -> bool:
    """Return whether its fault outlives a restart: that of a member which is held back is not followed by an order."""
    return container.is_held_back and container.wish.standing is Standing.MEMBER
