"""An owner that starts while nothing answers meets no other: with a daemon that is dead, or one that is only slow.

Fronts take what was written down for it (`decide/moves/own_starts`) at any time, and create the container later. The
edge withdraws an answer before books that say otherwise, and tells that newer answers of the hand are held once no
front holds one that was withdrawn. Nothing else is known of such starts; so these laws tell whether that is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from sidecar.decide.container.container import Standing
from sidecar.decide.facts import Phase
from sidecar.decide.hand_facts import AnswersHeld
from sidecar.decide.moves import own_starts as module
from sidecar.decide.orders import AnswerStart, HoldAnswers, Update
from sidecar.decide.world import World, replace
from sidecar.failures import EngineRefused
from sidecar.projection.projection_of import projection_of
from sidecar.simulation.model_host import STARTABLE
from state.cpuset import EMPTY, CPUSet
from state.key import ContainerKey
from tests.decide.long_run import history
from tests.support.decide import hand_verbs, histories
from tests.support.decide.handreality import HandReality
from tests.support.decide.real import Real
from tests.support.decide.reality import Reality
from tests.support.laws import When

HISTORIES: Final = 30
MOST_DEAD: Final = 40
"""Starts without a daemon in a history, after which it is killed no more than in others."""


class Met(Exception):
    """An owner may meet another container."""


class OwnStarts(HandReality):
    """A host on which fronts begin by what is written down for owners, and go on later, with a daemon or without."""

    waits = True
    """Whether the edge waits for fronts."""
    narrows = True
    """Whether it withdraws."""

    def __init__(self, *args: Any, **more: Any) -> None:
        self.written: dict[ContainerKey, CPUSet] = {}
        self.fronts: list[tuple[ContainerKey, CPUSet]] = []
        self.kept: list[AnswersHeld] = []
        self.told = -1
        self.begun = self.begun_dead = 0
        self.is_dead = False
        super().__init__(*args, **more)

    def feed(self, *facts: Any) -> None:
        """Let the daemon take a burst; fronts begin and end meanwhile."""
        free = [key for key in self.written if self._may_start(key) and key not in dict(self.fronts)]
        if free and len(self.fronts) < 3:
            self._begin(free[self.tickets % len(free)])
        elif self.fronts and self.tickets % 40 == 1:
            self._create()
        super().feed(*facts)
        granted = self.checkpoint.assignments
        found = {key: each.update.cpus for key, each in module.own_starts(self.world).items() if each.update}
        answered = {key: cpus for key, cpus in found.items() if key in granted and granted[key].cpus == cpus}
        self.written = answered if self.narrows else {**self.written, **answered}

    def _may_start(self, key: ContainerKey) -> bool:
        real = self.containers.get(key)
        return real is not None and real.phase in STARTABLE and not real.is_locked

    def _begin(self, key: ContainerKey) -> None:
        self.begun += 1
        self.fronts.append((key, self.written[key]))

    def _create(self) -> None:
        key, cpus = self.fronts.pop(0)
        real = self.containers.get(key)
        if real is None or not self._may_start(key):
            return
        try:
            self.enter(real, replace(real.limits, cpuset=str(cpus)))
        except EngineRefused:
            return
        self.note(real, cpus)
        if self.is_dead:
            self._see_it_alone(real, cpus)
        else:
            self.begin_look(key)

    def _see_it_alone(self, real: Real, cpus: CPUSet) -> None:
        """Raise Met if it does not start alone beside a daemon that is dead."""
        own = (real.effective or cpus) - self.world.state.reserved
        for other in self.containers.values():
            known = self.world.containers.get(other.key)
            is_placed = known is not None and known.wish.standing is Standing.MANAGED
            if other is not real and is_placed and not other.is_member and (both := (other.effective or EMPTY) & own):
                raise Met(f"{real.name} starts on {cpus} without a daemon, and {other.name} runs on {both}")

    def _hold(self, order: HoldAnswers) -> None:
        super()._hold(order)
        if self.waits and order.number != self.told:
            told = self.hand_news.pop()
            assert isinstance(told, AnswersHeld)
            self.kept = [told]

    def hear(self) -> bool:
        """Tell that answers are held as soon as no front holds an answer that was withdrawn."""
        if self.kept and all(self.written.get(key) == cpus for key, cpus in self.fronts):
            self.told = self.kept[0].number
            self.hand_news.append(self.kept.pop())
        return super().hear()

    def go_on(self) -> bool:
        """Let one due thing happen; in the end each front goes on."""
        if self.fronts:
            self._create()
            return True
        return super().go_on()

    def _end_hand(self) -> None:
        # The edge withdraws with the news of that. Nothing keeps account of a start at that moment, as without a hand.
        self.kept, self.told = [], -1
        if not self.is_dead:
            self.fronts = []
        super()._end_hand()

    def crash(self, *args: Any, **more: Any) -> None:
        """Kill the daemon: owners that rest start by what it wrote. The next run waits for them, and withdraws."""
        self.is_dead = True
        super().crash(*args, **more)

    def connect(self, *, is_slow: bool = False) -> None:
        """Let owners start before the next run decides anything; some that ran end first."""
        if self.is_dead:
            for number, key in enumerate(self.written):
                real = self.containers.get(key)
                if real and real.phase.is_live and not real.is_locked and (self.tickets + number) % 3:
                    self.die(real)
                if self._may_start(key) and key not in dict(self.fronts):
                    self.begun_dead += 1
                    self._begin(key)
            while self.fronts:
                self._create()
            self.written, self.is_dead = {}, False
        super().connect(is_slow=is_slow)


def see_that_none_is_met(reality: OwnStarts) -> None:
    """Raise Met if a front may still start an owner where another is told to be alone, is sent, or starts."""
    world = reality.world
    for starting, told in reality.fronts:
        own = told - world.state.reserved
        is_owner, known = starting in world.state.assignments, world.containers.get(starting)
        if known and world.hand and known.view.phase is not Phase.DEAD and told.mask & ~known.footprint:
            raise Met(f"{known.view.name} starts on {told}, and counts elsewhere")
        for key, cpus in (*reality.fronts, *reality.written.items()):
            if key != starting and cpus & own:
                raise Met(f"two start: {key.short} on {cpus}, {starting.short} on {told}")
        for key in world.state.assignments.keys() - {starting}:
            container = world.containers.get(key)
            if container and world.state.assignments[key].cpus & own and projection_of(world, container).alone:
                raise Met(f"{container.view.name} is alone, and {starting.short} starts on {told}")
        sent = [
            (each.container, each.update.cpus - world.containers[each.container].place.seen)
            for each in reality.new_moves
            if each.live
        ]
        sent += [(each.container, each.update.cpus) for each in reality.new_answers if each.update]
        for key, cpus in sent:
            if key != starting and cpus & own and (is_owner or key in world.state.assignments):
                raise Met(f"{key.short} was sent to {cpus}, and {starting.short} starts on {told}")


def play(monkeypatch: pytest.MonkeyPatch, seeds: range, kind: type[OwnStarts] = OwnStarts) -> tuple[int, int]:
    """Play histories with fronts, and with more kills; return how many began, and how many of them without a daemon.
    Raise Met, or Broken.
    """
    honest, going = histories.check, histories.going_on

    def check(reality: Reality, when: When) -> None:
        assert isinstance(reality, OwnStarts)
        honest(reality, when)
        see_that_none_is_met(reality)

    def going_on(reality: Reality, op: histories.Op) -> None:
        assert isinstance(reality, OwnStarts)
        if reality.written and op[0] % 5 == 0 and reality.begun_dead < MOST_DEAD:
            # Histories seldom kill it while something is written.
            histories.crash(reality, *op[1:])
            hand_verbs.follow(reality, op[2])
        else:
            going(reality, op)

    monkeypatch.setattr(histories, "going_on", going_on)
    monkeypatch.setattr(histories, "HandReality", kind)
    monkeypatch.setattr(histories, "check", check)
    begun = dead = 0
    for seed in seeds:
        reality = history(seed, with_hand=True)
        assert isinstance(reality, OwnStarts)
        begun, dead = begun + reality.begun, dead + reality.begun_dead
    return begun, dead


@pytest.mark.parametrize(("first", "last"), [(0, HISTORIES), pytest.param(HISTORIES, 200, marks=pytest.mark.slow)])
def test_no_container_meets_an_owner_that_starts_unanswered(
    first: int, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And all other laws hold as well, whenever a daemon dies and comes back."""
    begun, dead = play(monkeypatch, range(first, last))
    assert begun > (last - first) / 5
    assert dead > (last - first) / 10


class Forgetful(OwnStarts):
    """A daemon that withdraws nothing while it runs."""

    narrows = False


class Impatient(OwnStarts):
    """A daemon whose edge withdraws, and does not wait for starts by what it withdrew."""

    waits = False


def by_the_books(world: World) -> Mapping[ContainerKey, AnswerStart]:
    """Answer each owner with its grant, whoever is still there."""
    grants = world.state.assignments.items()
    return {key: AnswerStart(key, 0, update=Update(cpus=grant.cpus), exclusive=True) for key, grant in grants}


def whatever_the_hand_holds(world: World) -> Mapping[ContainerKey, AnswerStart]:
    """Answer each owner where the hand would have it, though that is not held yet, or not any more."""
    return {
        key: AnswerStart(key, 0, update=Update(cpus=container.answers[-1]), exclusive=True)
        for key in world.state.assignments
        if (container := world.containers.get(key)) and container.answers
    }


@pytest.mark.parametrize(
    ("told", "kind", "first"),
    [
        (module.own_starts, Forgetful, 8),
        (module.own_starts, Impatient, 8),
        (by_the_books, OwnStarts, 15),
        (whatever_the_hand_holds, OwnStarts, 305),
    ],
    ids=["nothing is withdrawn", "an edge that does not wait", "by the books alone", "as the hand alone has it"],
)
def test_a_fault_is_seen(
    told: Callable[[World], Mapping[ContainerKey, AnswerStart]],
    kind: type[OwnStarts],
    first: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In some history an owner meets another."""
    monkeypatch.setattr(module, "own_starts", told)
    monkeypatch.setattr(histories, "breaches", lambda *_: [])
    with pytest.raises(Met):
        play(monkeypatch, range(first, first + 400), kind)
