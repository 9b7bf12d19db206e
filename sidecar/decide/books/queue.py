"""The queue: which containers ask for exclusive CPUs now, and in which order.

1. A container asks when it is first seen about to start, and again at each start: its `started_at` differs from that of
   the refusal, even if no look showed it stopped. It asks as well if it asks for something else than what was refused,
   since the configuration changed: it is answered as if it were first seen, but for its place in the queue.
2. A refused container asks in each decision until it is granted CPUs, if it chose to wait, has not started yet, or lost
   its CPUs. These containers are the queue.
3. The queue is ordered by priority, then by the order in which the containers first asked. That order is recorded, and
   survives a restart of the sidecar.
4. Each decision asks in this order, and grants what fits. So a container gets CPUs before an earlier one only if the
   earlier one does not fit. Containers that ask for the first time come last, in the order of their creation: that does
   not depend on the order in which they were looked at.
5. A request that this machine could never serve does not wait.
6. One whose engine is not ready is not asked: nothing could be ordered for it, and its CPUs would keep others waiting.
7. A container that was refused rests while nothing has changed on which the answer depends (`resting`).
"""

from __future__ import annotations

from sidecar.decide.books.grants import keeps
from sidecar.decide.container.askers import asks_again, asks_anew, is_another_request, is_asking, is_coming
from sidecar.decide.container.container import Container
from sidecar.decide.world import World
from state.key import ContainerKey
from state.model import Assignment, Refused, State


def in_turn(world: World, state: State) -> list[Container]:
    """Return the containers to be answered now, in order. Usually there are none, so the common path is one pass."""
    asking = [
        container
        for key, container in world.containers.items()
        if is_asking(container)
        and key not in state.assignments
        and is_coming(container)
        and not world.is_absent(key)
        and (key not in state.refusals or asks_again(container, state.refusals[key]))
    ]
    # Containers that keep their CPUs come first: they ran before the sidecar did. Those that never asked come last.
    return sorted(asking, key=lambda each: (not _comes_first(world, state, each), *_turn(state, each)))


def is_new_request(state: State, container: Container) -> bool:
    """Return whether it asks for the first time, because of another start, or for something else than what was refused,
    rather than in the queue.
    """
    refused = state.refusals.get(container.view.key)
    return refused is None or container.is_held or asks_anew(container, refused)


def turn_of(world: World, key: ContainerKey) -> int:
    """Return the place of a container in the queue, from 1; 0 if it is not in the queue."""
    return world.queue.index(key) + 1 if key in world.state.refusals and key in world.queue else 0


def overtakers(state: State, refused: Refused) -> tuple[Assignment, ...]:
    """Return the grants of containers that asked later than a refused one, and are not before it by priority."""
    if refused.demand is None or refused.asked is None:
        return ()
    asked, priority = refused.asked, refused.demand.priority
    return tuple(each for each in state.assignments.values() if each.asked > asked and each.demand.priority <= priority)


def _comes_first(world: World, state: State, container: Container) -> bool:
    """Return whether it makes its request for the first time, and keeps its CPUs. One that was refused waits for its
    turn.
    """
    refused = state.refusals.get(container.view.key)
    return (refused is None or is_another_request(container, refused)) and keeps(world, state, container)


def _turn(state: State, container: Container) -> tuple[int, int, str, int]:
    refused, demand = state.refusals.get(container.view.key), container.wish.demand
    asked = state.asks if refused is None or refused.asked is None else refused.asked
    return -(demand.priority if demand else 0), asked, container.view.age, container.arrival
