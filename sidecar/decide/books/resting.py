"""Resting: a queue that was refused beside the present books is not asked again until something of these changes.

A refusal depends on the demand, on what is known of its container, and on the books: the machine, the settings, the
grants and vacancies, the CPUs of containers pinned by hand, the loads, and which owners are idle. The last decision
has answered all that asked. If it left the grants as they were, its refusals are those beside these grants, and each
stands while the books and its container are the same.
"""

from __future__ import annotations

from sidecar.decide.container.askers import is_another_request
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.world import World
from state.key import ContainerKey
from state.model import State


def has_the_same_grants(state: State, after: State) -> bool:
    """Return whether a decision left all as it was on which an answer depends."""
    return _grants(state) == _grants(after)


def has_the_same_books(before: World, world: World, state: State) -> bool:
    """Return whether what `before` answered holds in this State of the world, for each container that is the same."""
    if before.settings is not world.settings or before.topology is not world.topology:
        return False
    if before.strangers != world.strangers or (world.strangers and _pinned(before) != _pinned(world)):
        return False
    if before.loads != world.loads or not has_the_same_grants(before.state, state):
        return False
    return all(_is_idle(before, key) == _is_idle(world, key) for key in state.assignments)


def is_refused_alike(before: World, state: State, container: Container) -> bool:
    """Return whether a container was refused before, and nothing has changed of it on which the answer depends."""
    key = container.view.key
    was, refused = before.containers.get(key), state.refusals.get(key)
    if was is None or refused is None or refused is not before.state.refusals.get(key):
        return False
    if is_another_request(container, refused):
        # Its engine was away when the request changed, so that it was not answered.
        return False
    return was is container or _asks_of(was) == _asks_of(container)


def _grants(state: State) -> tuple[object, ...]:
    return (state.assignments, state.vacancies, state.online, state.reserved, state.strict, state.isolated)


def _asks_of(container: Container) -> tuple[object, ...]:
    view = container.view
    asked = (container.wish, view.name, view.phase, view.started_at, container.is_held, container.is_lapsed)
    return (*asked, view.cpuset, container.place.seen)


def _is_idle(world: World, key: ContainerKey) -> bool:
    owner = world.containers.get(key)
    return owner is None or owner.is_idle


def _pinned(world: World) -> list[str]:
    return [each.view.name for each in world.containers.values() if each.wish.standing is Standing.STRANGER]
