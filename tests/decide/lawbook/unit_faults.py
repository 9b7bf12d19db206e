"""Planted faults of units that ask: as if systemd had always told which units do."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from sidecar.decide import sightings
from sidecar.decide.contacts import UnitSources
from sidecar.decide.container import wish
from sidecar.decide.container.container import Wish
from sidecar.decide.facts import ContainerView
from sidecar.decide.world import World, replace
from state.key import SOURCES, ContainerKey
from tests.decide.lawbook import enginelaws, unitlaws
from tests.decide.lawbook.faults import Fault


def takes_what_no_list_has_for_what_asks_nothing(patch: pytest.MonkeyPatch) -> None:
    honest = World.is_absent

    def unaware(world: World, key: ContainerKey) -> bool:
        return not world.is_ready if key.is_unit else honest(world, key)

    patch.setattr(World, "is_absent", unaware)


def takes_any_inventory_for_one_of_units(patch: pytest.MonkeyPatch) -> None:
    def of_all(sources: UnitSources, lacks: Collection[str]) -> UnitSources:
        return UnitSources(sources.confined, SOURCES)

    patch.setattr(UnitSources, "after", of_all)


def tells_alone_before_units_are_known(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(UnitSources, "are_seen", property(lambda sources: True))


def hears_no_label_of_a_unit(patch: pytest.MonkeyPatch) -> None:
    honest = wish.wish_of

    def deaf(view: ContainerView, *rest: Any, **named: Any) -> Wish:
        return honest(replace(view, labels={}) if view.key.is_unit else view, *rest, **named)

    patch.setattr(sightings, "wish_of", deaf)


FAULTS = (
    Fault(takes_what_no_list_has_for_what_asks_nothing, enginelaws.KEPT),
    Fault(takes_any_inventory_for_one_of_units, enginelaws.KEPT),
    Fault(tells_alone_before_units_are_known, enginelaws.NOT_TOLD),
    Fault(hears_no_label_of_a_unit, unitlaws.ANSWERED),
)
