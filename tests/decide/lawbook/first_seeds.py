"""The seed of each planted fault whose history shows it: `python -m tests.decide.lawbook.first_seeds`.

It prints a line for each fault that is found later than its seed `first`: its name, and the seed to write there. All
seeds move when histories change; the tests find the faults all the same, but play more histories.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sidecar.decide.settings import Settings
from tests.decide.lawbook.faults import Fault
from tests.decide.lawbook.test_hand_faults import PLANTED as PLANTED_BY_HAND
from tests.decide.lawbook.test_planted_faults import PLANTED


def main() -> None:
    """Print the faults whose seed has moved; at last those of the hand."""
    for fault, settings in PLANTED:
        _compare(fault, settings, with_hand=False)
    for fault, settings in PLANTED_BY_HAND:
        _compare(fault, settings, with_hand=True)


def _compare(fault: Fault, settings: Sequence[Settings], *, with_hand: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        seed = fault.caught(settings, with_hand=with_hand)
    if seed != fault.first:
        print(f"{fault.name} {seed}", flush=True)


if __name__ == "__main__":
    main()
