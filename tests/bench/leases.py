"""How much processor time the leases of 500 containers cost: `python -m tests.bench.leases [DIRECTORY]`."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from sidecar.projection.projections import Projections
from state.cpuset import CPUSet
from state.lease import RENEW_SECONDS
from state.projection import Projection

CONTAINERS: Final = 500
ROUNDS: Final = 24


def main() -> None:
    """Print the cost of a round, and the share of a CPU that it takes."""
    above = sys.argv[1] if sys.argv[1:] else "/dev/shm"
    for names, what in ((0, "by id alone"), (1, "by id and by name")):
        with tempfile.TemporaryDirectory(dir=above) as root:
            projections = Projections(Path(root), clock=time.time)
            for number in range(CONTAINERS):
                id = f"{number:064x}"[::-1]
                told = Projection(container=id, name=f"c{number}", cpus=CPUSet.of(number))
                projections.write(id, [f"c{number}"] * names, told)
            spent = []
            for _ in range(ROUNDS):
                began = time.process_time()
                projections.renew(projections.vouched())
                spent.append(time.process_time() - began)
            mean = sum(spent) / len(spent)
            print(
                f"{CONTAINERS} containers {what}, in {above}: {1000 * mean:.1f} ms each {RENEW_SECONDS:g} s, "
                f"{100 * mean / RENEW_SECONDS:.3f} % of a CPU"
            )


if __name__ == "__main__":
    main()
