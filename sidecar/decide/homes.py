"""Where the containers of an engine are born that name no cgroup parent: its default, which Docker does not tell. It is
known from the configuration, or from the first one that a look shows there; of each engine by itself.
"""

from __future__ import annotations

from sidecar.decide.facts import ContainerView, ViewKind
from sidecar.decide.hand_state import HandState
from sidecar.decide.world import World, replace


def home_of(hand: HandState) -> tuple[str, ...]:
    """Return the parents where containers are born that name none; none where that is not known."""
    return tuple(sorted({*hand.home, *(path for paths in hand.homes.values() for path in paths)}))


def keeps_defaults(world: World, hand: HandState) -> bool:
    """Return whether all defaults are watched beside these: with several engines, those of one are another's."""
    return len(world.contacts) > 1 and not hand.home


def with_home_shown(world: World, hand: HandState, view: ContainerView) -> HandState:
    """Return the hand that knows where this container was found, if it names no parent."""
    if not view.found_below or view.cgroup_parent or view.in_shared_group or view.kind is not ViewKind.CONTAINER:
        return hand
    if view.is_glance:
        # It may name one.
        return hand
    homes = hand.homes.get(view.engine, ())
    if view.found_below in (*hand.home, *homes) or not has_set_home(world, view.engine):
        return hand
    found = {view.engine: tuple(sorted({*homes, view.found_below}))}
    return replace(hand, homes={**hand.homes, **found})


def has_set_home(world: World, engine: str) -> bool:
    """Return whether an engine has one default parent, which can be set. It is assumed until the engine is known."""
    info = world.info_of(engine)
    return info is None or info.traits.has_default_parent
