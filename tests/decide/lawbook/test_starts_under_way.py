"""A start under way is in the footprints: fronts that begin by the standing order, and are created only later, unseen.

The order of a front is what the hand answers to all others. The edge (`apply/hand_orders`) tells that newer answers are
held once no front holds an older order that has more. So the decisions need to know no more of a start than that: until
then it is one of the newborns, and no owner enters a CPU, or is told to be alone there, where it may appear.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from sidecar.decide.hand_facts import AnswersHeld
from sidecar.decide.hand_state import HandState
from sidecar.decide.orders import HoldAnswers
from sidecar.projection.projection_of import projection_of
from state.cpuset import CPUSet
from tests.decide.long_run import history
from tests.support.decide import histories
from tests.support.decide.handreality import HandReality
from tests.support.decide.reality import Reality
from tests.support.laws import When

HISTORIES = 30


class Met(Exception):
    """An owner may meet a start that is under way."""


class UnderWay(HandReality):
    """A host on which fronts begin, and go on later. They begin and end by the tickets, so that a seed is a history."""

    waits = True
    """Whether the edge waits for fronts."""

    def __init__(self, *args: Any, **more: Any) -> None:
        self.fronts: list[CPUSet] = []
        self.kept: list[AnswersHeld] = []
        self.told = -1
        self.begun = 0
        super().__init__(*args, **more)

    def feed(self, *facts: Any) -> None:
        """Let the daemon take a burst; fronts begin and end meanwhile."""
        order = self.carried.answers.others if self.carried and self.hand else None
        if order and self.tickets % 3 == 0 and len(self.fronts) < 4:
            self.fronts.append(order)
            self.begun += 1
        elif self.fronts and self.tickets % 4 == 1:
            self.fronts.pop(0)
        super().feed(*facts)

    def _hold(self, order: HoldAnswers) -> None:
        super()._hold(order)
        if self.waits and order.number != self.told:
            told = self.hand_news.pop()
            assert isinstance(told, AnswersHeld)
            self.kept = [told]

    def hear(self) -> bool:
        """Tell that answers are held as soon as no front holds an older order with more CPUs."""
        others = self.carried.answers.others if self.carried else None
        if self.kept and all(each <= (others or CPUSet()) for each in self.fronts):
            self.told = self.kept[0].number
            self.hand_news.append(self.kept.pop())
        return super().hear()

    def go_on(self) -> bool:
        """Let one due thing happen; in the end each front goes on."""
        if self.fronts:
            self.fronts.pop(0)
            return True
        return super().go_on()

    def _end_hand(self) -> None:
        # Without a hand there is no order. The next run of the daemon waits before it decides anything.
        self.fronts, self.kept, self.told = [], [], -1
        super()._end_hand()


def see_that_none_is_met(reality: Reality) -> None:
    """Raise Met if an owner is told to be alone, or is sent, where a front may still start its container."""
    assert isinstance(reality, UnderWay)
    world = reality.world
    for front in reality.fronts:
        may_be = front - world.state.reserved
        for key, granted in world.state.assignments.items():
            container = world.containers.get(key)
            if container and may_be & granted.cpus and projection_of(world, container).alone:
                raise Met(f"{granted.name} is alone on {granted.cpus}, and a start is under way on {front}")
        for order in reality.new_moves:
            container = world.containers[order.container]
            both = (order.update.cpus - container.place.seen) & may_be
            if order.live and order.container in world.state.assignments and both:
                raise Met(f"{container.view.name} was sent to {both}, and a start is under way on {front}")


def play(monkeypatch: pytest.MonkeyPatch, seeds: range, kind: type[UnderWay] = UnderWay) -> int:
    """Play histories with fronts; return how many began. Raise Met, or Broken."""
    honest = histories.check

    def check(reality: Reality, when: When) -> None:
        honest(reality, when)
        see_that_none_is_met(reality)

    monkeypatch.setattr(histories, "HandReality", kind)
    monkeypatch.setattr(histories, "check", check)
    begun = 0
    for seed in seeds:
        reality = history(seed, with_hand=True)
        assert isinstance(reality, UnderWay)
        begun += reality.begun
    return begun


@pytest.mark.parametrize(("first", "last"), [(0, HISTORIES), pytest.param(HISTORIES, 300, marks=pytest.mark.slow)])
def test_no_owner_meets_a_start_that_is_under_way(first: int, last: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen or not: no look shows it, and no event."""
    assert play(monkeypatch, range(first, last)) > 10 * (last - first)


class Impatient(UnderWay):
    """A daemon whose edge does not wait for fronts."""

    waits = False


def forgets_newborns(patch: pytest.MonkeyPatch) -> None:
    """Take newborns to be where the newest answers put them, held or not."""
    honest = HandState.newborns

    def newborns(self: HandState, online: CPUSet) -> int:
        newest = self.sent or self.held
        return honest(msgspec.structs.replace(self, held=newest, sent=None), online)

    patch.setattr(HandState, "newborns", newborns)


@pytest.mark.parametrize(
    ("plant", "kind"),
    [(lambda _: None, Impatient), (forgets_newborns, UnderWay)],
    ids=["an edge that does not wait", "decisions that forget newborns"],
)
def test_a_fault_is_seen(
    plant: Callable[[pytest.MonkeyPatch], None], kind: type[UnderWay], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In some history an owner meets such a start."""
    plant(monkeypatch)
    monkeypatch.setattr(histories, "breaches", lambda *_: [])
    with pytest.raises(Met):
        play(monkeypatch, range(300), kind)
