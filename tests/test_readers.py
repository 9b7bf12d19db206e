"""Readers of typed values: what they take, from TOML or as text, and what they say would be right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.readers import NUMA_WORDS, choice, closest, duration, nearest, numa_rule, truth, whole, words
from state.mistakes import AllOf, Flaw, OneOf, Seconds, TrueOrFalse, Whole
from state.model import NumaRule, Shortage

READERS = (
    choice(Shortage),
    choice(NumaRule, NUMA_WORDS),
    whole(1, 100),
    duration(0, 60),
    truth,
    words(("red", "green")),
)


@pytest.mark.parametrize("value", ["wait", " Wait ", "WAIT"])
def test_a_word_is_read_in_either_case(value: str) -> None:
    assert choice(Shortage)(value) is Shortage.WAIT


@pytest.mark.parametrize("value", ["waits", "", 1, None, ["wait"]])
def test_what_is_none_of_the_words_says_which_there_are(value: object) -> None:
    assert choice(Shortage)(value) == OneOf(("share", "wait", "stop"))


def test_the_kubelets_word_for_a_rule_is_read_and_not_offered() -> None:
    assert numa_rule("single-numa-node") is NumaRule.SINGLE
    assert numa_rule("double") is None
    found = choice(NumaRule, NUMA_WORDS)("double")
    assert found == OneOf(("none", "best-effort", "restricted", "single"))


@pytest.mark.parametrize(("value", "number"), [(7, 7), ("7", 7), (" 07 ", 7), (1, 1), ("100", 100)])
def test_a_whole_number_is_one_of_toml_or_digits(value: object, number: int) -> None:
    assert whole(1, 100)(value) == number


@pytest.mark.parametrize("value", [0, 101, "0", "101", "1.0", 1.0, True, "+1", "٢", "9" * 5000, "", None])
def test_no_other_number_is_whole_and_within(value: object) -> None:
    assert whole(1, 100)(value) == Whole(1, 100)


@pytest.mark.parametrize(
    ("value", "seconds"), [("2s", 2.0), ("500ms", 0.5), ("1m", 60.0), (2, 2.0), (0.5, 0.5), (" 3 s ", 3.0), ("7", 7.0)]
)
def test_a_duration_is_a_number_with_or_without_a_unit(value: object, seconds: float) -> None:
    assert duration(0, 60)(value) == seconds


@pytest.mark.parametrize("value", ["61s", "-1s", "soon", "", True, None, "1h"])
def test_no_other_duration_is_one(value: object) -> None:
    assert duration(0, 60)(value) == Seconds(0, 60)


@pytest.mark.parametrize(("value", "is_true"), [(True, True), ("on", True), (" Yes", True), ("", False), ("0", False)])
def test_truth_has_many_words(value: object, is_true: bool) -> None:
    assert truth(value) is is_true


@pytest.mark.parametrize("value", ["2", "maybe", 1, None])
def test_nothing_else_is_true_or_false(value: object) -> None:
    assert truth(value) == TrueOrFalse()


def test_a_list_of_words_is_sorted_and_each_stands_once() -> None:
    read = words(("red", "green"))
    assert read("red,,green, red ") == read(["red", "green"]) == ("green", "red")
    assert read("") == ()


def test_all_unknown_words_of_a_list_are_found() -> None:
    assert words(("red", "green"))("blue,red,amber") == AllOf(("red", "green"), ("amber", "blue"))
    assert words(("red",))(7) == AllOf(("red",), ())


def test_the_nearest_word_or_all_there_are() -> None:
    assert nearest("lfit", ("lift", "keep")) == "; did you mean 'lift'?"
    assert nearest("xyz", ("lift", "keep")) == "; there is lift, keep"
    assert (closest("lfit", ("keep", "lift")), closest("xyz", ("lift",))) == ("lift", "")


anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)
)


@given(st.sampled_from(READERS), anything)
def test_a_reader_takes_anything_and_raises_nothing(read: Any, value: object) -> None:
    """A value, or a Flaw; read twice, the same."""
    found = read(value)
    assert isinstance(found, (Flaw, str, int, float, tuple))
    assert read(value) == found
