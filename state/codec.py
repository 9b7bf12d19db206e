"""Structs to bytes and back, with CPUSet written as its list text, `"0-3,8"`, and ContainerKey as `"docker:<id>"`."""

from __future__ import annotations

import re
from typing import Any, Final, Literal, TypeVar

import msgspec

from state.cpuset import CPUSet
from state.errors import CPUSetError
from state.key import ContainerKey

T = TypeVar("T")

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What reading JSON may raise; the last if it is nested too deeply, also in what is not read."""

_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""What Python calls printable and no screen shows: Default_Ignorable_Code_Point, and the empty Braille cell."""


def is_printable(text: str) -> bool:
    """Return whether each character of a text can be seen, or is a space: two that look alike are then the same, or of
    letters that people can tell apart.
    """
    return text.isprintable() and (text.isascii() or not _BLANK.search(text))


def flaw(error: Exception) -> str:
    """Return what is wrong with JSON, by what reading it raised; nesting that is too deep not in Python's words."""
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def encode(value: object, *, keeps_order: bool = False) -> bytes:
    """Return the JSON of a struct, with keys in declaration order and dict keys sorted, so equal values give equal
    bytes.

    With `keeps_order`, dict keys keep their order, so a decoded dict is iterated in the same order.
    """
    # In two steps, since only the first one accepts numbers as keys of dicts (distances by node).
    return printable(msgspec.json.encode(to_builtins(value, keeps_order=keeps_order)))


def encode_flat(value: object) -> bytes:
    """Return the same bytes of a struct in which no dict is, in one step."""
    return printable(msgspec.json.encode(value, enc_hook=_plain))


def printable(content: bytes) -> bytes:
    """Return JSON that means the same with every unprintable character written as `\\u` and its number.

    JSON itself escapes only those below a space. The others drive a terminal, too: C1 controls, and marks that change
    the direction of text; and letters that show nothing make two names look the same.
    """
    if content.isascii() and b"\x7f" not in content:
        return content
    return re.sub(r"[^\x20-\x7e]", _escaped, content.decode()).encode()


def decode(data: bytes, wanted: type[T]) -> T:
    """Return a struct from its JSON. Raise one of UNREADABLE; msgspec's errors name the place where it does not fit."""
    return msgspec.json.decode(data, type=wanted, dec_hook=_rich)


def to_builtins(value: object, *, keeps_order: bool = False) -> Any:
    """Return a struct as dicts, lists, strings and numbers."""
    order: Literal["deterministic"] | None = None if keeps_order else "deterministic"
    return msgspec.to_builtins(value, enc_hook=_plain, order=order, str_keys=True)


def convert(value: object, wanted: type[T], *, strict: bool = True) -> T:
    """Return a struct from dicts, lists, strings and numbers."""
    # By way of JSON: msgspec.convert would leave the keys of mappings as text, whatever their type.
    return msgspec.json.decode(encode(value, keeps_order=True), type=wanted, dec_hook=_rich, strict=strict)


def _escaped(found: re.Match[str]) -> str:
    if is_printable(found[0]):
        return found[0]
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _plain(value: object) -> str:
    if isinstance(value, CPUSet | ContainerKey):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not a type that files may hold")


def _rich(wanted: type, value: object) -> object:
    if wanted is object:
        # Any value: only its reader knows the type, as with the settings in a journal.
        return value
    if wanted is CPUSet and isinstance(value, str):
        try:
            return CPUSet.parse(value)
        except CPUSetError as error:
            raise ValueError(str(error)) from error
    if wanted is ContainerKey and isinstance(value, str):
        return ContainerKey.parse(value)
    raise ValueError(f"expected {wanted.__name__}, got {type(value).__name__}")
