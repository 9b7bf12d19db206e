"""The measurement of the way from a projection to a workload measures just that. Its figures: `tests.bench.woken`."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import pytest
import trio

from tests.bench.woken import BY_HAND, TOLD, WATCHES, cpus_of, measured, row_of


@pytest.mark.skipif(not shutil.which("gcc"), reason="there is no gcc")
def test_every_listener_hears_every_projection_once_and_right(tmp_path: Path) -> None:
    """For each way to listen, with `write` and with the Teller; and the clock stops after it was started."""

    async def run() -> None:
        found = await measured(tmp_path, rounds=3, warm_up=1)
        for name in (*WATCHES, *BY_HAND, *TOLD):
            rounds = [one for one in found if one.row == name]
            assert [one.heard for one in rounds] == [cpus_of(number) for number in (2, 3, 4)]
            assert all(one.began < one.entered < min(one.returned, one.woken) for one in rounds)
            row = row_of(rounds)
            assert row.rounds == 3
            assert 0 < row.woken[0] <= row.woken[-1]
        assert len(found) == 3 * len({one.row for one in found})

    trio.run(run)


def test_an_old_answer_is_never_taken_for_a_new_one() -> None:
    """Rounds next to each other name different CPUs."""
    said = [cpus_of(number) for number in range(200)]
    assert all(one != later for one, later in pairwise(said))
    assert {len(one) for one in said} == {4}
