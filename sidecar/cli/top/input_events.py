"""What a terminal sends, as keys and presses of the mouse. Pure: bytes in, events and what is not complete yet out.

1. A sequence may come in pieces: read with what is left of the last piece, all pieces make the same events as at once.
2. What is left is short: a sequence that has no end within `LONGEST` bytes is none, and its escape is dropped.
3. An escape that stays alone is the key: only time tells, so the reader says when no more will come (`is_all`).
4. Anything else that no terminal sends is skipped, and never an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

LONGEST: Final = 64
"""Bytes of one sequence. A press of the mouse has at most 20."""

CONTROL: Final = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
_UNFINISHED: Final = re.compile(rb"\x1b(\[[0-?]*[ -/]*|O|)")
_TEXT: Final = re.compile(rb"\x1b[\]P_^X][^\x07\x1b]*(\x07|\x1b\\)")
"""A text that a terminal answers with."""
_UNFINISHED_TEXT: Final = re.compile(rb"\x1b[\]P_^X][^\x07\x1b]*\x1b?")
_MOUSE: Final = re.compile(rb"\x1b\[<(\d{1,6});(\d{1,6});(\d{1,6})([Mm])")
_OLD_MOUSE: Final = b"\x1b[M"
"""Three bytes follow it. Terminals that know no better send it."""

_FINALS: Final[Mapping[bytes, str]] = {
    b"A": "up",
    b"B": "down",
    b"C": "right",
    b"D": "left",
    b"H": "home",
    b"F": "end",
    b"Z": "backtab",
}
_NUMBERED: Final[Mapping[bytes, str]] = {
    b"1": "home",
    b"3": "delete",
    b"4": "end",
    b"5": "page-up",
    b"6": "page-down",
    b"7": "home",
    b"8": "end",
}
_CONTROLS: Final[Mapping[int, str]] = {
    0x08: "backspace",
    0x09: "tab",
    0x0A: "enter",
    0x0C: "redraw",
    0x0D: "enter",
    0x15: "erase",
    0x7F: "backspace",
}
_WHEEL: Final = 64
_MODIFIERS: Final = 4 | 8 | 16
_MOTION: Final = 32


class KeyPress(NamedTuple):
    """A key: the character that it types, or its name, which is longer than a character."""

    name: str


class Mouse(NamedTuple):
    """A press of the first button, or a turn of the wheel: `what` is press, up or down. Counted from 0."""

    what: str
    column: int
    row: int


Event: TypeAlias = KeyPress | Mouse


def read_events(sent: bytes, *, is_all: bool = False) -> tuple[list[Event], bytes]:
    """Return the events, and the bytes of a last one that is not complete; none with `is_all`."""
    events: list[Event] = []
    at = 0
    while at < len(sent):
        event, size = _escaped(sent, at, is_all=is_all) if sent[at] == 0x1B else _typed(sent, at, is_all=is_all)
        if not size:
            return events, sent[at:]
        if event:
            events.append(event)
        at += size
    return events, b""


def _typed(sent: bytes, at: int, *, is_all: bool) -> tuple[Event | None, int]:
    """Return the character or control at this place, and its bytes; 0 if it is not complete."""
    first = sent[at]
    if first < 0x20 or first == 0x7F:
        name = _CONTROLS.get(first)
        return KeyPress(name) if name else None, 1
    size = 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    part = sent[at : at + size]
    try:
        typed = part.decode()
    except UnicodeDecodeError as error:
        is_begun = error.reason == "unexpected end of data" and len(part) < size
        return (None, 0) if is_begun and not is_all else (None, 1)
    return KeyPress(typed) if typed.isprintable() else None, size


def _escaped(sent: bytes, at: int, *, is_all: bool) -> tuple[Event | None, int]:
    """Return what begins with the escape at this place, and its bytes; 0 if it is not complete."""
    part = sent[at : at + LONGEST]
    if part.startswith(_OLD_MOUSE):
        is_complete = len(part) >= len(_OLD_MOUSE) + 3
        return None, len(_OLD_MOUSE) + 3 if is_complete else len(part) if is_all else 0
    if found := CONTROL.match(part):
        return _control(found.group()), found.end()
    if found := _TEXT.match(part):
        return None, found.end()
    is_open = _UNFINISHED.fullmatch(part) or _UNFINISHED_TEXT.fullmatch(part)
    if is_open and len(part) < LONGEST and not is_all:
        return None, 0
    if part[1:2] == b"O" and len(part) > 2:
        name = _FINALS.get(part[2:3])
        return KeyPress(name) if name else None, 3 if 0x40 <= part[2] <= 0x7E else 2
    if len(part) == 1 or part[1] == 0x1B:
        return KeyPress("escape"), 1
    # With the Alt key, or not known: what comes behind is no key of ours.
    return None, 2 if part[1] < 0x80 and not is_open else 1


def _control(sequence: bytes) -> Event | None:
    if found := _MOUSE.fullmatch(sequence):
        return _mouse(*(int(each) for each in found.groups()[:3]), is_press=found[4] == b"M")
    final, first = sequence[-1:], sequence[2:-1].split(b";")[0]
    name = _NUMBERED.get(first) if final == b"~" else _FINALS.get(final)
    return KeyPress(name) if name else None


def _mouse(button: int, column: int, row: int, *, is_press: bool) -> Mouse | None:
    if not is_press or button & _MOTION or not column or not row:
        return None
    what = {0: "press", _WHEEL: "up", _WHEEL + 1: "down"}.get(button & ~_MODIFIERS)
    return Mouse(what, column - 1, row - 1) if what else None
