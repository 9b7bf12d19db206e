"""CPUSet behaves as Python's set of the same numbers, and its text as the kernel's."""

from __future__ import annotations

import copy
import itertools
import pickle
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from state.cpuset import EMPTY, MAX_CPU, CPUSet, union
from state.errors import CPUSetError
from tests.state.strategies import cpu_numbers, cpu_sets

number_sets = st.frozensets(cpu_numbers, max_size=60)


@given(number_sets, number_sets)
def test_algebra_is_that_of_sets(a: frozenset[int], b: frozenset[int]) -> None:
    assert set(CPUSet(a) | CPUSet(b)) == a | b
    assert set(CPUSet(a) & CPUSet(b)) == a & b
    assert set(CPUSet(a) - CPUSet(b)) == a - b
    assert (CPUSet(a) <= CPUSet(b)) == (a <= b)
    assert (CPUSet(a) >= CPUSet(b)) == (a >= b)
    assert CPUSet(a).isdisjoint(CPUSet(b)) == a.isdisjoint(b)
    assert (CPUSet(a) == CPUSet(b)) == (a == b)
    assert set(union([CPUSet(a), CPUSet(b)])) == a | b


@given(number_sets)
def test_questions_are_answered_as_by_a_set(a: frozenset[int]) -> None:
    cpus = CPUSet(a)
    assert len(cpus) == len(a)
    assert bool(cpus) == bool(a)
    assert list(cpus) == sorted(a)
    assert hash(cpus) == hash(CPUSet(sorted(a, reverse=True)))
    assert all(cpu in cpus for cpu in a)
    assert MAX_CPU + 1 not in cpus
    assert -1 not in cpus
    assert "0" not in cpus
    if a:
        assert cpus.lowest() == min(a)
    assert [cpu for first, last in cpus.runs() for cpu in range(first, last + 1)] == sorted(a)


@given(cpu_sets)
def test_text_there_and_back(cpus: CPUSet) -> None:
    assert CPUSet.parse(str(cpus)) == cpus
    assert CPUSet.parse(f" {cpus}\n") == cpus
    assert CPUSet.from_mask(cpus.mask) == cpus
    assert pickle.loads(pickle.dumps(cpus)) == cpus
    assert copy.deepcopy(cpus) == cpus


@given(cpu_sets)
def test_text_is_the_shortest(cpus: CPUSet) -> None:
    """As the kernel prints it: ascending, runs joined, a pair as a range."""
    runs = list(cpus.runs())
    assert all(last + 1 < first for (_, last), (first, _) in itertools.pairwise(runs))
    assert re.fullmatch(r"(\d+(-\d+)?(,\d+(-\d+)?)*)?", str(cpus))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", []),
        ("\n", []),
        ("0", [0]),
        ("0-3,8", [0, 1, 2, 3, 8]),
        ("3,1,2,2-3", [1, 2, 3]),
        ("5-5", [5]),
        ("007", [7]),
        ("8191", [8191]),
    ],
)
def test_lists_that_are_read(text: str, numbers: list[int]) -> None:
    assert list(CPUSet.parse(text)) == numbers


@pytest.mark.parametrize(
    "text",
    ["x", "0-", "-1", "1-2-3", "3-1", "0,,1", ",", "0,", "0 1", "0 - 3", "8192", "1" * 30, "0x1", "1.0", "+1", "١", "²",
     "0-8192", "0:2", "0-7:1/2", "all", "1_0", "0\x00", "0;1"],
)  # fmt: skip
def test_hostile_text_is_refused_in_words(text: str) -> None:
    with pytest.raises(CPUSetError, match=r"bad CPU list|out of range"):
        CPUSet.parse(text)


@given(st.text("0123456789,- \n-x", max_size=20))
@example("0-4294967295")
@example("99999999999999999999-0")
def test_any_text_is_a_set_or_an_error_and_never_anything_else(text: str) -> None:
    try:
        cpus = CPUSet.parse(text)
    except CPUSetError:
        return
    assert CPUSet.parse(str(cpus)) == cpus


def test_endless_text_is_refused_before_it_is_read() -> None:
    with pytest.raises(CPUSetError, match="too long"):
        CPUSet.parse("0," * 40_000)
    assert len(CPUSet.parse(",".join(str(cpu) for cpu in range(MAX_CPU + 1)))) == MAX_CPU + 1


@pytest.mark.parametrize("cpu", [-1, MAX_CPU + 1, 1 << 40])
def test_numbers_out_of_range_are_refused(cpu: int) -> None:
    with pytest.raises(CPUSetError, match="out of range"):
        CPUSet.of(cpu)


@pytest.mark.parametrize("mask", [-1, 1 << (MAX_CPU + 1)])
def test_masks_out_of_range_are_refused(mask: int) -> None:
    with pytest.raises(CPUSetError, match="does not fit"):
        CPUSet.from_mask(mask)


def test_a_set_does_not_change() -> None:
    cpus = CPUSet.of(1)
    with pytest.raises(AttributeError):
        cpus.mask = 3
    with pytest.raises(AttributeError):
        del cpus.mask
    assert cpus == CPUSet.of(1)


def test_the_empty_set_has_no_lowest_and_equals_no_number() -> None:
    with pytest.raises(CPUSetError):
        EMPTY.lowest()
    assert EMPTY != 0
    assert CPUSet() == EMPTY
    assert union([]) == EMPTY


def test_it_shows_itself_briefly() -> None:
    assert repr(CPUSet.parse("0-3")) == "CPUSet('0-3')"
    assert len(repr(CPUSet(range(0, 8192, 2)))) < 100
