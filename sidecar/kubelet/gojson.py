"""JSON as Go's encoding/json reads and writes it, as far as the kubelet's files need it.

Reading: the keys of a struct match without regard to case, null is the empty value of any type, and invalid characters
(bytes that are not UTF-8, surrogates without their partners) become U+FFFD. A repeated key in an object is refused,
though Go takes the last: the intended one is unknown. Every error is a CheckpointCorrupt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from state.errors import CheckpointCorrupt

LIMIT: Final = 4 * 1024 * 1024
"""Bytes of a file. A node has a few hundred containers, at a hundred bytes each."""

_SURROGATES: Final = re.compile("[\ud800-\udfff]")

_ESCAPES: Final = {
    **{code: f"\\u{code:04x}" for code in (*range(0x20), ord("<"), ord(">"), ord("&"), 0x2028, 0x2029)},
    **{ord(char): f"\\{short}" for char, short in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)},
}
"""Go's escapes in JSON, with those that make it safe inside HTML."""


class Object:
    """A JSON object as it stands in the text, including repeated keys."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


class Number(str):
    """A JSON number as it stands in the text."""

    __slots__ = ()


Value = TypeVar("Value")


def parsed(content: bytes) -> object:
    """Return a document: objects as Object, numbers as Number, else what json gives."""
    if len(content) > LIMIT:
        raise CheckpointCorrupt(f"{len(content)} bytes are too many for a kubelet's CPU manager state")
    # Each invalid byte becomes one U+FFFD, as Go reads it.
    text = clean(content.decode("utf-8", "surrogateescape"))
    try:
        return json.loads(text, object_pairs_hook=Object, parse_int=Number, parse_float=Number, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        place = f"not JSON (line {error.lineno}, column {error.colno})" if text.strip() else "empty"
        raise CheckpointCorrupt(f"it is not a kubelet's CPU manager state: it is {place}") from error
    except RecursionError as error:
        raise CheckpointCorrupt("it is not a kubelet's CPU manager state: it is nested too deeply") from error
    except ValueError as error:
        raise CheckpointCorrupt(f"it is not a kubelet's CPU manager state: {error}") from error


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def fields_of(value: object, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of a Go struct's fields, which match without regard to case; null is an empty struct."""
    if value is None:
        return {}
    if not isinstance(value, Object):
        raise CheckpointCorrupt("it is not a kubelet's CPU manager state: it is not a JSON object")
    folded = {name.casefold(): name for name in names}
    found: dict[str, Any] = {}
    for key, inner in value.pairs:
        name = folded.get(key.casefold())
        if name in found:
            raise CheckpointCorrupt(f"{name} is there twice")
        if name:
            found[name] = inner
    return found


def map_of(value: object, what: str, read: Callable[[object, str], Value]) -> dict[str, Value] | None:
    """Return a Go map: None for null, which the dump distinguishes from an empty one."""
    if value is None:
        return None
    if not isinstance(value, Object):
        raise CheckpointCorrupt(f"{what} is not a JSON object")
    found: dict[str, Value] = {}
    for key, inner in value.pairs:
        key = clean(key)
        if key in found:
            raise CheckpointCorrupt(f"{what} has {shown(key)} twice")
        found[key] = read(inner, f"{what} of {shown(key)}")
    return found


def text_of(value: object, what: str) -> str:
    """Return a Go string."""
    if value is None:
        return ""
    if not isinstance(value, str) or isinstance(value, Number):
        raise CheckpointCorrupt(f"{what} is not a JSON string")
    return clean(value)


def braced(members: Mapping[str, str]) -> str:
    """Return a JSON object of values that are already JSON, by key."""
    return "{" + ",".join(f"{quoted(key)}:{members[key]}" for key in sorted(members)) + "}"


def quoted(text: str) -> str:
    """Return a JSON string."""
    return f'"{text.translate(_ESCAPES)}"'


def clean(text: str) -> str:
    """Return the text with U+FFFD for each lone surrogate, as Go has it."""
    return _SURROGATES.sub("\ufffd", text)


def shown(text: str) -> str:
    """Return a foreign text for a message, cut."""
    return repr(text) if len(text) <= 60 else repr(text[:57]) + "..."
