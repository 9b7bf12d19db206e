"""Planted faults about containers that are out of the hand's reach: what is believed of them, and what moves them."""

from __future__ import annotations

import sys
from functools import partial

import pytest

from sidecar.decide import covering, step, wresting
from sidecar.decide.container.container import Container
from sidecar.decide.container.grip import Closed, Loose, Writing
from sidecar.decide.container.grip_machine import GRIPS
from sidecar.decide.container.news import GripNews, SlipTold
from sidecar.decide.container.tables import same
from sidecar.decide.hand_facts import HandFact, Slipped
from sidecar.decide.orders import Order
from sidecar.decide.world import World, replace
from state.cpuset import CPUSet
from state.key import ContainerKey
from tests.decide.lawbook import laws, sliplaws
from tests.decide.lawbook.faults import Fault


def ignores_what_slips(patch: pytest.MonkeyPatch) -> None:
    honest = covering.after_hand

    def after_hand(world: World, fact: HandFact) -> tuple[World, tuple[Order, ...]]:
        return (world, ()) if isinstance(fact, Slipped) else honest(world, fact)

    patch.setattr(step, "after_hand", after_hand)


def believes_an_older_look(patch: pytest.MonkeyPatch) -> None:
    """Take any look for one that began after the write was told."""
    patch.setattr(wresting, "SlipTold", lambda text, cpus, ended: SlipTold(text, cpus, 0))


def is_settled_beside_what_slipped(patch: pytest.MonkeyPatch) -> None:
    """Believe until a look that it is where it was seen last."""
    patch.setattr(wresting, "SlipTold", lambda text, cpus, ended: SlipTold(text, CPUSet(), ended))


def is_alone_beside_what_slipped(patch: pytest.MonkeyPatch) -> None:
    """Take a look for the end of it."""
    honest = wresting.after_slip

    def after_slip(world: World, fact: Slipped) -> tuple[World, tuple[Order, ...]]:
        made, orders = honest(world, fact)
        if world.hand is None or made.hand is None:
            return made, orders
        return replace(made, hand=replace(made.hand, wrested=world.hand.wrested)), orders

    patch.setattr(covering, "after_slip", after_slip)


def hears_the_first_write_alone(patch: pytest.MonkeyPatch) -> None:
    """Take what is told of a group that slipped already for known."""
    patch.setitem(GRIPS, (Closed, SlipTold), same)


def leaves_what_slipped_to_nobody(patch: pytest.MonkeyPatch) -> None:
    """Have the engine leave a container to the hand that cannot write it."""
    patch.setattr(Container, "is_by_hand", property(lambda each: each.is_covered and not each.is_idle))


def ignores_what_slips_before_it_is_known(patch: pytest.MonkeyPatch) -> None:
    honest = wresting.after_slip

    def after_slip(world: World, fact: Slipped) -> tuple[World, tuple[Order, ...]]:
        return honest(world, fact) if fact.container in world.containers else (world, ())

    patch.setattr(covering, "after_slip", after_slip)


def believes_a_first_look_that_is_older(patch: pytest.MonkeyPatch) -> None:
    """Take any first look at what slipped before for one that began after that."""
    honest = wresting.looked_after_slip

    def looked_after_slip(world: World, key: ContainerKey, began: int) -> World:
        return honest(world, key, sys.maxsize)

    patch.setattr(covering, "looked_after_slip", looked_after_slip)


def trusts_a_write_that_was_done_before(patch: pytest.MonkeyPatch) -> None:
    """Take what the hand wrote before the group slipped for what it guards, and any look for a later one."""

    def slipped(container: Container, news: GripNews) -> Container:
        return container

    patch.setitem(GRIPS, (Writing, SlipTold), slipped)


def takes_it_for_loose(patch: pytest.MonkeyPatch) -> None:
    """Forget that the hand cannot write it."""
    honest = GRIPS[Loose, SlipTold]

    def slipped(container: Container, news: GripNews) -> Container:
        return replace(honest(container, news), grip=Loose())

    for grip in (Loose, Closed):
        patch.setitem(GRIPS, (grip, SlipTold), slipped)


_Slipping = partial(Fault, shuts=True)

FAULTS = (
    _Slipping(ignores_what_slips, laws.FOOTPRINTS, first=58),
    _Slipping(believes_an_older_look, sliplaws.UNSURE),
    _Slipping(is_settled_beside_what_slipped, sliplaws.UNSURE),
    _Slipping(is_alone_beside_what_slipped, sliplaws.WRESTED),
    _Slipping(hears_the_first_write_alone, sliplaws.UNSURE),
    _Slipping(leaves_what_slipped_to_nobody, laws.ARRIVED),
    _Slipping(ignores_what_slips_before_it_is_known, sliplaws.WRESTED, first=291),
    _Slipping(believes_a_first_look_that_is_older, laws.TOLD, first=101002102),
    _Slipping(trusts_a_write_that_was_done_before, sliplaws.UNSURE),
    _Slipping(takes_it_for_loose, sliplaws.UNSURE),
)
