"""Planted faults in what is said of neighbours, and in what is done about those that are pinned by hand."""

from __future__ import annotations

from functools import cached_property

import pytest

from sidecar.decide import sightings
from sidecar.decide.books import dynamic, pinned, static
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.news import CpusWent
from sidecar.decide.moves import alone, never_alone
from sidecar.decide.world import World
from sidecar.projection import opened, projection_of
from state.cpuset import EMPTY
from tests.decide.lawbook import laws, placelaws
from tests.decide.lawbook.faults import Fault


def overlooks_what_is_kept_out(patch: pytest.MonkeyPatch) -> None:
    honest = World.may_run

    def may_run(self: World, container: Container) -> int:
        return 0 if container.wish.standing is Standing.UNMANAGED else honest(self, container)

    patch.setattr(World, "may_run", may_run)


def calls_alone_what_has_not_arrived(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(alone, "is_settled", lambda world, container: container.view.key in world.state.assignments)
    patch.setattr(projection_of, "is_alone", alone.is_alone)


def stays_beside_the_pinned(patch: pytest.MonkeyPatch) -> None:
    for module in (static, dynamic):
        patch.setattr(module, "off_the_pinned", lambda world, state: state)


def grants_where_another_is_pinned(patch: pytest.MonkeyPatch) -> None:
    nowhere = cached_property(lambda world: EMPTY)
    nowhere.__set_name__(World, "strangers")
    patch.setattr(World, "strangers", nowhere)


def keeps_where_the_moved_wait(patch: pytest.MonkeyPatch) -> None:
    honest = World.kept_by_pin

    def kept_by_pin(self: World, container: Container) -> int:
        return honest(self, container) | (container.footprint if self.is_displaced(container) else 0)

    patch.setattr(World, "kept_by_pin", kept_by_pin)
    patch.setattr(pinned, "claimed_by_pins", lambda world: world.strangers)


def gives_up_who_waits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(never_alone, "is_waiting", lambda container, refused: False)


def lets_others_in_before_it_tells(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(opened, "losers", lambda before, world: ())


def leaves_another_alone_before_it_tells(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(opened, "joined", lambda world, orders: ())


def trusts_a_silent_engine(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(World, "is_blind", property(lambda world: False))


def leaves_the_stranded_where_they_were(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sightings, "CpusWent", lambda online, *ends: CpusWent(EMPTY, *ends))


FAULTS = (
    Fault(leaves_the_stranded_where_they_were, placelaws.STRANDED, first=2013),
    Fault(leaves_another_alone_before_it_tells, laws.TOLD_FIRST, first=936),
    Fault(lets_others_in_before_it_tells, laws.TOLD_FIRST, first=7530),
    Fault(trusts_a_silent_engine, laws.UNSEEN, first=226),
    Fault(gives_up_who_waits, laws.NEVER_ALONE, first=7),
    Fault(overlooks_what_is_kept_out, laws.ALONE, first=122),
    Fault(calls_alone_what_has_not_arrived, laws.ALONE, first=7),
    Fault(stays_beside_the_pinned, laws.ASIDE, first=531),
    Fault(grants_where_another_is_pinned, laws.UNPINNED, first=20),
    Fault(keeps_where_the_moved_wait, laws.KEPT_FOR_A_PIN, first=83000566),
)
