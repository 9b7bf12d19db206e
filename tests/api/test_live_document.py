"""How often the live document is made and told, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from sidecar.api.live_document import LEASE_PAUSE, MOST_PAUSE, PAUSE, SHARE, LiveDocument
from sidecar.board import Board
from sidecar.log import Log
from sidecar.status.deadlines import Deadlines
from sidecar.status.present_status import PresentStatus
from tests.support.decide.stories import Story

pytestmark = pytest.mark.trio

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
ROUNDING = 0.05


def busy(seconds: float) -> Iterator[float]:
    """Yield the readings of a thread that works so long for each document."""
    now = 0.0
    while True:
        yield now
        now += seconds
        yield now


async def told(seconds: float, *, changes_every: float) -> tuple[list[float], list[float]]:
    """Read for two minutes while documents take so long. Return when something was told, and when a document was."""
    board = Board(Story().world)
    reading = busy(seconds)
    live = LiveDocument(board, PresentStatus(board, Deadlines(lambda: NOW)), lambda: NOW, lambda: next(reading))
    words: list[float] = []
    documents: list[float] = []

    async def read() -> None:
        version = 0
        while True:
            await live.changed_since(version)
            live.message(version)
            words.append(trio.current_time())
            if version != live.version:
                documents.append(trio.current_time())
            version = live.version

    with trio.move_on_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.keep, Log(StringIO()))
            nursery.start_soon(read)
            number = 0
            while True:
                await trio.sleep(changes_every)
                number += 1
                board.report("disk", f"the disk is full, {number} files are lost")
    return words, documents


@pytest.mark.parametrize("seconds", [0.0, 0.002, 0.03, 0.08, 1.0])
@pytest.mark.parametrize("changes_every", [0.1, 1.0, 600.0])
async def test_a_reader_hears_a_word_every_five_seconds(
    autojump_clock: MockClock, seconds: float, changes_every: float
) -> None:
    """Whether nothing changes or all the time, and however long a document takes: else a page takes it for gone."""
    words, _ = await told(seconds, changes_every=changes_every)
    assert max(after - before for before, after in pairwise([0.0, *words, 120.0])) <= LEASE_PAUSE + PAUSE + ROUNDING


@pytest.mark.parametrize("seconds", [0.0, 0.002, 0.03, 1.0])
async def test_documents_take_their_share_of_the_time(autojump_clock: MockClock, seconds: float) -> None:
    """At most ten a second, and one part in a hundred of the time, but one in 15 s in any case."""
    _, documents = await told(seconds, changes_every=0.05)
    pause = min(max(PAUSE, seconds * SHARE), MOST_PAUSE)
    between = [after - before for before, after in pairwise(documents[2:])]
    assert min(between) >= pause - ROUNDING
    assert max(between) <= pause + PAUSE + ROUNDING
