"""Plain containers: those that ask for nothing, and that the hand places. Most of them are gone within seconds."""

from __future__ import annotations

from typing import Final

from sidecar.decide.container import role, swarm_task
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.mounts import projection_name
from sidecar.decide.container.rules import ruled
from sidecar.decide.container.swarm_task import is_task
from sidecar.decide.container.wish import is_unmanaged
from sidecar.decide.facts import ContainerView
from sidecar.decide.settings import OptIn, Settings
from sidecar.decide.world import World

IDENTIFYING: Final = frozenset((*role.LABELS, *swarm_task.LABELS))
"""Labels that ask for nothing."""


def is_plain(world: World, container: Container) -> bool:
    """Return whether a container asks for nothing and reads no projection by name.

    If the hand covers it, it runs where the hand puts it at each birth, and stays there. So nothing waits for what the
    engine has configured for it, nor for the news that it runs.
    """
    if container.is_strict or container.wish.standing is not Standing.MANAGED:
        return False
    key, wish, state = container.view.key, container.wish, world.state
    if wish.demand is not None or wish.refusal is not None or key in state.assignments or key in state.refusals:
        return False
    return not world.is_releasing and projection_name(container.view, world.settings) is None


def is_told_plain(world: World, told: ContainerView) -> bool:
    """Return whether a container that was just created, and of which no more is known than its name, image and labels,
    asks for nothing; and whether the hand answers its birth, if that is below a parent that it watches. Then no
    decision needs to know it before it has lasted: until then it is one of the newborns.

    Whether it is pinned, or born elsewhere, is not known: the hand tells of the one, and does not tell of the other's
    birth.
    """
    state, hand = world.state, world.hand
    if hand is None or not hand.is_answering or world.is_absent(told.key) or world.is_releasing:
        return False
    if told.key in world.containers or told.key in state.assignments or told.key in state.originals:
        return False
    return asks_nothing(told, world.settings)


def asks_nothing(told: ContainerView, settings: Settings) -> bool:
    """Return whether a container with this name, image and these labels asks for nothing, whatever else it has."""
    if settings.opt_in is OptIn.GUARANTEED or is_task(told) or is_unmanaged(told, settings):
        # Its limits may ask, Swarm may count on it, or it is left alone.
        return False
    return ruled(told, settings.rules)[0].labels.keys() <= IDENTIFYING


def labels_tell(settings: Settings) -> bool:
    """Return whether the labels of a container alone tell that it asks for nothing: no limit, and no rule, asks for it
    or keeps it out.
    """
    return settings.opt_in is not OptIn.GUARANTEED and not settings.rules and not settings.unmanaged
