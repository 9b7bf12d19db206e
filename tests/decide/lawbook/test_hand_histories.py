"""The laws hold on hosts with a hand: kernel and engine are two places, and births are answered."""

from __future__ import annotations

from collections import Counter

import pytest

from sidecar.decide.world import World
from state.codec import decode, encode
from tests.decide.long_run import history
from tests.support.decide.handreality import HandReality
from tests.support.decide.histories import DYNAMIC, STATIC

RARE = range(30, 230)
"""Histories in which what is rare is counted. The others are the seeds around these."""


@pytest.mark.parametrize(
    ("first", "last"),
    # Many, because an interleaving of two legs with a lost hand is rare.
    [
        (0, RARE.start),
        *(pytest.param(start, start + 100, marks=pytest.mark.slow) for start in range(RARE.stop, 630, 100)),
    ],
)
def test_histories_with_a_hand_break_no_law(first: int, last: int) -> None:
    """Orders to the hand are carried out late, fail, or are lost with it; the daemon is killed between the legs."""
    for seed in range(first, last):
        history(seed, with_hand=True)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(3438, id="a CPU that comes online in the midst of a release, after its group was restored"),
        pytest.param(7302105, id="a hand that comes while an answered start is under way"),
        pytest.param(7312630, id="a rest that is over while its grant is gone and the engine away"),
        pytest.param(7402480, id="an order to a member that starts before it, and is held back"),
        pytest.param(7402885, id="a half removed container that was on its way back"),
        pytest.param(7405023, id="a look from before a release, at a start that an earlier life answered"),
        pytest.param(7410079, id="an owner that was found by a new hand, and moved before it was known"),
        pytest.param(7412166, id="the rest of an original core that stands in for a reserved CPU"),
        pytest.param(7420388, id="a pin onto a reserved CPU, in a group that has none"),
        pytest.param(9100904, id="a CPU that came online after a limit was lifted"),
        pytest.param(4401122, id="a start that waits for what is lent, for want of what may follow it"),
        pytest.param(4401182, id="a container inside another one, looked at before the hand was lost"),
        pytest.param(4401814, id="one that only a glance has shown, moved as anybody's by a hand that was lost"),
        pytest.param(30001209, id="half a core above a floor, which stands in for a reserved CPU"),
        pytest.param(900066, id="an owner that is renamed after its grant was lost, and granted again"),
        pytest.param(900091, id="a strict start beside a group that is called like it, both only glanced at"),
        pytest.param(910145, id="two held starts, behind each of which an order may wait"),
        pytest.param(940232, id="a group that was found, and is called like a container that is only glanced at"),
        pytest.param(810262, id="a group that could not be written when it was let go"),
        pytest.param(234, id="a restart under way, whose birth the hand could not write"),
        pytest.param(343, id="a notice at rest, and a start that no look has shown"),
        pytest.param(89010189, id="a CPU that came online, and was never the pool's"),
        pytest.param(89013111, id="CPUs that the books had lost, found again, and exchanged for a core"),
        pytest.param(89024032, id="CPUs on their way from one that went with the same news"),
        pytest.param(89031786, id="a restart that nobody saw, without a hand, of one that had not entered its CPUs"),
        pytest.param(89033916, id="a newborn that is stuck, and gets a CPU that comes online"),
        pytest.param(89050523, id="a glance from before the hand was lost, and no engine"),
        pytest.param(89051687, id="an owner that another program moved off what it is leaving"),
        pytest.param(89054230, id="a start where no hand answers, which the engine calls a rest"),
        pytest.param(89071944, id="an order under way to CPUs that all went offline"),
        pytest.param(89072808, id="a strict start, and one on its way back to a pin that it may have now"),
        pytest.param(89072507, id="one that started unseen, and was put on its CPUs by an order that failed"),
        pytest.param(88001744, id="one that is half removed, and was only glanced at"),
        pytest.param(89401122, id="a member of the group, below one that another program shrank"),
        pytest.param(89610268, id="a release that gives back what another program wrote in the kernel alone"),
        pytest.param(89631245, id="a CPU that the pool keeps as yet, of one that went"),
        pytest.param(89633335, id="a group that is called like another, and an order under its own name"),
        pytest.param(89633767, id="a group that was found, and answered with a CPU that went offline"),
        pytest.param(89900165, id="a held start of one that is pinned since, which has CPUs while its engine is away"),
        pytest.param(30050033, id="an update that was refused, and a start that is under way"),
        pytest.param(93117019, id="a strict start for the pool, and an owner that was born unseen where it is stuck"),
        pytest.param(93102001, id="a strict start for the pool, and one at rest whose group is called like another"),
        pytest.param(95200853, id="what another program wrote, of one that was looked at while answers were under way"),
        pytest.param(95204415, id="two that ask for the same, one of which is stuck where the other one would not fit"),
        pytest.param(94502283, id="what is kept for a successor, and settings that leave the pool nothing beside it"),
        pytest.param(94504077, id="a CPU that goes for a whole core of the pool, and one that comes in its place"),
        pytest.param(96404530, id="a successor of two, both of which were found to be gone at once"),
        pytest.param(96050026, id="an owner whose runtime asks, at rest before everything was looked at again"),
    ],
)
def test_rare_histories_with_a_hand_break_no_law(seed: int) -> None:
    """Each of these broke one once, and is one in tens of thousands."""
    history(seed, with_hand=True)


def test_an_owner_that_is_pinned_while_its_engine_is_away_is_still_in_the_way() -> None:
    """Its grant is kept until the engine is back, and it may still be where the hand wrote it: none is born there."""
    history(3049, settings=STATIC, with_hand=True)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(635, id="CPUs that the shared pool keeps as yet, given up on their way"),
        pytest.param(12001113, id="a take from one at rest whose birth is answered, while the engine is away"),
    ],
)
def test_rare_histories_of_sizes_with_a_hand_break_no_law(seed: int) -> None:
    """Each of these broke one once."""
    history(seed, settings=DYNAMIC, with_hand=True)


@pytest.mark.slow
def test_histories_with_a_hand_reach_what_is_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law proves nothing about events that hardly occur. And no law is broken."""
    facts: Counter[str] = Counter()
    feed = HandReality.feed

    def counted(self: HandReality, *args: object) -> None:
        feed(self, *args)  # type: ignore[arg-type]
        facts.update(type(fact).__name__ for fact in args)
        hand = self.world.hand
        facts["stuck"] += bool(hand and hand.stuck)
        facts["covered"] += any(each.is_covered for each in self.world.containers.values())

    monkeypatch.setattr(HandReality, "feed", counted)
    for seed in RARE:
        history(seed, with_hand=True)
    rare = ("HandReady", "HandLost", "AnswersHeld", "CpusetWritten", "WriteFailed", "stuck", "covered")
    assert min(facts[what] for what in rare) > 10


def test_a_world_with_a_hand_begins_a_journal() -> None:
    """The journal's first line is the World, and a replay reads it."""
    world = next(world for seed in range(20) if (world := history(seed, with_hand=True).world).hand)
    assert decode(encode(world, keeps_order=True), World) == world
