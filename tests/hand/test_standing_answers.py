"""The line that a group gets without asking."""

from __future__ import annotations

import pytest

from sidecar.decide.orders import Answers
from sidecar.hand.standing_answers import StandingAnswers, parsed
from state.cpuset import CPUSet
from tests.support.keys import docker

HELD = StandingAnswers(
    Answers(
        others=CPUSet.parse("0-3"), own={docker("own"): CPUSet.of(4, 5), docker("left"): None}, owned=CPUSet.of(4, 5)
    )
)


def test_a_newborn_gets_its_own_or_the_pool() -> None:
    assert [HELD.for_newborn(id) for id in ("own", "left", "other", "")] == [b"4-5", None, b"0-3", b"0-3"]


def test_without_a_pool_nothing_is_written() -> None:
    assert StandingAnswers(Answers()).for_newborn("other") is None
    assert StandingAnswers(Answers(others=CPUSet())).for_newborn("") is None


@pytest.mark.parametrize(
    ("has", "gets"), [("0-7", b"0-3,6-7"), ("4", b"0-3"), ("0-1", b"0-1"), ("", b"0-3"), ("not a list", None)]
)
def test_a_group_that_was_found_is_moved_off_owners_cpus_alone(has: str, gets: bytes | None) -> None:
    """On version 2, one without CPUs of its own has its parent's, also those that come online."""
    assert HELD.for_found("other", has.encode()) == gets
    assert StandingAnswers(Answers(others=CPUSet.of(0))).for_found("other", has.encode()) in (has.encode(), None)


@pytest.mark.parametrize(
    ("wrote", "gets"),
    [("0-7", b"0-3"), ("0-3", b"0-3"), ("4", b"0-3"), ("0-1", b"0-1"), ("1,4,7", b"1,7"), ("", b"0-3"), ("?", b"0-3")],
)
def test_a_newborn_that_is_not_known_keeps_what_its_runtime_wrote_but_for_owners_cpus(wrote: str, gets: bytes) -> None:
    """One of another engine, or a step of a build. What has the whole pool is a copy of the parent's."""
    assert HELD.for_newborn("other", wrote.encode()) == HELD.for_newborn("", wrote.encode()) == gets
    assert HELD.for_newborn("own", wrote.encode()) == b"4-5"
    assert HELD.for_newborn("left", wrote.encode()) is None


@pytest.mark.parametrize("id", ["own", "left"])
def test_a_group_that_was_found_and_has_an_answer_is_left_to_its_order(id: str) -> None:
    assert HELD.for_found(id, b"0-7") is None


def test_the_lines_name_everything_for_whoever_writes_them() -> None:
    assert HELD.lines == (b"0-3", {"own": b"4-5", "left": b""})


def test_a_text_that_is_no_list_has_no_cpus() -> None:
    assert parsed(b"\xff") is None
    assert parsed(b"0-1") == CPUSet.of(0, 1)


@pytest.mark.parametrize(("wrote", "gets"), [("", b"1"), ("0-7", b"1"), ("?", b"1"), ("2", b"2")])
def test_one_that_is_left_alone_gets_what_the_engine_has_unless_another_program_wrote_it(
    wrote: str, gets: bytes
) -> None:
    """The runtime's copy of the parent's CPUs is no such write."""
    held = StandingAnswers(Answers(others=CPUSet.parse("0-3"), left={docker("left"): CPUSet.of(1)}))
    assert held.for_released("left", wrote.encode()) == gets
