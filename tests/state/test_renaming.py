"""A renamed container has its new name in all facts that name it."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from state.cause import Cause, SharedAnew, Supplied, TakenOver
from state.cpuset import CPUSet
from state.demand import Demand
from state.leaving import Leaving
from state.model import Assignment, Move, Refused, State
from state.refusal import Detail, Neighbours, Refusal, RefusalCode, Replaces, Said, TooFew
from state.renaming import NAMES, nameless, with_name
from tests.support.keys import docker

OTHERS = {"text", "option", "given", "policy", "scale", "numa", "one", "other", "kinds"}
"""Texts in facts that are no names of containers."""

ANSWERS = {"Named", "Fixed", "Scaled", "Range", "NoOption"}
"""Facts that are answers to a request, or name an option: none is recorded with a container's name."""


def grant(name: str, *causes: Cause, leaving: Leaving | None = None) -> Assignment:
    moves = tuple(Move(lost=CPUSet.of(3), cause=each) for each in causes)
    demand = Demand(container=docker(name), name=name, cpus=1)
    return Assignment(demand=demand, cpus=CPUSet.of(1), original=CPUSet.of(1), since=0, moves=moves, leaving=leaving)


def refused(name: str, refusal: Refusal) -> Refused:
    return Refused(container=docker(name), name=name, refusal=refusal)


def test_it_has_its_new_name_in_refusals_and_causes_of_others() -> None:
    """Held by it, pinned by it, replaced by it; taken by it. What others are called stays."""
    beside = Neighbours(reserved=CPUSet.of(0), holder_names=("a", "b"), stranger_names=("c", "a"))
    taken = TakenOver(name="b", count=1, floor=1, arrived="a")
    shared = SharedAnew(name="a", count=1, floor=1, names=("a", "c"), others=2)
    state = State(
        refusals={
            docker("x"): refused("x", Refusal(RefusalCode.NOT_ENOUGH, TooFew(count=1, neighbours=beside))),
            docker("y"): refused("y", Refusal(RefusalCode.AWAITS_PLACE, Replaces("a", CPUSet.of(1)))),
        },
        assignments={
            docker("b"): grant("b", taken, leaving=Leaving(cpus=CPUSet.of(3), number=1, cause=shared)),
        },
    )
    after = with_name(state, "a", "new")
    [x, y], [b] = after.refusals.values(), after.assignments.values()
    assert isinstance(x.refusal.detail, TooFew)
    assert x.refusal.detail.neighbours == Neighbours(
        reserved=CPUSet.of(0), holder_names=("new", "b"), stranger_names=("c", "new")
    )
    assert y.refusal.detail == Replaces("new", CPUSet.of(1))
    assert b.moves[0].cause == TakenOver(name="b", count=1, floor=1, arrived="new")
    assert b.leaving is not None
    assert b.leaving.cause == SharedAnew(name="new", count=1, floor=1, names=("new", "c"), others=2)
    assert nameless(b.leaving.cause) == nameless(shared)


def test_a_state_that_does_not_name_it_stays_the_same() -> None:
    """No checkpoint is written for it."""
    state = State(
        refusals={docker("x"): refused("x", Refusal(RefusalCode.BAD_LABEL, Said("a is not a number")))},
        assignments={docker("b"): grant("b", Supplied(name="b", count=1, floor=1, names=("c",), others=1))},
    )
    assert with_name(state, "a", "new") is state


@pytest.mark.parametrize("fact", [*get_args(Detail), *get_args(Cause), Neighbours], ids=lambda each: each.__name__)
def test_every_text_of_a_fact_is_known_to_be_a_name_or_not(fact: type[msgspec.Struct]) -> None:
    """So a fact that is added has its names listed."""
    if fact.__name__ in ANSWERS:
        return
    texts = {
        each.name
        for each in msgspec.structs.fields(fact)
        if each.type is str or (get_args(each.type)[:1] == (str,) and each.name not in OTHERS)
    }
    assert texts - OTHERS == set(NAMES.get(fact, ()))
