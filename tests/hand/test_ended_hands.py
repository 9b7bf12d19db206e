"""Hands that end: by an error of their thread, and halfway."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.decide.orders import Answers
from sidecar.hand.watched_tree import WatchedTree
from sidecar.ports import HandBroken
from state.cpuset import CPUSet
from tests.support.hand.stages import FileStage, news_until, until, v2_stage

ONE, TWO = "a" * 64, "b" * 64


@pytest.fixture(params=["", "with the reflex"])
def v2(tmp_path: Path, reflex: str | None, request: pytest.FixtureRequest) -> Iterator[FileStage]:
    """Yield a plain tree with the parent of systemd's engines, and a hand that holds answers."""
    if request.param and reflex is None:
        pytest.skip("needs a C compiler")
    with v2_stage(tmp_path, reflex if request.param else None) as stage:
        stage.make("/machine.slice")
        stage.begin()
        stage.hand.hold(Answers(others=CPUSet.of(0)))
        yield stage


def test_an_error_of_the_watcher_is_the_last_news_and_nothing_is_written_any_more(v2: FileStage) -> None:
    """From then on the engine alone changes cpusets, and no old answer is in its way."""

    def broken(waited: float) -> float | None:
        raise OSError(errno.EIO, "it broke")

    v2.hand._watcher._hear = broken
    v2.make(f"/machine.slice/docker-{ONE}.scope")
    news_until(v2.hand, lambda each: each == HandBroken("it broke"))
    until(lambda: not v2.hand._watcher._thread.is_alive())
    v2.make(f"/machine.slice/docker-{TWO}.scope")
    v2.overwrite(f"/machine.slice/docker-{TWO}.scope", "0-1")
    assert v2.cpus(f"/machine.slice/docker-{TWO}.scope") == "0-1"


def test_an_unexpected_error_of_the_watcher_is_told_as_well(v2: FileStage) -> None:
    """Whoever follows the hand logs it, and opens another one."""
    error = KeyError("planted")

    def broken(waited: float) -> float | None:
        raise error

    v2.hand._watcher._hear = broken
    v2.make(f"/machine.slice/docker-{ONE}.scope")
    news_until(v2.hand, lambda each: isinstance(each, HandBroken) and each.error is error)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_hand_that_cannot_be_halted_is_told_to_have_broken_all_the_same(v2: FileStage) -> None:
    """Else nothing would know that nobody answers."""

    def broken(waited: float) -> float | None:
        raise OSError(errno.EIO, "it broke")

    def stuck() -> None:
        raise KeyError("planted")

    halt, v2.hand._queue.halt = v2.hand._queue.halt, stuck  # type: ignore[method-assign]
    v2.hand._watcher._hear = broken
    v2.make(f"/machine.slice/docker-{ONE}.scope")
    news_until(v2.hand, lambda each: each == HandBroken("it broke"))
    until(lambda: not v2.hand._watcher._thread.is_alive())
    v2.hand._queue.halt = halt  # type: ignore[method-assign]


def test_a_hand_whose_end_fails_halfway_answers_nothing_and_locks_nothing(
    v2: FileStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be in its successor's way."""
    ends: list[str] = []

    def broken(tree: WatchedTree, path: str) -> None:
        ends.append("forget")
        raise KeyError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(WatchedTree, "forget", broken)
        patch.setattr(v2.hand._queue, "halt", lambda: ends.append("halt"))
        patch.setattr(v2.hand._queue, "close", lambda: ends.append("close"))
        with pytest.raises(KeyError):
            v2.hand.close()
    assert (ends[0], ends[1], ends[-1]) == ("halt", "forget", "close")
    v2.hand._queue.close()
