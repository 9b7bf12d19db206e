"""How long foreign writes stand, and when that is told."""

from __future__ import annotations

import pytest

from sidecar.decide.wresting import MOST_UNDONE
from sidecar.hand.overwrites import MOST_OF_ONE_SECONDS, MOST_STOOD_SECONDS, TOLERATED, Overwrites
from sidecar.hand.run_delay import RunDelay

NEEDED = round(MOST_STOOD_SECONDS / MOST_OF_ONE_SECONDS)


def after(*writes: tuple[float, float]) -> Overwrites:
    """Return what is known after these writes, each with how long it stood, and when that was over."""
    made = Overwrites()
    for stood, now in writes:
        made.add(stood, now)
    return made


def test_five_that_stand_are_a_loop_and_fewer_are_a_busy_host() -> None:
    """However long each stood."""
    late = [(5.0, number * 0.02) for number in range(NEEDED + 1)]
    assert not after(*late[: NEEDED - 1]).is_wrested
    assert after(*late).is_wrested


def test_a_hand_that_hardly_gets_a_cpu_tells_as_well() -> None:
    """It undoes one write in a second: what stood meanwhile empties no measure."""
    assert after(*((0.9, float(number)) for number in range(8))).is_wrested


def test_what_stands_for_a_twentieth_of_the_time_is_tolerated() -> None:
    """A tenant's updates, seventy in a second, and each undone within a millisecond; twice as much is not."""
    assert not after(*((0.7 * TOLERATED / 70, number / 70) for number in range(7000))).is_wrested
    assert after(*((2 * TOLERATED / 70, number / 70) for number in range(700))).is_wrested


def test_a_loop_that_ended_is_no_loop_soon_after() -> None:
    """However long it went on; a single write later is a person's."""
    loop = [(0.01, number / 100) for number in range(1000)]
    assert after(*loop).is_wrested
    assert not after(*loop, (0.001, 10 + 2.5)).is_wrested


def test_a_write_counts_from_when_the_hand_was_woken_or_had_looked() -> None:
    """Or from when its own write was seen to be gone, however long it slept since."""
    made = Overwrites()
    made.looked(5.0, is_lost=False)
    assert (made.began(4.0), made.began(6.0)) == (5.0, 6.0)
    made.looked(5.0, is_lost=True)
    assert (made.began(4.0), made.began(6.0)) == (5.0, 5.0)


def test_a_write_that_cannot_be_undone_counts_for_as_long_as_it_stands() -> None:
    """With each attempt, since the last one; until one succeeds."""
    made = Overwrites()
    stood = [made.stood(5.0, now, is_over=is_over) for now, is_over in ((5.1, False), (5.3, False), (5.4, True))]
    assert stood == pytest.approx([0.1, 0.2, 0.1])
    assert not made.is_standing
    assert made.stood(6.0, 6.5, is_over=True) == 0.5


def test_it_is_urgent_once() -> None:
    made = Overwrites()
    for _ in range(NEEDED):
        assert not made.is_urgent
        made.add(1.0, 10.0)
    assert made.is_urgent
    made.count(b"1", 10.0)
    assert not made.is_urgent


def test_reports_are_a_second_apart_but_for_the_one_that_says_that_it_is_wrested() -> None:
    made = Overwrites()
    assert made.count(b"1", 10.0) == 10.0
    assert made.report(10.0, 10.0) == (b"1", 1)
    assert [made.count(b"1", 10.1), made.count(b"2", 10.2)] == [11.0, None]
    for _ in range(NEEDED):
        made.add(1.0, 10.2)
    assert made.count(b"3", 10.3) == 10.3
    assert made.report(10.3, 10.3) == (b"3", 3)
    assert made.count(b"4", 10.4) == 11.3
    assert made.report(11.0, 11.0) == (b"", 0), "that one was replaced"
    assert made.report(11.3, 11.3) == (b"4", 1)


def test_more_than_any_engine_writes_is_told_at_once() -> None:
    made = Overwrites()
    assert made.report(made.count(b"1", 10.0) or 0.0, 10.0) == (b"1", 1)
    assert {made.count(b"1", 10.1) for _ in range(MOST_UNDONE - 1)} == {11.0, None}
    assert made.count(b"1", 10.1) == 10.1


def test_the_wait_for_a_cpu_never_becomes_less() -> None:
    """And is none where the kernel does not say it."""
    delay = RunDelay()
    before = delay.seconds()
    sum(range(100_000))
    assert 0.0 <= before <= delay.seconds()
    delay.close()
    assert delay.seconds() == 0.0
