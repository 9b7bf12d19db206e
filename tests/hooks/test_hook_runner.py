"""Telling hooks: which changes, in which documents, how often; failures, and what is missed."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sidecar.api.change_record import MOST, ChangeRecord
from sidecar.board import Board, HookCounts
from sidecar.config.hook_sections import Hook
from sidecar.hooks import hook_runner
from sidecar.hooks.hook_runner import MOST_BYTES, MOST_CHANGES, document_of, run_hooks, wants
from sidecar.log import Log, LogLevel
from sidecar.status.recorded_change import RecordedChange
from sidecar.words.changes import Line
from tests.support.decide.stories import Story

pytestmark = pytest.mark.trio

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)

ALL = Hook(name="all", command=("/bin/all",))


class Stage:
    """A record of changes, and a hook whose documents are kept. `failing` is the reason that it gives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.board = Board(Story().world)
        self.record = ChangeRecord(self.board, lambda: NOW)
        self.lines = io.StringIO()
        self.documents: list[Any] = []
        self.times: list[float] = []
        self.failing = ""
        self.seconds = 0.0
        monkeypatch.setattr(hook_runner, "told", self._told)

    async def _told(self, _: Hook, document: bytes) -> str:
        self.documents.append(json.loads(document))
        self.times.append(trio.current_time())
        await trio.sleep(self.seconds)
        return self.failing

    async def run(self, nursery: trio.Nursery, hook: Hook = ALL) -> None:
        """Let the hook be told from now on."""
        nursery.start_soon(run_hooks, [hook], self.board, Log(self.lines), self.record)
        await trio.testing.wait_all_tasks_blocked()

    def change(self, *messages: str, level: LogLevel = LogLevel.INFO, **fields: object) -> None:
        """Record changes."""
        self.record._add([Line(level, message, fields) for message in messages], NOW)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def messages(document: Any) -> list[str]:
    return [event["message"] for event in document["events"]]


async def test_a_hook_is_told_of_changes_with_their_fields(autojump_clock: MockClock, stage: Stage) -> None:
    """As they are in the file of events; what happened before it began is not told."""
    stage.change("before")
    async with trio.open_nursery() as nursery:
        await stage.run(nursery)
        stage.change("granted", container="voice", cpus="1-2")
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    [document] = stage.documents
    assert (document["version"], document["hook"], document["missed"]) == (1, "all", 0)
    [event] = document["events"]
    assert (event["message"], event["container"], event["cpus"], event["level"]) == ("granted", "voice", "1-2", "info")
    assert event["id"].endswith("-2")
    assert stage.board.hooks == HookCounts(runs=1)


async def test_what_happens_while_it_is_told_is_in_the_next_document(autojump_clock: MockClock, stage: Stage) -> None:
    """Never two at once, and a rest of a second between them."""
    stage.seconds = 5.0
    async with trio.open_nursery() as nursery:
        await stage.run(nursery)
        stage.change("one")
        await trio.sleep(1)
        stage.change("two")
        stage.change("three")
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    assert [messages(document) for document in stage.documents] == [["one"], ["two", "three"]]
    assert stage.times[1] - stage.times[0] >= 6.0


async def test_a_document_is_bounded(autojump_clock: MockClock, stage: Stage) -> None:
    """In number and in size; one change that is too long comes without its fields."""
    async with trio.open_nursery() as nursery:
        await stage.run(nursery)
        stage.change(*(f"m{number}" for number in range(MOST_CHANGES + 5)))
        stage.change("long", note="x" * (MOST_BYTES - 200))
        stage.change("too long", note="x" * MOST_BYTES)
        stage.change("last")
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    assert [len(document["events"]) for document in stage.documents] == [MOST_CHANGES, 5, 1, 1, 1]
    assert messages(stage.documents[2]) == ["long"]
    assert stage.documents[3]["events"] == [{"level": "info", "message": "too long"}]
    assert sum(map(len, map(messages, stage.documents))) == MOST_CHANGES + 8


async def test_a_failure_is_a_problem_until_it_succeeds_and_is_not_repeated(
    autojump_clock: MockClock, stage: Stage
) -> None:
    """Named, with how often; and it rests longer after each in a row."""
    stage.failing = "it ended with 1: no\x1b[2J"
    async with trio.open_nursery() as nursery:
        await stage.run(nursery)
        for number in range(4):
            stage.change(f"m{number}")
            await trio.sleep(20)
        assert stage.board.problems == {"hook all": "the hook all failed: it ended with 1: no\\x1b[2J (4 of 4 times)"}
        stage.change("five")
        await trio.sleep(1)
        stage.change("six")
        await trio.sleep(60)
        assert stage.times[-1] - stage.times[-2] >= 30
        stage.failing = ""
        stage.change("seven")
        await trio.sleep(100)
        assert stage.board.problems == {}
        nursery.cancel_scope.cancel()
    assert [name for document in stage.documents for name in messages(document)] == [
        *("m0", "m1", "m2", "m3", "five", "six", "seven")
    ]
    assert stage.board.hooks == HookCounts(runs=7, failures=6)


async def test_a_hook_that_is_too_slow_misses_changes_and_is_told_how_many(
    autojump_clock: MockClock, stage: Stage
) -> None:
    """The record keeps the last ones, and waits for nobody."""
    stage.seconds = 60.0
    async with trio.open_nursery() as nursery:
        await stage.run(nursery)
        stage.change("first")
        await trio.sleep(1)
        stage.change(*(f"m{number}" for number in range(MOST + 50)))
        await trio.sleep(70)
        nursery.cancel_scope.cancel()
    assert stage.documents[1]["missed"] == 50
    assert messages(stage.documents[1])[0] == "m50"
    assert stage.board.hooks.missed == 50
    assert "missed=50" in stage.lines.getvalue()


async def test_an_unexpected_error_ends_no_hook(
    autojump_clock: MockClock, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted as a crash of the daemon, and the next change is told."""
    honest = hook_runner.told

    async def broken(hook: Hook, document: bytes) -> str:
        monkeypatch.setattr(hook_runner, "told", honest)
        raise RuntimeError("planted")

    monkeypatch.setattr(hook_runner, "told", broken)
    async with trio.open_nursery() as nursery:
        await stage.run(nursery)
        stage.change("one")
        await trio.sleep(5)
        stage.change("two")
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    assert (stage.board.crashes, [messages(each) for each in stage.documents]) == (1, [["two"]])


@pytest.mark.parametrize(
    ("on", "message", "level", "wanted"),
    [
        ((), "anything", LogLevel.INFO, True),
        (("granted",), "granted", LogLevel.INFO, True),
        (("granted",), "refused", LogLevel.WARNING, False),
        (("take",), "take started", LogLevel.INFO, True),
        (("take",), "takeover", LogLevel.INFO, False),
        (("warning",), "unknown label", LogLevel.WARNING, True),
        (("warning",), "granted", LogLevel.INFO, False),
        (("granted", "warning"), "unknown label", LogLevel.ERROR, True),
    ],
)
async def test_a_hook_is_for_some_kinds_of_changes(
    on: tuple[str, ...], message: str, level: LogLevel, wanted: bool
) -> None:
    hook = Hook(name="1", command=("/bin/true",), on=on)
    assert wants(hook, RecordedChange(level, message, b"{}")) is wanted


async def test_no_name_breaks_out_of_the_document() -> None:
    """What tenants wrote is text in JSON."""
    told = json.dumps({"message": "granted", "container": '"],"events":[{"message":"forged'}).encode()
    document = json.loads(document_of(ALL, [RecordedChange(LogLevel.INFO, "granted", told)], 0))
    assert len(document["events"]) == 1
