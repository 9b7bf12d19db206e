"""Inputs that somebody may write: valid ones, changed at random by what such inputs are usually broken with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any, Final

VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    2**31,
    2**53,
    2**63,
    -(2**64),
    10**400,
    1e308,
    0.1,
    "",
    " ",
    "0",
    "-1",
    "9" * 5000,
    "SIG" + "9" * 5000,
    "1e999",
    "nan",
    "0-8191",
    "8192",
    "5-2",
    "0,,1",
    "null",
    "\0",
    "a\0b",
    "\x7f\x9b31m",
    "\u202egnol",
    "\ud800",
    "\udfff\ud800",
    "\U0010ffff",
    "a\nb",
    "\x1b[2J",
    "../../etc",
    "/" * 5000,
    "x" * 70_000,
    'a" level=error b="',
    "\\",
    "%s%n{0}",
    "٣",
    [],
    {},
    [[]],
    {"": None},
    [1] * 300,
    {str(number): number for number in range(300)},
)
"""Values at and beyond every bound, of every type, and texts that other programs read as something else."""

BYTES: Final = (
    b"\0",
    b"\xff",
    b"\xfe\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\r\n",
    b"\n\n",
    b"\r\n\r\n",
    b'"',
    b"\\",
    b"\\ud800",
    b"{",
    b"}",
    b"[" * 300,
    b"]",
    b",",
    b":",
    b"-",
    b"9" * 400,
    b"1e999",
    b"NaN",
    b"null",
    b"'''",
    b"[[",
    b"<!DOCTYPE a [<!ENTITY b 'c'>]>",
    b"&amp;",
    b"\xef\xbb\xbf",
    b"x" * 5000,
)
"""Parts at which readers of text and of bytes stumble."""


def broken(content: bytes, chance: Random) -> bytes:
    """Return bytes with one to four random changes."""
    for _ in range(chance.randint(1, 4)):
        at, until = sorted(chance.randint(0, len(content)) for _ in range(2))
        part = content[at : min(until, at + 2000)]
        before, after = content[:at], content[at:]
        match chance.randrange(6):
            case 0:
                content = before
            case 1:
                content = before + content[until:]
            case 2:
                content = before + part * chance.randint(1, 3) + after
            case 3:
                content = before + chance.choice(BYTES) + after
            case 4:
                content = before + chance.choice(BYTES) + after[1:]
            case _:
                content = before + chance.randbytes(chance.randint(1, 8)) + after[1:]
    return content


def changed(value: Any, chance: Random) -> Any:
    """Return a JSON value with one to three of its parts replaced, removed, added or moved elsewhere."""
    for _ in range(chance.randint(1, 3)):
        holders = list(_holders(value))
        if not holders:
            return deepcopy(chance.choice(VALUES))
        holder, key = chance.choice(holders)
        held: Any = holder
        chance.choice(_CHANGES)(held, key, value, chance)
    return value


def document(value: Any, chance: Random) -> bytes:
    """Return the JSON of a value, mostly changed as a value, sometimes as bytes."""
    value = json.loads(json.dumps(value))
    if chance.random() < 0.8:
        value = changed(value, chance)
    content = json.dumps(value, ensure_ascii=chance.random() < 0.5, separators=(",", ":"))
    encoded = content.encode("utf-8", "surrogatepass")
    return broken(encoded, chance) if chance.random() < 0.3 else encoded


def _replace(holder: Any, key: Any, _: Any, chance: Random) -> None:
    holder[key] = deepcopy(chance.choice(VALUES))


def _remove(holder: Any, key: Any, _: Any, __: Random) -> None:
    del holder[key]


def _wrap(holder: Any, key: Any, _: Any, chance: Random) -> None:
    holder[key] = chance.choice(
        ([holder[key]], {"x": holder[key]}, [deepcopy(holder[key]) for _ in range(3)], str(holder[key]))
    )


def _swap(holder: Any, key: Any, top: Any, chance: Random) -> None:
    other, name = chance.choice(list(_holders(top)))
    held: Any = other
    copied = deepcopy(held[name])
    holder[key] = copied


def _add(holder: Any, key: Any, _: Any, chance: Random) -> None:
    if isinstance(holder, dict):
        holder[chance.choice([each for each in VALUES if isinstance(each, str)])] = deepcopy(holder[key])
    else:
        holder.append(deepcopy(chance.choice(VALUES)))


_CHANGES: Final[tuple[Callable[[Any, Any, Any, Random], None], ...]] = (
    _replace,
    _replace,
    _replace,
    _remove,
    _wrap,
    _swap,
    _add,
)


def _holders(value: Any) -> Iterator[tuple[dict[Any, Any] | list[Any], Any]]:
    """Yield every object or list in a value, with each of its keys or places."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _holders(value[key])
