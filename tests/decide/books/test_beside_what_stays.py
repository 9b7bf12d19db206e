"""A grant that ends is told what it lacks beside the grants that stay, and does not end if it lacks nothing there."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sidecar.decide.books import refit
from sidecar.decide.world import Note, replace
from sidecar.words.refusals import sentence
from state.cpuset import CPUSet
from state.model import State
from state.topology import Kind, uniform, with_online
from tests.decide.lawbook.refitlaws import not_free
from tests.support.decide.stories import Story


def fitted() -> tuple[State, Sequence[Note]]:
    """Take a CPU of the oldest grant offline. It may not use what is free: it must be on one node."""
    story = Story(uniform(nodes=2, cores=3))
    first = story.arrive("first", 2, labels={"cpuset.numa": "single"})
    second, third = story.arrive("second", 2), story.arrive("third", 1)
    story.settle()
    assert [story.granted(each) for each in (first, second, third)] == ["1-2", "3-4", "5"]
    less = with_online(story.world.topology, CPUSet.parse("0,2-5"))
    state, notes = refit.refit(replace(story.world, topology=less))
    assert {each.name: str(each.cpus) for each in state.assignments.values()} == {"second": "3-4", "third": "5"}
    return state, notes


def test_it_names_as_free_what_no_grant_holds_that_stays() -> None:
    state, notes = fitted()
    assert list(not_free(state, notes)) == []
    [note] = notes
    assert note.refusal is not None
    assert "1 free: 2 " in sentence(note.refusal)


def test_a_refit_that_tells_what_it_tried_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the trial, a newer grant had ended."""
    monkeypatch.setattr(refit, "_beside_what_stays", lambda world, bare, holdings, refused: refused)
    assert list(not_free(*fitted())) == ["first is told that 5 are free"]


def test_one_that_fits_where_another_was_that_is_completed_elsewhere_does_not_end() -> None:
    """Both lack a CPU of the second node. Of those that are left there the first may have all, if the other goes to the
    first node: not for its sake, but for two of the fast CPUs on one node.
    """
    fast, slow = Kind("performance", 1024, CPUSet.parse("0-4,8-9")), Kind("efficient", 512, CPUSet.parse("5-7"))
    story = Story(replace(uniform(nodes=2, cores=5), kinds=(fast, slow)))
    single, as_fast = {"cpuset.numa": "single"}, {"cpuset.numa": "single", "cpuset.options": "performance"}
    story.arrive("filler", 2, labels=as_fast)
    guest = story.arrive("guest", 2, labels=as_fast)
    first, other = story.arrive("first", 3, labels=single), story.arrive("other", 2, labels=as_fast)
    story.away(guest)
    story.settle()
    assert [story.granted(each) for each in (first, other)] == ["5-7", "8-9"]
    less = with_online(story.world.topology, CPUSet.parse("0-6,8"))
    state, notes = refit.refit(replace(story.world, topology=less))
    assert {each.name: str(each.cpus) for each in state.assignments.values()} == {
        "filler": "1-2",
        "first": "5-6,8",
        "other": "3-4",
    }
    assert [each.refusal for each in notes] == [None, None]
