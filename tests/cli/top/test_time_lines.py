"""The last hour of a container as a line: what it had when, and what is not known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.cli.top.time_lines import ASCII_BARS, BARS, changes_of, counts_in_parts, most_held, time_line
from sidecar.status.grant_history import HOUR, GrantChange, GrantHistory, history
from state.cpuset import CPUSet

NOW = 10_000.0


def change(minutes_ago: float, cpus: str, container: str = "web") -> GrantChange:
    return GrantChange(at=NOW - 60 * minutes_ago, container=container, name=container, cpus=CPUSet.parse(cpus))


def made(*changes: GrantChange) -> GrantHistory:
    return history(changes, NOW)


def test_a_line_shows_how_many_cpus_it_had_when() -> None:
    """Its most is the highest bar, a dot is none; before the record there is nothing."""
    told = made(change(50, "1"), change(30, "1-4"), change(10, ""), change(5, "7", "other"))
    assert time_line(told, "web", 6, HOUR) == " ▂▂██."
    assert time_line(told, "web", 6, HOUR, ASCII_BARS) == " 2288."
    assert time_line(told, "other", 6, HOUR) == " ....█"
    assert most_held(told, "web") == 4


def test_what_was_granted_before_the_hour_begins_it() -> None:
    """The record goes further back than it is shown."""
    assert time_line(made(change(90, "1-2"), change(20, "1")), "web", 6, HOUR) == "████▄▄"


def test_a_container_without_cpus_has_none() -> None:
    """Also one of which nothing was ever recorded."""
    assert time_line(made(change(70, "1")), "unknown", 4, HOUR) == "...."
    assert most_held(made(), "unknown") == 0


def test_changes_are_the_newest_first() -> None:
    """Its own alone."""
    changes = (change(30, "1"), change(20, "2", "other"), change(10, "1-2"))
    assert changes_of(made(*changes), "web") == [changes[2], changes[0]]


@pytest.mark.parametrize("bars", [BARS, ASCII_BARS])
@given(
    changes=st.lists(
        st.tuples(st.floats(0, 120), st.sampled_from(["", "0", "0-3", "0-95"])),
        max_size=20,
        unique_by=lambda each: each[0],
    ),
    width=st.integers(1, 80),
)
def test_a_line_has_its_width_and_its_present(changes: list[tuple[float, str]], width: int, bars: str) -> None:
    """Whatever the history; the last part has at least what is held now, and no part more than was ever held."""
    told = made(*(change(at, cpus) for at, cpus in sorted(changes, reverse=True)))
    assert len(time_line(told, "web", width, HOUR, bars)) == width
    counts = counts_in_parts(told, "web", width, HOUR)
    held = len(CPUSet.parse(min(changes, key=lambda each: each[0])[1])) if changes else 0
    assert (counts[-1] or 0) >= held
    assert max((count or 0 for count in counts), default=0) <= most_held(told, "web")
