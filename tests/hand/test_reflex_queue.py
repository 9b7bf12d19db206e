"""The compiled part, and what stands in for it."""

from __future__ import annotations

import errno
import os
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.hand import libc_calls
from sidecar.hand.libc_calls import IN_CREATE, Queue
from sidecar.hand.reflex_queue import ReflexQueue, open_queue
from sidecar.hand.urgency import Urgency


def test_without_a_library_the_watcher_answers(tmp_path: Path) -> None:
    """Also with one that is for another machine."""
    other = tmp_path / "reflex.so"
    other.write_bytes(b"\x7fELF of another machine")
    for library in (None, str(other)):
        with closing(open_queue(library)) as queue:
            assert queue.is_passive


def test_with_a_library_it_answers_by_itself(reflex: str | None) -> None:
    if reflex is None:
        pytest.skip("needs a C compiler")
    with closing(open_queue(reflex)) as queue:
        assert isinstance(queue, ReflexQueue)
        queue.start()
        assert isinstance(queue.urgency, Urgency)


def test_events_it_does_not_answer_are_passed_on(reflex: str | None, tmp_path: Path) -> None:
    """In order, with their names, however many there are."""
    if reflex is None:
        pytest.skip("needs a C compiler")
    with closing(open_queue(reflex)) as queue:
        watch = queue.watch(os.fsencode(tmp_path), IN_CREATE)
        names = [f"{number}{'x' * (number % 200)}".encode() for number in range(500)]
        for name in names:
            (tmp_path / name.decode()).touch()
        queue.drain()
        found = list(queue.events()) + list(queue.events())
        assert [event.name for event in found] == names
        assert {(event.watch, event.made) for event in found} == {(watch, 0)}


def test_what_the_kernel_does_not_give_is_an_error(monkeypatch: pytest.MonkeyPatch, reflex: str | None) -> None:
    def none_left(result: int) -> int:
        raise OSError(errno.EMFILE, "too many")

    monkeypatch.setattr(libc_calls, "_checked", none_left)
    for library in (None, reflex):
        with pytest.raises(OSError, match="too many"):
            open_queue(library)


def test_a_queue_without_a_reflex_answers_nothing(tmp_path: Path) -> None:
    """What it may be told has no effect."""
    with closing(Queue()) as queue:
        queue.answer(b"0", {})
        queue.expect(1, -1, b"", b"0")
        queue.drain()
        assert list(queue.events()) == []
