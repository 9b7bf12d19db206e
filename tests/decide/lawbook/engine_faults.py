"""Planted faults of several engines: one rule is broken as if all engines were always ready, or were one."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.decide import sightings, step
from sidecar.decide.books import dynamic, sizes, static, vacancies
from sidecar.decide.contacts import Ready
from sidecar.decide.facts import InventoryTaken
from sidecar.decide.moves import plan
from sidecar.decide.world import World, replace
from tests.decide.lawbook import enginelaws
from tests.decide.lawbook.faults import Fault
from tests.support.decide.contacts import with_readiness


def _as_if_ready(patch: pytest.MonkeyPatch, module: object, name: str) -> None:
    honest = getattr(module, name)

    def unaware(world: World, *rest: Any, **named: Any) -> Any:
        return honest(with_readiness(world, Ready(0)) if world.is_ready else world, *rest, **named)

    patch.setattr(module, name, unaware)


def orders_whatever_is_away(patch: pytest.MonkeyPatch) -> None:
    _as_if_ready(patch, plan, "changes")


def ends_grants_of_what_is_away(patch: pytest.MonkeyPatch) -> None:
    for module in (static, dynamic):
        _as_if_ready(patch, module, "departures")


def answers_what_is_away(patch: pytest.MonkeyPatch) -> None:
    _as_if_ready(patch, vacancies, "in_turn")


def shrinks_what_is_away(patch: pytest.MonkeyPatch) -> None:
    _as_if_ready(patch, sizes, "_claim")


def moves_what_is_away_off_pins(patch: pytest.MonkeyPatch) -> None:
    for module in (static, dynamic):
        _as_if_ready(patch, module, "off_the_pinned")


def takes_one_inventory_for_all(patch: pytest.MonkeyPatch) -> None:
    honest = sightings.counted

    def all_of_them(world: World, fact: InventoryTaken) -> World:
        return honest(world, replace(fact, lacks=()))

    patch.setattr(step, "counted", all_of_them)


def makes_all_ready_by_one_inventory(patch: pytest.MonkeyPatch) -> None:
    honest = sightings.counted

    def all_of_them(world: World, fact: InventoryTaken) -> World:
        return honest(world, replace(fact, engine=""))

    patch.setattr(step, "counted", all_of_them)


def waits_for_all_engines(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        World,
        "is_ready",
        property(lambda world: all(isinstance(each.readiness, Ready) for each in world.contacts.values())),
    )


def tells_alone_while_one_is_away(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(World, "is_blind", property(lambda world: False))


FAULTS = (
    Fault(orders_whatever_is_away, enginelaws.NOT_ORDERED, 50),
    Fault(ends_grants_of_what_is_away, enginelaws.KEPT, 17),
    Fault(answers_what_is_away, enginelaws.KEPT, 6),
    Fault(moves_what_is_away_off_pins, enginelaws.KEPT, 125),
    Fault(takes_one_inventory_for_all, enginelaws.KEPT, 17),
    Fault(makes_all_ready_by_one_inventory, enginelaws.NOT_ORDERED, 426),
    Fault(waits_for_all_engines, enginelaws.NOT_HELD_UP, 1),
    Fault(tells_alone_while_one_is_away, enginelaws.NOT_TOLD, 1),
)

DYNAMIC_FAULTS = (Fault(shrinks_what_is_away, enginelaws.KEPT, 787),)
