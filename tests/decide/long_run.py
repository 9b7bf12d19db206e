"""Many random histories, as many as wanted: `python -m tests.decide.long_run 100000 [FIRST [WORDS]]`.

Words: `hand`, `two`, `units`, `wraps`; and `stops`, which goes by itself: histories with a hand, in each of which the
daemon is killed at one step of an order with two legs (`lawbook/twolegs`), at each of these in turn. It counts those
that had the stop.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

from sidecar.decide.settings import Settings
from tests.decide.lawbook.twolegs import STOPS, killed_at
from tests.support.decide.histories import BEGUN_WITH, MACHINES, Broken, play, random_history
from tests.support.decide.reality import Reality

_MOST_BROKEN = 20
"""Broken histories after which a run ends: they mostly have one cause by then."""


def history(
    seed: int,
    length: int = 60,
    settings: Sequence[Settings] = BEGUN_WITH,
    *,
    with_hand: bool = False,
    with_two: bool = False,
    wraps: bool = False,
    with_units: bool = False,
    shuts: bool = False,
) -> Reality:
    """Play the history of one seed, under one of these settings, and return the host at its end. Raise Broken. `shuts`:
    tenants close their groups to the hand.
    """
    rng = random.Random(seed)
    machine, begun_with = rng.choice(MACHINES), rng.choice(settings)
    ops = random_history(rng, 4 * length if with_hand else length)
    words = {"with_hand": with_hand, "with_two": with_two, "with_units": with_units, "wraps": wraps}
    return play(machine, begun_with, ops, shuts=shuts, **words)


def is_shutting(seed: int) -> bool:
    """Return whether tenants close their groups in a long run's history of this seed with a hand: in one of three."""
    return random.Random(~seed).randrange(3) == 0


def main(
    count: int,
    first: int = 0,
    *,
    with_hand: bool = False,
    with_two: bool = False,
    with_units: bool = False,
    wraps: bool = False,
) -> int:
    """Play `count` histories, print progress and the broken ones; return 1 if any is broken."""
    began, failed = time.monotonic(), 0
    play_one = partial(history, with_hand=with_hand, with_two=with_two, with_units=with_units, wraps=wraps)
    for seed in range(first, first + count):
        shuts = with_hand and is_shutting(seed)
        try:
            play_one(seed, shuts=shuts)
        except Broken as broken:
            failed += 1
            print(f"seed {seed}{' with shuts' if shuts else ''}: {broken}", flush=True)
            if failed >= _MOST_BROKEN:
                break
        if seed % 10_000 == 9_999:
            print(f"{seed + 1 - first} histories, {failed} broken, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{count} histories, {failed} broken, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def main_of_stops(count: int, first: int = 0) -> int:
    """Play `count` histories with a hand, and kill the daemon in each; print progress and the broken ones, and return 1
    if any is broken. Of each seed there are as many as there are stops.
    """
    began, failed, killed = time.monotonic(), 0, Counter[str]()

    def told(played: int) -> str:
        stops = ", ".join(f"{killed[stop.__name__]} {stop.__name__}" for stop in STOPS)
        took = f"{time.monotonic() - began:.0f} s"
        return f"{played} histories, {killed.total()} killed ({stops}), {failed} broken, {took}"

    played = 0
    for played in range(1, count + 1):
        seed, stop = first + (played - 1) // len(STOPS), STOPS[(played - 1) % len(STOPS)]
        try:
            killed[stop.__name__] += killed_at(stop, seed)
        except Broken as broken:
            killed[stop.__name__] += 1
            failed += 1
            print(f"seed {seed}, {stop.__name__}: {broken}", flush=True)
            if failed >= _MOST_BROKEN:
                break
        if played % 2_000 == 0:
            print(told(played), flush=True)
    print(told(played))
    return 1 if failed else 0


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:3] if each.isdecimal()]
    if "stops" in sys.argv:
        sys.exit(main_of_stops(*numbers))
    words = {f"with_{each}": each in sys.argv for each in ("hand", "two", "units")}
    sys.exit(main(*numbers, **words, wraps="wraps" in sys.argv))
