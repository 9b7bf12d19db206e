"""A planted fault: a daemon with one rule broken, and the law that must catch it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from sidecar.decide.settings import Settings
from tests.decide.long_run import history
from tests.support.decide.histories import Broken
from tests.support.decide.reality import Reality
from tests.support.laws import Law

HISTORIES = 10_000
"""How many histories a fault gets to show itself."""


@dataclasses.dataclass(frozen=True)
class Fault:
    """A rule that is broken in one place, by `plant`, and the `law` that catches it. `first` is the seed of a
    history that shows it, where the search begins (`first_seeds`). `shuts`: it shows where tenants close their groups
    to the hand, and in no other history.
    """

    plant: Callable[[pytest.MonkeyPatch], None]
    law: Law[Reality]
    first: int = 0
    shuts: bool = False

    @property
    def name(self) -> str:
        """The name of the rule."""
        return self.plant.__name__

    def caught(
        self,
        settings: Sequence[Settings],
        *,
        with_hand: bool = False,
        with_two: bool = False,
        with_units: bool = False,
    ) -> int | None:
        """Return the first seed whose history breaks this law before any other; None if there is none."""
        play_one = partial(history, with_hand=with_hand, with_two=with_two, with_units=with_units, shuts=self.shuts)
        for seed in range(self.first, self.first + HISTORIES):
            try:
                play_one(seed, settings=settings)
            except Broken as broken:
                if self.law in broken.laws:
                    return seed
        return None
