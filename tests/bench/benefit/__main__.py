"""The study, its figures and its tables: `python -m tests.bench.benefit [--seeds N] [--out DIR] [--engine]`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Final

from tests.bench.benefit.cases import CASES
from tests.bench.benefit.load import Shape
from tests.bench.benefit.study import history, study
from tests.bench.benefit.tables import tables

PICTURES: Final = Path(__file__).parents[3] / "docs" / "pictures"

SEEDS: Final = 12

WATCHED: Final = 1
"""The seed of the run that is drawn over time."""


def main() -> int:
    """Run the whole study; print the results on stdout."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.benefit", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"loads for each case ({SEEDS})")
    parser.add_argument("--out", type=Path, default=PICTURES, help="where the figures go (docs/pictures)")
    parser.add_argument("--engine", action="store_true", help="only what two CPUs allow, on a real engine; as root")
    arguments = parser.parse_args()
    if arguments.engine:
        from tests.bench.benefit.engine import measure

        print("\n".join(measure()))
        return 0
    # Only drawing needs the drawing library.
    from tests.bench.benefit.figure import boxes, timeline, write

    began = time.monotonic()
    outcomes = study(arguments.seeds)
    print("\n".join(tables(outcomes, CASES)))
    arguments.out.mkdir(parents=True, exist_ok=True)
    write(boxes(outcomes), arguments.out / "benefit.svg")
    [dynamic] = [case for case in CASES if case.name == "dynamic"]
    write(timeline(history(dynamic, Shape.BURSTS, WATCHED)), arguments.out / "benefit-burst.svg")
    print(f"\n{len(outcomes)} runs in {time.monotonic() - began:.0f} s; figures in {arguments.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
