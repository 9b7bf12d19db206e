"""The seed of each planted fault whose history shows it: `python -m tests.decide.lawbook.first_seeds`.

It prints a line for each fault that is found later than its seed `first`: its name, and the seed to write there. All
seeds move when histories change; the tests find the faults all the same, but play more histories.
"""

from __future__ import annotations

import pytest

from tests.decide.lawbook.test_planted_faults import PLANTED


def main() -> None:
    """Print the faults whose seed has moved."""
    for fault, settings in PLANTED:
        with pytest.MonkeyPatch.context() as patch:
            fault.plant(patch)
            seed = fault.caught(settings)
        if seed != fault.first:
            print(f"{fault.name} {seed}", flush=True)


if __name__ == "__main__":
    main()
