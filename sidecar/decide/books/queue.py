"""The queue: which containers ask for exclusive CPUs now, and in which order.

1. A container asks when it is first seen about to start, and again at each start: its `started_at` differs from that of
   the refusal, even if no look showed it stopped.
2. A refused container asks in each decision until it is granted CPUs, if it chose to wait, has not started yet, or lost
   its CPUs. These containers are the queue.
3. The queue is ordered by priority, then by the order in which the containers first asked. That order is recorded, and
   survives a restart of the sidecar.
4. Each decision asks in this order, newcomers last, and grants what fits. So a container gets CPUs before an earlier
   one only if the earlier one does not fit.
5. A request that this machine could never serve does not wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sidecar.decide.books.grants import keeps
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.facts import Phase
from sidecar.decide.world import World
from state.key import ContainerKey
from state.model import Assignment, Refused, Shortage, State
from state.refusal import Asked, RefusalCode

_COMING: Final = (Phase.CREATED, Phase.RESTARTING)

_RECONSIDERED: Final = (RefusalCode.CPUS_LOST, RefusalCode.AWAITS_PLACE)
"""Refusals that do not wait for another start, whatever the container chose: it had CPUs, or they are kept for it."""


def in_turn(world: World, state: State) -> list[Container]:
    """Return the containers to be answered now, in order. Usually there are none, so the common path is one pass."""
    asking = [
        container
        for key, container in world.containers.items()
        if (container.wish.demand is not None or container.wish.refusal is not None)
        and container.wish.standing is not Standing.UNMANAGED
        and key not in state.assignments
        and is_coming(container)
        and (key not in state.refusals or _asks_again(container, state.refusals[key]))
    ]
    # Containers that keep their CPUs come first: they ran before the sidecar did.
    return sorted(asking, key=lambda each: (not keeps(world, state, each), *_turn(state, each)))


def asks_anew(state: State, container: Container) -> bool:
    """Return whether it asks for the first time, or because of another start, rather than in the queue."""
    refused = state.refusals.get(container.view.key)
    return refused is None or container.is_held or _has_started_anew(container, refused)


def is_coming(container: Container) -> bool:
    """Return whether it runs or is about to start. A stopped container asks when it starts."""
    return not container.is_idle or container.is_held or (container.view.phase in _COMING and not container.is_lapsed)


def queue(world: World) -> tuple[ContainerKey, ...]:
    """Return the containers that get CPUs as soon as these come free, in the order of their turns."""
    return tuple(each.view.key for each in sorted(_waiting(world), key=lambda each: _turn(world.state, each)))


def overtakers(state: State, refused: Refused) -> tuple[Assignment, ...]:
    """Return the grants of containers that asked later than a refused one, and are not before it by priority."""
    if refused.demand is None or refused.asked is None:
        return ()
    asked, priority = refused.asked, refused.demand.priority
    return tuple(each for each in state.assignments.values() if each.asked > asked and each.demand.priority <= priority)


def _waiting(world: World) -> Iterator[Container]:
    for key, refused in world.state.refusals.items():
        container = world.containers.get(key)
        if container and is_coming(container) and is_hopeful(refused) and _asks_again(container, refused):
            yield container


def is_hopeful(refused: Refused) -> bool:
    """Return whether the request could be served on this machine if other containers gave up their CPUs."""
    detail = refused.refusal.detail
    return refused.demand is not None and (
        not detail.is_final if isinstance(detail, Asked) else refused.refusal.code is RefusalCode.CPUS_LOST
    )


def _asks_again(container: Container, refused: Refused) -> bool:
    if container.is_idle or _has_started_anew(container, refused) or refused.refusal.code in _RECONSIDERED:
        return True
    return refused.demand is not None and refused.demand.shortage is Shortage.WAIT


def _has_started_anew(container: Container, refused: Refused) -> bool:
    return refused.started_at is not None and refused.started_at != container.view.started_at


def _turn(state: State, container: Container) -> tuple[int, int, int]:
    """Return the sort key of its turn. A container that never asked comes after all that did."""
    refused, demand = state.refusals.get(container.view.key), container.wish.demand
    asked = state.asks if refused is None or refused.asked is None else refused.asked
    return -(demand.priority if demand else 0), asked, container.arrival
