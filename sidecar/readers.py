"""Readers of what users write: in the configuration's file, variables, flags, labels and scenarios. The only ones.

A reader takes a value and returns its meaning, or a `Flaw`: what would be right instead. A value from TOML has a type,
a value from other sources is text: every reader takes both, and raises nothing. `read_all` applies readers by name and
collects all mistakes. The caller knows the place of a value; `words.mistaken` makes the sentences.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping
from heapq import nsmallest
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from sidecar.misreadings import AboveZero, Form, ListKind, Misreading, NotOfForm, TypedFlaw, Unknown
from state.cpuset import CPUSet
from state.demand import NumaRule
from state.errors import CPUSetError
from state.exec_rule import ExecRule, ExecWord
from state.mistakes import (
    GIVEN_LENGTH,
    AllOf,
    DirectoryName,
    Flaw,
    OneOf,
    Seconds,
    TrueOrFalse,
    Whole,
    WordOrPlaces,
)

T = TypeVar("T")
W = TypeVar("W")
E = TypeVar("E", bound=enum.StrEnum)

Reading: TypeAlias = T | W
"""A value of type T, or a `Flaw` of type W."""

Reader: TypeAlias = Callable[[object], Reading[T, W]]

CUT: Final = "…"
"""The sign that a value was cut."""

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}

_DIGITS: Final = 4
"""Digits of a number that are always read: leading zeros are harmless, but thousands of digits are no number."""

_TRUE: Final = ("true", "yes", "on", "1")
_FALSE: Final = ("", "false", "no", "off", "0")
"""Compose makes an empty text of an unset variable."""

_MOST_UNKNOWN: Final = 3
"""Unknown words of one list that are kept for the message."""

_DETAIL_LENGTH: Final = 120
"""Characters of a parser's message about a value that are kept: enough for its sentence."""

_WORD_LENGTH: Final = 64
"""Characters of the longest word that is compared with known ones: none of them is longer."""

_MOST_COMPARED: Final = 64
"""Known words that are compared: a comparison takes 20 to 100 microseconds. There are fewer labels, keys or flags."""

_MOST_KNOWN: Final = 4096
"""Known words whose length is looked at, which takes a millisecond."""

_EXACT_BITS: Final = 1024
"""Bits of a whole number that is shown in decimal: Python refuses to write one of some 14,000."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

NUMA_WORDS: Final = {"single-numa-node": NumaRule.SINGLE}
"""The kubelet's words for NUMA rules, where ours differ."""


class Given(NamedTuple):
    """A value and its source: its name, the raw value, and the place in words."""

    name: str
    value: object
    where: str = ""


def read_all(
    given: Iterable[Given], readers: Mapping[str, Reader[Any, Any]], sections: Iterable[str] = ()
) -> tuple[dict[str, Any], list[Misreading]]:
    """Return what these values mean, by their names, the later ones winning; and all mistakes, in their order.

    `sections` are the names that may be written as sections.
    """
    values: dict[str, Any] = {}
    mistakes: list[Misreading] = []
    for each in given:
        read = readers.get(each.name)
        found = unknown(each.value, readers, sections) if read is None else read(each.value)
        if isinstance(found, Flaw):
            mistakes.append(misreading(each, cast(TypedFlaw, found)))
        else:
            values[each.name] = found
    return values, mistakes


def unknown(value: object, known: Iterable[str], sections: Iterable[str] | None = None) -> Unknown:
    """Return the flaw of an unknown name.

    It is the name of a section if there may be `sections` and the value is a table or a list of tables.
    """
    first = value[0] if isinstance(value, list) and value else value
    if sections is None or not isinstance(first, Mapping):
        return Unknown(ListKind.KEY, tuple(known))
    return Unknown(ListKind.SECTION, tuple(sections))


def misreading(given: Given, flaw: TypedFlaw) -> Misreading:
    """Return the mistake for this value, with the part of it that is kept."""
    is_text = isinstance(given.value, str)
    name = kept(given.name, _WORD_LENGTH)
    return Misreading(where=given.where, name=name, given=shown(given.value), is_text=is_text, flaw=flaw)


def kept(text: str, most: int = GIVEN_LENGTH) -> str:
    """Return the text, or its beginning with a sign that it was cut."""
    return text if len(text) <= most else text[: most - 1] + CUT


def shown(value: object) -> str:
    """Return the kept part of a value as it would be written; a text has no quotes."""
    return kept(value if isinstance(value, str) else _written(value, depth=3))


def choice(kind: type[E], others: dict[str, E] | None = None) -> Reader[E, OneOf]:
    """Make a reader of the members of `kind` by their words, in either case; `others` are further words for members."""
    known = {each.value: each for each in kind} | (others or {})

    def read(value: object) -> E | OneOf:
        found = known.get(value.strip().lower()) if isinstance(value, str) else None
        return OneOf(tuple(each.value for each in kind)) if found is None else found

    return read


def word(*known: str) -> Reader[str, OneOf]:
    """Make a reader of one of these words, in either case."""

    def read(value: object) -> str | OneOf:
        found = value.strip().lower() if isinstance(value, str) else ""
        return found if found in known else OneOf(known)

    return read


def whole(low: int, high: int) -> Reader[int, Whole]:
    """Make a reader of a whole number between two others."""

    def read(value: object) -> int | Whole:
        number = value if type(value) is int else _digits(value, max(_DIGITS, len(str(high))))
        return Whole(low, high) if number is None or not low <= number <= high else number

    return read


def above_zero(most: float, like: str) -> Reader[float, AboveZero]:
    """Make a reader of a number above 0 and at most `most`; `like` is an example for the message."""

    def read(value: object) -> float | AboveZero:
        number = _decimal(value, most)
        return AboveZero(most, like) if number is None or not 0 < number <= most else number

    return read


def amount(most: float) -> Reader[float, NotOfForm]:
    """Make a reader of a number of CPUs from 0 to `most`, possibly a fraction."""

    def read(value: object) -> float | NotOfForm:
        number = _decimal(value, most)
        return NotOfForm(Form.AMOUNT) if number is None or not 0 <= number <= most else number

    return read


def duration(low: float, high: float) -> Reader[float, Seconds]:
    """Make a reader of seconds between two bounds, from a text like `10s`, `500ms`, `1m`, `1h` or a bare number."""

    def read(value: object) -> float | Seconds:
        seconds = seconds_of(value.strip(), low, high) if isinstance(value, str) else _number(value, low, high)
        return Seconds(low, high) if seconds is None else seconds

    return read


def truth(value: object) -> bool | TrueOrFalse:
    """Read true or false, by any of their usual words."""
    word = value.strip().lower() if isinstance(value, str) else value
    if isinstance(word, bool):
        return word
    return TrueOrFalse() if not isinstance(word, str) or word not in _TRUE + _FALSE else word in _TRUE


def words(known: tuple[str, ...]) -> Reader[tuple[str, ...], AllOf]:
    """Make a reader of some of the known words, sorted, from a list or a text with commas."""

    def read(value: object) -> tuple[str, ...] | AllOf:
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, list):
            return AllOf(known, ())
        found = sorted({shown(word).strip() for word in given} - {""})
        unknown = tuple(kept(word) for word in found if word not in known)
        return AllOf(known, unknown[:_MOST_UNKNOWN]) if unknown else tuple(found)

    return read


def cpu_list(value: object) -> CPUSet | NotOfForm:
    """Read a CPU list that is not empty, as text."""
    if not isinstance(value, str) or not value.strip():
        return NotOfForm(Form.CPU_LIST)
    try:
        return CPUSet.parse(value)
    except CPUSetError as error:
        # If it looks like a list, the reason is in its numbers.
        is_like_one = re.fullmatch(r"[0-9, -]+", value) is not None
        return NotOfForm(Form.CPU_LIST, kept(str(error), _DETAIL_LENGTH) if is_like_one else "")


def exec_rule(value: object) -> ExecRule | WordOrPlaces:
    """Read where processes begin that join a container: a word, or places among its own CPUs."""
    given = value.strip().lower() if isinstance(value, str) else ""
    if given in tuple(ExecWord):
        return ExecRule(ExecWord(given))
    places = cpu_list(given)
    return WordOrPlaces(tuple(ExecWord)) if isinstance(places, NotOfForm) else ExecRule(places=places)


def text(value: object) -> str | NotOfForm:
    """Read a text that is not blank."""
    return value if isinstance(value, str) and value.strip() else NotOfForm(Form.TEXT)


def plain_name(value: object) -> str | DirectoryName:
    """Read a name of letters, digits and a few signs, which is safe as the name of a directory."""
    return value if isinstance(value, str) and _NAME.fullmatch(value) else DirectoryName()


def seconds_of(text: str, low: float, high: float) -> float | None:
    """Return the seconds of `10s`, `500ms`, `1m`, `1h` or a bare number; None if out of bounds or no duration."""
    match = re.fullmatch(r"(\d{1,7}(?:\.\d{1,17})?) ?(ms|s|m|h|)", text, re.ASCII)
    if not match:
        return None
    seconds = float(match[1]) * _UNITS[match[2]]
    return seconds if low <= seconds <= high else None


def closest(word: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Return the known word that is most similar to this one, in either case; "" if none is.

    `likeness` is the least share of letters that they have in common, in order; the default is difflib's. Of many known
    words only those of about the same length are compared, so that its time is bounded.
    """
    lower = word.lower()
    if len(word) > _WORD_LENGTH:
        return ""
    some = (each for each in islice(known, _MOST_KNOWN) if len(each) <= _WORD_LENGTH)
    near = nsmallest(_MOST_COMPARED, some, key=lambda each: (abs(len(each) - len(word)), each))
    # A member of an enumeration is its word here: quoted, it would be shown as Python writes members.
    by_case = {each.lower(): str(each) for each in sorted(near, reverse=True)}
    if lower in by_case:
        return by_case[lower]
    # Only here: a daemon that meets no misspelt word does not keep it.
    from difflib import get_close_matches

    close = get_close_matches(lower, sorted(by_case), n=1, cutoff=likeness)
    return by_case[close[0]] if close else ""


def _written(value: object, depth: int) -> str:
    """Return a value as TOML writes it; lists and tables are cut at `depth` levels and at the members that can be
    shown.
    """
    if isinstance(value, str):
        return repr(kept(value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > _EXACT_BITS:
        return hex(value)
    if isinstance(value, list | Mapping) and not depth:
        return CUT
    if isinstance(value, list):
        return f"[{', '.join(_written(each, depth - 1) for each in value[:GIVEN_LENGTH])}]"
    if isinstance(value, Mapping):
        pairs = ((_key(str(key)), _written(value[key], depth - 1)) for key in list(value)[:GIVEN_LENGTH])
        return f"{{{', '.join(f'{key} = {each}' for key, each in pairs)}}}"
    return str(value)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_.-]+", name) else repr(kept(name))


def _digits(value: object, most: int) -> int | None:
    word = value.strip() if isinstance(value, str) else ""
    return int(word) if word.isascii() and word.isdigit() and len(word) <= most else None


def _decimal(value: object, most: float) -> float | None:
    """Return a number from 0 to `most`, from TOML or text; None for everything else, and for a text of excessive
    digits.
    """
    if not isinstance(value, str):
        return _number(value, 0, most)
    match = re.fullmatch(r"\d{1,7}(\.\d{1,17})?|\.\d{1,17}", value.strip(), re.ASCII)
    return _number(float(match[0]), 0, most) if match else None


def _number(value: object, low: float, high: float) -> float | None:
    """Return a number of TOML within these bounds, however many digits it has; None for everything else."""
    is_within = type(value) in (int, float) and low <= value <= high  # type: ignore[operator]  # a number
    # Adding zero makes one of a negative zero.
    return float(value) + 0.0 if is_within else None  # type: ignore[arg-type]  # a number
