"""Readers of values that people type: words, numbers, durations, lists. Each gives the value, or what would be right.

A value comes from TOML with its type, from labels, the environment and flags as text: every reader takes both. What
cannot be read is a value too (`state.mistakes.Flaw`): the caller says where it stands, and makes the sentence.
"""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias, TypeVar

from state.mistakes import GIVEN_LENGTH, AllOf, OneOf, Seconds, TrueOrFalse, Whole
from state.model import NumaRule

T = TypeVar("T")
W = TypeVar("W")
E = TypeVar("E", bound=enum.StrEnum)

Reading: TypeAlias = T | W
"""A value of type T, or a `Flaw` of type W."""

Reader: TypeAlias = Callable[[object], Reading[T, W]]

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "": 1.0}

_DIGITS: Final = 4
"""Of a number, at least these: leading zeros are harmless, and a text of thousands of digits is no number."""

_TRUE: Final = ("true", "yes", "on", "1")
_FALSE: Final = ("", "false", "no", "off", "0")
"""An empty text is what compose makes of a variable that is not set."""

_MOST_UNKNOWN: Final = 3
"""Unknown words of one list that are kept, to be told."""

NUMA_WORDS: Final = {"single-numa-node": NumaRule.SINGLE}
"""The kubelet's words for NUMA rules, where ours are others."""


def choice(kind: type[E], others: dict[str, E] | None = None) -> Reader[E, OneOf]:
    """A member of `kind` by its word, in either case; `others` are further words for members."""
    known = {each.value: each for each in kind} | (others or {})

    def read(value: object) -> E | OneOf:
        found = known.get(value.strip().lower()) if isinstance(value, str) else None
        return OneOf(tuple(each.value for each in kind)) if found is None else found

    return read


def whole(low: int, high: int) -> Reader[int, Whole]:
    """A whole number between two others."""

    def read(value: object) -> int | Whole:
        number = value if type(value) is int else _digits(value, max(_DIGITS, len(str(high))))
        return Whole(low, high) if number is None or not low <= number <= high else number

    return read


def duration(low: float, high: float) -> Reader[float, Seconds]:
    """A number of seconds between two others, from a text like `10s`, `500ms`, `1m` or a bare number."""

    def read(value: object) -> float | Seconds:
        text = str(value) if type(value) in (int, float) else value
        seconds = seconds_of(text.strip(), low, high) if isinstance(text, str) else None
        return Seconds(low, high) if seconds is None else seconds

    return read


def truth(value: object) -> bool | TrueOrFalse:
    """True or false, by any of their usual words."""
    word = value.strip().lower() if isinstance(value, str) else value
    if isinstance(word, bool):
        return word
    return TrueOrFalse() if word not in _TRUE + _FALSE else word in _TRUE


def words(known: tuple[str, ...]) -> Reader[tuple[str, ...], AllOf]:
    """Some of the known words, sorted, from a list or a text with commas."""

    def read(value: object) -> tuple[str, ...] | AllOf:
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, list):
            return AllOf(known, ())
        found = sorted({str(word).strip() for word in given} - {""})
        unknown = tuple(word[:GIVEN_LENGTH] for word in found if word not in known)
        return AllOf(known, unknown[:_MOST_UNKNOWN]) if unknown else tuple(found)

    return read


def seconds_of(text: str, low: float, high: float) -> float | None:
    """A duration like `10s`, `500ms`, `1m` or a bare number of seconds; None if it is none, or out of bounds."""
    match = re.fullmatch(r"(\d{1,7}(?:\.\d{1,6})?) ?(ms|s|m|)", text, re.ASCII)
    if not match:
        return None
    seconds = float(match[1]) * _UNITS[match[2]]
    return seconds if low <= seconds <= high else None


def numa_rule(text: str) -> NumaRule | None:
    """The rule of this name, ours or the kubelet's; None for any other word."""
    rule = choice(NumaRule, NUMA_WORDS)(text)
    return None if isinstance(rule, OneOf) else rule


def closest(word: str, known: Iterable[str]) -> str:
    """The known word that is most like this one; "" where none is."""
    return next(iter(difflib.get_close_matches(word, sorted(known), n=1)), "")


def nearest(word: str, known: tuple[str, ...]) -> str:
    """`; did you mean "x"?`, or the list of what there is."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there is {', '.join(known)}"


def _digits(value: object, most: int) -> int | None:
    word = value.strip() if isinstance(value, str) else ""
    return int(word) if word.isascii() and word.isdigit() and len(word) <= most else None
