"""Readers of what people type: in the configuration's file, variables, flags, labels and scenarios. The only ones.

A reader takes a value and gives what it means, or a `Flaw`: what would be right instead. A value comes from TOML with
its type, from the other sources as text: every reader takes both, and raises nothing. `read_all` applies readers by
name and collects all mistakes. The caller knows where a value stands; `words.mistaken` makes the sentences.
"""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from sidecar.misreadings import AboveZero, Form, ListKind, Misreading, NotOfForm, TypedFlaw, Unknown
from state.cpuset import CPUSet
from state.errors import CPUSetError
from state.mistakes import GIVEN_LENGTH, AllOf, DirectoryName, Flaw, OneOf, Seconds, TrueOrFalse, Whole
from state.model import NumaRule

T = TypeVar("T")
W = TypeVar("W")
E = TypeVar("E", bound=enum.StrEnum)

Reading: TypeAlias = T | W
"""A value of type T, or a `Flaw` of type W."""

Reader: TypeAlias = Callable[[object], Reading[T, W]]

CUT: Final = "…"
"""The sign that a value was longer than what is shown of it."""

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}

_DIGITS: Final = 4
"""Of a number, at least these: leading zeros are harmless, and a text of thousands of digits is no number."""

_TRUE: Final = ("true", "yes", "on", "1")
_FALSE: Final = ("", "false", "no", "off", "0")
"""An empty text is what compose makes of a variable that is not set."""

_MOST_UNKNOWN: Final = 3
"""Unknown words of one list that are kept, to be told."""

_DETAIL_LENGTH: Final = 120
"""Characters of what a parser says of a value: enough for its sentence."""

_WORD_LENGTH: Final = 64
"""Characters of the longest word that is compared with known ones: none of them is longer."""

_EXACT_BITS: Final = 1024
"""Bits of a whole number that is shown in decimal: Python refuses to write one of some 14,000."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

NUMA_WORDS: Final = {"single-numa-node": NumaRule.SINGLE}
"""The kubelet's words for NUMA rules, where ours are others."""


class Given(NamedTuple):
    """A value as it stands somewhere: its name, the raw value, and the place in words."""

    name: str
    value: object
    where: str = ""


def read_all(
    given: Iterable[Given], readers: Mapping[str, Reader[Any, Any]], sections: Iterable[str] = ()
) -> tuple[dict[str, Any], list[Misreading]]:
    """What these values mean, by their names, the later ones winning; and all that is wrong, in their order.

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
    """The flaw of a name that is none of the known ones.

    It is an unknown section, where there may be `sections` and the value is a table or a list of tables.
    """
    first = value[0] if isinstance(value, list) and value else value
    if sections is None or not isinstance(first, Mapping):
        return Unknown(ListKind.KEY, tuple(known))
    return Unknown(ListKind.SECTION, tuple(sections))


def misreading(given: Given, flaw: TypedFlaw) -> Misreading:
    """The mistake that this value is, with as much of it as is kept."""
    is_text = isinstance(given.value, str)
    name = kept(given.name, _WORD_LENGTH)
    return Misreading(where=given.where, name=name, given=shown(given.value), is_text=is_text, flaw=flaw)


def kept(text: str, most: int = GIVEN_LENGTH) -> str:
    """The text, or its beginning with a sign that it was cut."""
    return text if len(text) <= most else text[: most - 1] + CUT


def shown(value: object) -> str:
    """A value as it would be written, as far as it is kept; a text without its quotes."""
    return kept(value if isinstance(value, str) else _written(value, depth=3))


def choice(kind: type[E], others: dict[str, E] | None = None) -> Reader[E, OneOf]:
    """A member of `kind` by its word, in either case; `others` are further words for members."""
    known = {each.value: each for each in kind} | (others or {})

    def read(value: object) -> E | OneOf:
        found = known.get(value.strip().lower()) if isinstance(value, str) else None
        return OneOf(tuple(each.value for each in kind)) if found is None else found

    return read


def word(*known: str) -> Reader[str, OneOf]:
    """One of these words, in either case."""

    def read(value: object) -> str | OneOf:
        found = value.strip().lower() if isinstance(value, str) else ""
        return found if found in known else OneOf(known)

    return read


def whole(low: int, high: int) -> Reader[int, Whole]:
    """A whole number between two others."""

    def read(value: object) -> int | Whole:
        number = value if type(value) is int else _digits(value, max(_DIGITS, len(str(high))))
        return Whole(low, high) if number is None or not low <= number <= high else number

    return read


def above_zero(most: float, like: str) -> Reader[float, AboveZero]:
    """A number above 0 and not above `most`; `like` is one, to be shown."""

    def read(value: object) -> float | AboveZero:
        number = _decimal(value)
        return AboveZero(most, like) if number is None or not 0 < number <= most else number

    return read


def amount(most: float) -> Reader[float, NotOfForm]:
    """A number of CPUs from 0 to `most`, a fraction too."""

    def read(value: object) -> float | NotOfForm:
        number = _decimal(value)
        return NotOfForm(Form.AMOUNT) if number is None or not 0 <= number <= most else number

    return read


def duration(low: float, high: float) -> Reader[float, Seconds]:
    """A number of seconds between two others, from a text like `10s`, `500ms`, `1m`, `1h` or a bare number."""

    def read(value: object) -> float | Seconds:
        text = shown(value) if type(value) in (int, float) else value
        seconds = seconds_of(text.strip(), low, high) if isinstance(text, str) else None
        return Seconds(low, high) if seconds is None else seconds

    return read


def truth(value: object) -> bool | TrueOrFalse:
    """True or false, by any of their usual words."""
    word = value.strip().lower() if isinstance(value, str) else value
    if isinstance(word, bool):
        return word
    return TrueOrFalse() if not isinstance(word, str) or word not in _TRUE + _FALSE else word in _TRUE


def words(known: tuple[str, ...]) -> Reader[tuple[str, ...], AllOf]:
    """Some of the known words, sorted, from a list or a text with commas."""

    def read(value: object) -> tuple[str, ...] | AllOf:
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, list):
            return AllOf(known, ())
        found = sorted({shown(word).strip() for word in given} - {""})
        unknown = tuple(kept(word) for word in found if word not in known)
        return AllOf(known, unknown[:_MOST_UNKNOWN]) if unknown else tuple(found)

    return read


def cpu_list(value: object) -> CPUSet | NotOfForm:
    """A CPU list that is not empty, as text."""
    if not isinstance(value, str) or not value.strip():
        return NotOfForm(Form.CPU_LIST)
    try:
        return CPUSet.parse(value)
    except CPUSetError as error:
        # Where it looks like a list, the reason is in its numbers.
        is_like_one = re.fullmatch(r"[0-9, -]+", value) is not None
        return NotOfForm(Form.CPU_LIST, kept(str(error), _DETAIL_LENGTH) if is_like_one else "")


def text(value: object) -> str | NotOfForm:
    """A text that is not blank."""
    return value if isinstance(value, str) and value.strip() else NotOfForm(Form.TEXT)


def plain_name(value: object) -> str | DirectoryName:
    """A name of letters, digits and few signs, which as a directory leads nowhere else."""
    return value if isinstance(value, str) and _NAME.fullmatch(value) else DirectoryName()


def seconds_of(text: str, low: float, high: float) -> float | None:
    """A duration like `10s`, `500ms`, `1m`, `1h` or a bare number of seconds; None if it is none, or out of bounds."""
    match = re.fullmatch(r"(\d{1,7}(?:\.\d{1,6})?) ?(ms|s|m|h|)", text, re.ASCII)
    if not match:
        return None
    seconds = float(match[1]) * _UNITS[match[2]]
    return seconds if low <= seconds <= high else None


def closest(word: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """The known word that is most like this one, in either case; "" where none is.

    `likeness` is the least share of letters that they have in common, in order; by default what difflib proposes.
    """
    by_case = {each.lower(): each for each in sorted(known, reverse=True)}
    if len(word) > _WORD_LENGTH:
        return ""
    close = difflib.get_close_matches(word.lower(), sorted(by_case), n=1, cutoff=likeness)
    return by_case[close[0]] if close else ""


def _written(value: object, depth: int) -> str:
    """A value in the words of TOML; of lists and tables so many levels, and no more members than can be shown."""
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


def _decimal(value: object) -> float | None:
    """A number that is not negative, of TOML or as text; None for all else, and for what no one would write."""
    word = shown(value) if type(value) in (int, float) else value
    match = re.fullmatch(r"\d{1,7}(\.\d{1,17})?", word.strip(), re.ASCII) if isinstance(word, str) else None
    return float(match[0]) if match else None
