"""POST /v1/starts while many starts are held: those that can be answered are."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import trio

from sidecar.api import start_route
from sidecar.decide.facts import StartLetGo
from tests.api.startcounter import Counter
from tests.api.test_start_route import until
from tests.support.decide.stories import Story

pytestmark = pytest.mark.trio


def is_held(counter: Counter, count: int) -> bool:
    """Return whether so many starts are held."""
    return len(counter.desk._waiting) == count


async def test_a_start_that_is_refused_for_others_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the engine logs names what was waited for: here an order to it is never carried out."""
    monkeypatch.setattr(start_route, "ANSWER_SECONDS", 0.1)
    story = Story()
    story.arrive("in the way")
    counter = Counter(tmp_path, story)
    async with counter.serving():
        counter.glance(cpuset_exclusive="1")
        status, told = await counter.ask()
    why = "not started: its CPUs were not free of others within 0.1 s: waited for in the way"
    assert (status, told["error"]) == (503, why)


async def test_a_start_that_can_be_answered_is_answered_however_many_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one more that would have to wait itself is refused, with the reason, and no longer held."""
    monkeypatch.setattr(start_route, "MOST_HELD", 3)
    monkeypatch.setattr(start_route, "PROMPT_SECONDS", 0.1)
    story = Story()
    story.arrive("in the way")
    counter = Counter(tmp_path, story)
    streams = []
    try:
        async with counter.serving():
            for held in range(1, 4):
                counter.glance(f"{held:064x}", cpuset_exclusive="1")
                streams.append(stream := await trio.open_unix_socket(counter.path))
                body = json.dumps({"id": f"{held:064x}"}).encode()
                await stream.send_all(b"POST /v1/starts HTTP/1.1\r\nhost: x\r\ncontent-length: 74\r\n\r\n" + body)
                await until(partial(is_held, counter, held))
            counter.glance("d" * 64)
            assert (await counter.ask(id="d" * 64))[0] == 200
            counter.glance("e" * 64, cpuset_exclusive="1")
            status, told = await counter.ask(id="e" * 64)
            assert (status, told["error"]) == (503, "not started: its CPUs are not free of others, and 3 starts wait")
            await until(lambda: isinstance(counter.asked[-1], StartLetGo) and is_held(counter, 3))
    finally:
        for stream in streams:
            await stream.aclose()
