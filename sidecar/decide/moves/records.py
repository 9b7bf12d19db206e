"""When the engine's record of a container waits. The hand has put it where it should be, and nothing else waits for it;
but each costs the engine a process of its own, and that holds up what is being started.

1. A plain newcomer's waits until it has lasted for a moment: most of them are gone by then.
2. Those of all that have no grant wait for an owner that is on its way: one that was just created and may be starting,
   or one that the hand is writing. For a container that is created for later they wait no longer than for a newcomer.
3. They wait for no more than `MOST_OWNERS` in a row, however many follow: once there was another, they wait for none
   until all of them are ordered. What is right again by itself, as after an owner that never started, was not ordered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sidecar.decide.container.container import Container
from sidecar.decide.container.grip import Closed, Writing
from sidecar.decide.covering import will_cover
from sidecar.decide.facts import Phase
from sidecar.decide.moves.plain import is_plain
from sidecar.decide.world import World, replace
from state.key import ContainerKey

RECORD_SECONDS: Final = 5.0
"""How long a record waits for a newcomer. To update one that is being started delays whatever follows, and on a busy
host a start takes more than a second.
"""


MOST_OWNERS: Final = 5
"""For so many owners, one after the other or at once, records wait: so for 25 seconds at most. If they waited for all,
tenants could keep the records of others back for as long as they like.
"""


def awaits_record(world: World, container: Container) -> bool:
    """Return whether the engine's record of a newcomer waits until it has lasted for a moment (1).

    If the hand cannot write it, the engine moves it. If the hand does not find its cgroup, it has mostly ended already,
    and the look that follows tells.
    """
    is_closed = isinstance(container.grip, Closed) and not container.grip.is_missing
    if not container.is_young or is_closed or not is_plain(world, container):
        return False
    return container.is_covered or will_cover(world, container)


def is_owner_to_come(world: World, container: Container) -> bool:
    """Return whether a container with a grant was just created, and may be starting: records wait for it (2)."""
    is_new = container.is_young and container.view.phase is Phase.CREATED
    return is_new and container.is_covered and container.view.key in world.state.assignments


def records_wait(world: World) -> bool:
    """Return whether an owner is on its way, for which the records of others wait (2, 3)."""
    coming = _on_their_way(world)
    return bool(coming) and len(coming | _waited_for(world)) <= MOST_OWNERS


def having_waited(world: World, *, is_last_ordered: bool) -> World:
    """Return the world that knows for which owners records have waited since the last of these was ordered (3).
    `is_last_ordered`: some are ordered now, and no other is left; but each write that is outstanding has one to follow.
    """
    hand, before, coming = world.hand, _waited_for(world), _on_their_way(world)
    if hand is None or not (before or coming):
        return world
    waited_for = before
    if is_last_ordered and not _is_any_written(world.containers.values()):
        waited_for = frozenset()
    elif len(before) <= MOST_OWNERS:
        waited_for = before | coming
    return world if waited_for == before else replace(world, hand=replace(hand, waited_for=waited_for))


def _waited_for(world: World) -> frozenset[ContainerKey]:
    return world.hand.waited_for if world.hand else frozenset()


def _is_any_written(containers: Iterable[Container]) -> bool:
    return any(isinstance(each.grip, Writing) for each in containers)


def _on_their_way(world: World) -> frozenset[ContainerKey]:
    owners = (world.containers.get(key) for key in world.state.assignments)
    return frozenset(
        each.view.key
        for each in owners
        if each is not None and (isinstance(each.grip, Writing) or is_owner_to_come(world, each))
    )


def is_record_alone(world: World, container: Container) -> bool:
    """Return whether an order to the engine changes nothing of where a container without a grant runs: the hand guards
    it there. One that is about to start is no such container, since a start may be what its order is for.
    """
    is_new = container.is_idle and container.view.phase in (Phase.CREATED, Phase.RESTARTING)
    return container.is_guarded and not is_new and container.view.key not in world.state.assignments
