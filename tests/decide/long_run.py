"""Many random histories, as many as wanted: `python -m tests.decide.long_run 100000 [FIRST [WORDS]]`.

Words: `hand`, `two`, `units`, `wraps`.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence

from sidecar.decide.settings import Settings
from tests.support.decide.histories import BEGUN_WITH, MACHINES, Broken, play, random_history
from tests.support.decide.reality import Reality


def history(
    seed: int,
    length: int = 60,
    settings: Sequence[Settings] = BEGUN_WITH,
    *,
    with_hand: bool = False,
    with_two: bool = False,
    wraps: bool = False,
    with_units: bool = False,
) -> Reality:
    """Play the history of one seed, under one of these settings, and return the host at its end. Raise Broken."""
    rng = random.Random(seed)
    machine, begun_with = rng.choice(MACHINES), rng.choice(settings)
    ops = random_history(rng, 4 * length if with_hand else length)
    return play(machine, begun_with, ops, with_hand=with_hand, with_two=with_two, with_units=with_units, wraps=wraps)


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
    for seed in range(first, first + count):
        try:
            history(seed, with_hand=with_hand, with_two=with_two, with_units=with_units, wraps=wraps)
        except Broken as broken:
            failed += 1
            print(f"seed {seed}: {broken}", flush=True)
            if failed >= 20:
                break
        if seed % 10_000 == 9_999:
            print(f"{seed + 1 - first} histories, {failed} broken, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{count} histories, {failed} broken, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:3] if each.isdecimal()]
    words = {f"with_{each}": each in sys.argv for each in ("hand", "two", "units")}
    sys.exit(main(*numbers, **words, wraps="wraps" in sys.argv))
