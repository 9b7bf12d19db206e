"""Where processes begin that join a container: by its label, by the node's rule, and among its own CPUs alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.decide.moves.exec_cpus import exec_cpus, kept_off
from sidecar.readers import exec_rule
from state.cpuset import EMPTY, CPUSet
from state.exec_rule import ExecRule, ExecWord
from state.mistakes import WordOrPlaces
from tests.support.decide.stories import Story

LAST = ExecRule(ExecWord.LAST)
RULES = st.builds(ExecRule, st.sampled_from(ExecWord)) | st.builds(
    lambda places: ExecRule(places=CPUSet(places)), st.sets(st.integers(0, 9), min_size=1)
)


@pytest.mark.parametrize(
    ("text", "own", "chosen"),
    [
        ("first", "3,5,8", "3"),
        ("last", "3,5,8", "8"),
        (" LAST ", "3", "3"),
        ("all", "3,5,8", "3,5,8"),
        ("0", "3,5,8", "3"),
        ("1-2", "3,5,8", "5,8"),
        ("1-7", "3,5,8", "5,8"),
        ("7", "3,5,8", "8"),
        ("first", "", ""),
    ],
)
def test_words_and_places_are_among_its_own_cpus(text: str, own: str, chosen: str) -> None:
    """Places count from 0; beyond the last there is the last."""
    rule = exec_rule(text)
    assert isinstance(rule, ExecRule)
    assert rule.among(CPUSet.parse(own)) == CPUSet.parse(chosen)


@pytest.mark.parametrize("value", ["", "lst", "0-", "-1", "2-1", "0,", "first,last", 1, None, ["first"], "99999999"])
def test_anything_else_is_a_mistake_that_says_what_is_right(value: object) -> None:
    """Of a label and of the node's key."""
    assert exec_rule(value) == WordOrPlaces(("first", "last", "all"))


@given(RULES, st.sets(st.integers(0, 20)).map(CPUSet))
def test_a_rule_chooses_within_its_own_and_never_nothing(rule: ExecRule, own: CPUSet) -> None:
    """A process can always begin, and nowhere else."""
    chosen = rule.among(own)
    assert chosen <= own
    assert bool(chosen) == bool(own)
    again = exec_rule(str(rule))
    assert isinstance(again, ExecRule)
    assert again.among(own) == chosen


def test_the_nodes_rule_is_for_owners_alone() -> None:
    """The pool's containers would all begin on one CPU."""
    story = Story(exec=LAST)
    owner, shared = story.arrive("owner", 2), story.arrive("shared")
    labelled = story.arrive("labelled", labels={"cpuset.exec": "first"})
    story.settle()
    granted, pool = CPUSet.parse(story.granted(owner) or ""), story.world.state.shared
    assert exec_cpus(story.world, story.known(owner)) == CPUSet.of(max(granted))
    assert kept_off(story.world, story.known(owner)) == granted - CPUSet.of(max(granted))
    assert kept_off(story.world, story.known(shared)) == EMPTY
    assert exec_cpus(story.world, story.known(labelled)) == CPUSet.of(pool.lowest())


def test_a_label_counts_before_the_nodes_rule() -> None:
    """Also where it asks for all."""
    story = Story(exec=LAST)
    owner = story.arrive("owner", 2, labels={"cpuset.exec": "all"})
    story.settle()
    assert exec_cpus(story.world, story.known(owner)) == EMPTY


def test_what_is_kept_out_is_left_alone() -> None:
    """Its other labels are not read."""
    story = Story()
    out = story.arrive("out", labels={"cpuset.manage": "off", "cpuset.exec": "last"})
    story.settle()
    assert kept_off(story.world, story.known(out)) == EMPTY


def test_a_label_that_cannot_be_read_refuses_cpus_as_others_do() -> None:
    """With what is right instead."""
    story = Story()
    owner = story.arrive("owner", 2, labels={"cpuset.exec": "lst"})
    story.settle()
    assert story.granted(owner) is None
    refusal = story.known(owner).wish.refusal
    assert refusal is not None
    assert "cpuset.exec" in str(refusal)
