"""Planted faults about containers that are out of the hand's reach: in what is believed of them, and in what moves them."""

from __future__ import annotations

from functools import partial

import pytest

from sidecar.decide import covering, step, wresting
from sidecar.decide.container.container import Container
from sidecar.decide.container.grip import Closed, Loose, Writing
from sidecar.decide.container.grip_machine import GRIPS
from sidecar.decide.container.news import GripNews, SlipTold
from sidecar.decide.container.tables import same
from sidecar.decide.hand_facts import HandFact, Slipped
from sidecar.decide.hand_state import HandState
from sidecar.decide.orders import Order
from sidecar.decide.world import World, replace
from sidecar.simulation.model_hand import ModelHand
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


def forgets_what_slipped_before_it_was_known(patch: pytest.MonkeyPatch) -> None:
    def looked_after_slip(world: World, key: ContainerKey, began: int) -> World:
        return world

    patch.setattr(covering, "looked_after_slip", looked_after_slip)
    patch.setattr(HandState, "slipped", property(lambda hand: {}))


def trusts_a_write_that_was_done_before(patch: pytest.MonkeyPatch) -> None:
    """Take what the hand wrote before the group slipped for what it guards, and any look for a later one."""

    def slipped(container: Container, news: GripNews) -> Container:
        return container

    patch.setitem(GRIPS, (Writing, SlipTold), slipped)


def guards_what_was_opened_again(patch: pytest.MonkeyPatch) -> None:
    """Have the hand carry out an order that was under way, for a group that slipped and is open again."""
    honest = ModelHand.write

    def write(self: ModelHand, id: str, cpus: CPUSet) -> CPUSet:
        if self._kernel.effective(id) is not None and not self._kernel.is_shut(id):
            self._slipped.discard(id)
        return honest(self, id, cpus)

    patch.setattr(ModelHand, "write", write)


def leaves_what_is_nobodys_any_more(patch: pytest.MonkeyPatch) -> None:
    """Count a group that slipped as its container's, also if that has no answer of its own any more."""
    patch.setattr(ModelHand, "_disown", lambda self: None)


def takes_it_for_loose(patch: pytest.MonkeyPatch) -> None:
    """Forget that the hand cannot write it."""
    honest = GRIPS[Loose, SlipTold]

    def slipped(container: Container, news: GripNews) -> Container:
        return replace(honest(container, news), grip=Loose())

    for grip in (Loose, Closed):
        patch.setitem(GRIPS, (grip, SlipTold), slipped)


_Slipping = partial(Fault, shuts=True)

FAULTS = (
    _Slipping(ignores_what_slips, laws.FOOTPRINTS),
    _Slipping(believes_an_older_look, sliplaws.UNSURE),
    _Slipping(is_settled_beside_what_slipped, sliplaws.UNSURE),
    _Slipping(is_alone_beside_what_slipped, sliplaws.WRESTED),
    _Slipping(hears_the_first_write_alone, sliplaws.UNSURE),
    _Slipping(leaves_what_slipped_to_nobody, laws.ARRIVED),
    _Slipping(forgets_what_slipped_before_it_was_known, laws.TOLD),
    _Slipping(trusts_a_write_that_was_done_before, sliplaws.UNSURE),
    _Slipping(guards_what_was_opened_again, laws.COMES_TO_REST),
    _Slipping(leaves_what_is_nobodys_any_more, laws.FOOTPRINTS),
    _Slipping(takes_it_for_loose, sliplaws.UNSURE),
)
