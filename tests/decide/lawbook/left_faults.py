"""Faults about orders that the engine still has: what a killed daemon left there, or what waits behind a start."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

import pytest

from sidecar.decide import sightings
from sidecar.decide.books import takes
from sidecar.decide.container.container import Container
from sidecar.decide.container.line import Ends
from sidecar.decide.container.news import HoldBegan
from sidecar.decide.container.start import Answered, Asks, Held, Plain
from sidecar.decide.container.start_machine import STARTS
from sidecar.decide.container.tables import Rule
from sidecar.decide.world import World, replace
from state.cpuset import EMPTY
from tests.decide.lawbook import laws


def forgets_what_a_killed_daemon_left(patch: pytest.MonkeyPatch) -> None:
    """Take it that the engine has no order of an earlier run."""
    patch.setattr(sightings, "left_in_engine", lambda world, view: EMPTY)


def takes_a_hold_for_the_end_of_all_orders(patch: pytest.MonkeyPatch) -> None:
    """Take it that nothing waits behind a start that is held."""
    _plant_holds(patch, lambda before, held: replace(held, doubts=()))


def disputes_what_is_held(patch: pytest.MonkeyPatch) -> None:
    """Stay in doubt whether a container exists whose runtime asks about its start."""
    _plant_holds(patch, lambda before, held: replace(held, doubts=before.doubts))


def is_sure_beside_what_is_left(patch: pytest.MonkeyPatch) -> None:
    """Tell a container where it was seen, though an order that is still to come may move it."""
    honest = World.sure_of

    def sure_of(self: World, container: Container) -> object:
        kept = tuple(each for each in container.doubts if each.ends is not Ends.ENGINE)
        return honest(self, replace(container, doubts=kept))

    patch.setattr(World, "sure_of", sure_of)


def waits_for_what_waits_for_it(patch: pytest.MonkeyPatch) -> None:
    """Have two starts wait for each other's orders, which wait behind these starts."""
    planted = cached_property(lambda container: False)
    planted.__set_name__(Container, "is_followed")
    patch.setattr(Container, "is_followed", planted)


def leaves_what_only_an_order_may_bring(patch: pytest.MonkeyPatch) -> None:
    """Record a container as still leaving CPUs to which only an order behind its held start may bring it back."""
    patch.setattr(takes, "footprint_before_what_follows", lambda container: container.footprint)


def _plant_holds(patch: pytest.MonkeyPatch, change: Callable[[Container, Container], Container]) -> None:
    for state in (Plain, Asks, Held, Answered):
        patch.setitem(STARTS, (state, HoldBegan), partial(_changed, change, STARTS[state, HoldBegan]))


def _changed(
    change: Callable[[Container, Container], Container], honest: Rule, before: Container, news: HoldBegan
) -> Container:
    return change(before, honest(before, news))


FAULTS = (
    (forgets_what_a_killed_daemon_left, laws.BEHIND, 270),
    (takes_a_hold_for_the_end_of_all_orders, laws.BEHIND, 270),
    (is_sure_beside_what_is_left, laws.TOLD, 37),
    (waits_for_what_waits_for_it, laws.ANSWERED, 125),
)
"""Each fault, its law, and the seed of a history that shows it (`leftorders`)."""
