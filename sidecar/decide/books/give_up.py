"""Releases of one container, ordered by people: which may be ordered, and the State after an order.

The container runs in the shared pool from then on, and asks again at its next start, as after a refusal. A start is the
next one if it is later than the order, by the engine's time stamp: a look may show an earlier one only afterwards. A
start that is held is the next one already, and asks: its CPUs would be granted again in the same decision.
"""

from __future__ import annotations

from sidecar.decide.facts import GiveUpRequested
from sidecar.decide.world import World, replace
from state.key import ContainerKey
from state.model import Refused
from state.refusal import Named, Refusal, RefusalCode


def obstacle(world: World, container: ContainerKey) -> Refusal | None:
    """Return why the exclusive CPUs of this container cannot be released; None if they can."""
    known = world.containers.get(container)
    if known is None:
        return Refusal(RefusalCode.UNKNOWN_CONTAINER)
    if container not in world.state.assignments:
        return Refusal(RefusalCode.NOT_GRANTED, Named(known.view.name))
    if known.is_held:
        return Refusal(RefusalCode.START_HELD)
    return None


def after_giving_up(world: World, fact: GiveUpRequested) -> World:
    """Return the world after a release was ordered. It counts as well if the grant has ended since it was taken, and
    not if its start was held since.
    """
    key = fact.container
    if key not in world.containers or not (key in world.state.assignments or key in world.state.refusals):
        return world
    if world.containers[key].is_held:
        return world
    view = world.containers[key].view
    refused = Refused(
        container=view.key,
        name=view.name,
        refusal=Refusal(RefusalCode.GIVEN_UP),
        started_at=view.started_at,
        released_at=fact.at,
    )
    return replace(world, state=world.state.refused(refused))
