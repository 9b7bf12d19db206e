"""Laws as values: what must hold, when it is checked, and each way in which it does not hold."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

S = TypeVar("S")


class When(enum.Enum):
    """When a law is checked."""

    STEP = "after every step"
    APART = "once all was answered that can be while one of two engines is away"
    UNLISTED = "once all was answered that can be while the engine's list rests"
    REST = "once everything was answered and looked at, and nothing is on its way"


@dataclasses.dataclass(frozen=True)
class Law(Generic[S]):
    """A law: `check` returns how it is broken now, as sentences; nothing if it holds."""

    name: str
    check: Callable[[S], Iterable[str]]
    when: When = When.STEP


@dataclasses.dataclass(frozen=True)
class Breach:
    """One way in which a law is broken."""

    law: Law[Any]
    words: str

    def __str__(self) -> str:
        return f"{self.law.name}: {self.words}"


def breaches(laws: Iterable[Law[S]], subject: S, when: When) -> list[Breach]:
    """Return every present breach of the laws that apply then."""
    return [Breach(law, words) for law in laws if law.when is when for words in law.check(subject)]
