"""Many random scenarios, judged: `python -m tests.blackbox.long_run COUNT [FIRST] [--workers N] [--whole]`.

Each broken promise is printed with its seed, and a scenario cut down to what breaks it (with `--whole`, as it was
drawn).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Final

from tests.blackbox.finding import Finding
from tests.blackbox.judge import broken_in, cut_down
from tests.blackbox.scenarios import scenario_of, toml_of

MOST_SHOWN: Final = 2
"""How many scenarios of one promise are cut down; of more, only the seed is printed."""


def verdict(seed: int) -> tuple[int, tuple[Finding, ...]]:
    """Return the broken promises of the scenario of a seed."""
    return seed, broken_in(scenario_of(seed))


def main(arguments: Sequence[str]) -> int:
    """Play and judge; return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.blackbox.long_run")
    parser.add_argument("count", type=int)
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--whole", action="store_true")
    given = parser.parse_args(arguments)
    began, broken, shown = time.monotonic(), 0, dict[str, int]()
    with ProcessPoolExecutor(given.workers) as pool:
        tell = partial(print, flush=True)
        for number, (seed, found) in enumerate(
            pool.map(verdict, range(given.first, given.first + given.count), chunksize=20), 1
        ):
            broken += bool(found)
            for each in found:
                tell(f"seed {seed}: {each.promise} at {each.at:g}, {each.container or '-'}: {each.seen}")
                shown[each.promise] = shown.get(each.promise, 0) + 1
                if shown[each.promise] <= MOST_SHOWN:
                    drawn = scenario_of(seed)
                    tell(toml_of(drawn if given.whole else cut_down(drawn, each.promise)))
            if number % 1000 == 0:
                tell(f"{number} scenarios, {broken} break a promise, {time.monotonic() - began:.0f} s")
    print(f"{given.count} scenarios, {broken} break a promise, {time.monotonic() - began:.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
