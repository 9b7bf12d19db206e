"""Backoff: doubling pauses up to a limit, each shortened by chance, and the shortest again after a success."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from sidecar.backoff import Backoff


class NoChance(Random):
    """Always draws the same number."""

    def __init__(self, number: float) -> None:
        super().__init__(0)
        self._number = number

    def random(self) -> float:
        return self._number


def test_pauses_double_up_to_the_limit() -> None:
    backoff = Backoff(NoChance(0.0), first=0.2, most=3.0)
    assert [round(backoff.pause(), 6) for _ in range(7)] == [0.2, 0.4, 0.8, 1.6, 3.0, 3.0, 3.0]
    backoff.reset()
    assert backoff.pause() == 0.2


@given(st.integers(0, 2**32), st.floats(0.001, 10), st.floats(0.001, 100), st.integers(1, 1200))
def test_a_pause_is_between_half_and_all_of_its_length(seed: int, first: float, most: float, tries: int) -> None:
    """Even after a thousand failures."""
    backoff = Backoff(Random(seed), first=first, most=most)
    for number in range(tries):
        longest = min(most, first * 2.0 ** min(number, 30))
        assert longest / 2 <= backoff.pause() <= longest


def test_two_of_them_do_not_try_at_the_same_moment() -> None:
    one, two = (Backoff(Random(seed), first=1, most=8) for seed in (1, 2))
    assert [one.pause() for _ in range(4)] != [two.pause() for _ in range(4)]
