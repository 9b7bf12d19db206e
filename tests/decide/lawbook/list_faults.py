"""Planted faults of inventories without a list: one is taken for more than it shows, or waited for."""

from __future__ import annotations

import pytest

from sidecar.decide import sightings, step
from sidecar.decide.contacts import Connected
from sidecar.decide.facts import InventoryTaken
from sidecar.decide.world import World, replace
from tests.decide.lawbook import enginelaws, laws, listlaws
from tests.decide.lawbook.faults import Fault
from tests.support.decide.contacts import with_readiness


def takes_what_was_not_listed_for_gone(patch: pytest.MonkeyPatch) -> None:
    honest = sightings.counted
    patch.setattr(step, "counted", lambda world, fact: honest(world, replace(fact, has_list=True)))


def waits_for_the_list(patch: pytest.MonkeyPatch) -> None:
    honest = sightings.counted

    def impatient(world: World, fact: InventoryTaken) -> World:
        counted = honest(world, fact)
        return counted if fact.has_list else with_readiness(counted, Connected(fact.began))

    patch.setattr(step, "counted", impatient)


def takes_units_for_listed(patch: pytest.MonkeyPatch) -> None:
    honest = sightings.counted

    def hopeful(world: World, fact: InventoryTaken) -> World:
        return replace(honest(world, fact), sources=world.sources.after(fact.lacks))

    patch.setattr(step, "counted", hopeful)


FAULTS = (
    Fault(takes_what_was_not_listed_for_gone, laws.ORIGINALS, 131),
    Fault(waits_for_the_list, listlaws.NOT_HELD_UP, 18),
)

UNIT_FAULTS = (Fault(takes_units_for_listed, enginelaws.NOT_ORDERED, 0),)
