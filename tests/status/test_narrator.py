"""How often the status document is written, at once after a change, and seldom while changes never end; and problems in
the log, when they come and when they are over.
"""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from sidecar.board import Board
from sidecar.log import Log
from sidecar.status.deadlines import Deadlines
from sidecar.status.narrator import MOST_AT_ONCE, STATUS_PAUSE, STEADY_PAUSE, DocumentPace, Narrator
from sidecar.status.present_status import PresentStatus
from tests.support.decide.stories import Story


def pauses(pace: DocumentPace, count: int, began: float = 1000.0) -> list[float]:
    """Write so many documents, each as soon as it may be; return the pauses after them."""
    found, now = [], began
    for _ in range(count):
        found.append(pace.pause(now))
        now += found[-1]
    return found


def test_documents_follow_each_other_quickly_and_then_once_a_second() -> None:
    found = pauses(DocumentPace(), 50)
    assert found[: MOST_AT_ONCE - 1] == [STATUS_PAUSE] * (MOST_AT_ONCE - 1)
    assert all(abs(pause - STEADY_PAUSE) < 1e-6 for pause in found[-30:])


def test_a_change_after_a_while_is_told_at_once() -> None:
    """As is the next one: seconds without a document count for later."""
    pace = DocumentPace()
    pauses(pace, 50)
    assert pauses(pace, MOST_AT_ONCE - 1, began=2000.0) == [STATUS_PAUSE] * (MOST_AT_ONCE - 1)


@pytest.mark.trio
async def test_a_problem_that_is_over_is_logged_whoever_reported_it(autojump_clock: MockClock, tmp_path: Path) -> None:
    """Once, with what it was: a reader of the log alone would act on it otherwise."""
    board, lines = Board(Story().world), io.StringIO()
    narrator = Narrator(board, Log(lines), str(tmp_path), PresentStatus(board, Deadlines(lambda: datetime.now(UTC))))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(narrator.narrate)
        for problem in ("the disk is full", "the disk is still full", None, None):
            narrator.report("vouching", problem)
            board.report("journal", problem)
            await trio.sleep(1)
        nursery.cancel_scope.cancel()
    over = [line for line in lines.getvalue().splitlines() if "a problem is over" in line]
    assert [("where=vouching" in line, "where=journal" in line) for line in over] == [(True, False), (False, True)]
    assert all('problem="the disk is still full"' in line for line in over), over
