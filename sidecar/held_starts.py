"""The desk: starts that the OCI runtime holds wait here for their answers. In memory; one trio run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import trio

from sidecar.decide.orders import AnswerStart


class Waiting:
    """One start that is held: its number, and the answer once there is one."""

    def __init__(self, number: int, held: Mapping[int, Waiting]) -> None:
        self.number = number
        self._held = held
        self._answered = trio.Event()
        self._answer: AnswerStart | None = None

    async def answer(self) -> AnswerStart:
        """Wait for the answer, and return it; the caller limits the time."""
        await self._answered.wait()
        assert self._answer is not None, "the event is set after the answer"
        return self._answer

    def is_beyond(self, most: int) -> bool:
        """Return whether so many other starts wait that were held before this one."""
        return sum(number < self.number for number in self._held) >= most

    def give(self, answer: AnswerStart) -> None:
        """Give the answer; the first one counts."""
        if self._answer is None:
            self._answer = answer
            self._answered.set()


class Desk:
    """The held starts, by number. The executor answers, the API asks."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Waiting] = {}

    @contextmanager
    def held(self) -> Iterator[Waiting]:
        """Yield a place to wait for one answer, for the length of the block."""
        waiting = Waiting(next(self._numbers), self._waiting)
        self._waiting[waiting.number] = waiting
        try:
            yield waiting
        finally:
            del self._waiting[waiting.number]

    def answer(self, answer: AnswerStart) -> None:
        """Give an answer to the start that waits for it, if it still waits."""
        if waiting := self._waiting.get(answer.number):
            waiting.give(answer)
