"""A TOML file that people write: its table, and the lines of its parts."""

from __future__ import annotations

import math
import re
import tomllib
from typing import Any, Final, NamedTuple, Self

from sidecar.misreadings import Misreading, NoFile, NoTOML, Slip
from state.errors import FileUnreadable
from state.files import read_named

MAX_BYTES: Final = 1024 * 1024
"""Bytes of a file: a larger one is something else."""

_SLIPS: Final = (
    ("Cannot overwrite", Slip.TWICE),
    ("Cannot declare", Slip.TWICE),
    ("Duplicate inline table key", Slip.TWICE),
    ("Cannot redefine", Slip.TWICE),
    ("Cannot mutate", Slip.CLOSED),
    ("Invalid value", Slip.VALUE),
    ("Invalid date", Slip.DATE),
    ("Invalid statement", Slip.KEY),
    ("Invalid initial character", Slip.KEY),
    ("Expected '=' after", Slip.KEY),
    ("Expected newline", Slip.REST),
    ("Expected ']", Slip.UNCLOSED_HEADER),
    ("Unclosed", Slip.UNCLOSED),
    ("Unterminated", Slip.UNCLOSED_TEXT),
    ("Expected", Slip.UNCLOSED_TEXT),
    ("Unescaped", Slip.ESCAPE),
    ("Invalid hex", Slip.ESCAPE),
    ("Escaped character", Slip.ESCAPE),
    ("Illegal character", Slip.CHARACTER),
    ("Found invalid character", Slip.CHARACTER),
)
"""What the parser's sentences begin with; the first that fits counts. Its place is at their end."""

_PLACE: Final = re.compile(r"\(at (?:line (\d+), column (\d+)|end of document)\)$")

_MANY_DIGITS: Final = re.compile(r"[0-9_]{4300}")
"""Python reads no decimal number that is longer."""

_MARK: Final = "\ufeff"
"""A byte order mark."""

_HEADER: Final = re.compile(r"^[ \t]*(\[\[?)[ \t]*([^\[\]\n]+?)[ \t]*\]", re.MULTILINE)


class TOMLFile(NamedTuple):
    """A file that was read: the text, for places in it, and the table."""

    text: TOMLText
    table: dict[str, Any]


class TOMLText:
    """A TOML file's text, to find the line of a key or a section."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self._text = text
        found = [(match[2].strip("\"'"), match.start()) for match in _HEADER.finditer(text)]
        begins = [("", 0), *found]
        ends = [start for _, start in found] + [len(text)]
        self._parts = [(name, start, end) for (name, start), end in zip(begins, ends, strict=True)]

    def place(self, section: str = "", number: int = 0, key: str = "") -> str:
        """Return `FILE, line N` of a key in the section with this header and index.

        If the key is not there, return the line of a section of the key's name, or of the section itself.
        """
        parts = [(start, end) for name, start, end in self._parts if name == section]
        start, end = parts[number] if number < len(parts) else (0, len(self._text))
        key_there = re.compile(rf"""^[ \t]*(["']?){re.escape(key)}\1[ \t]*[.=]""", re.MULTILINE) if key else None
        match = key_there.search(self._text, start, end) if key_there else None
        at = match.start() if match else self._header_of(key, start)
        return self._line(at)

    def place_in_list(self, section: str, number: int, key: str = "") -> str:
        """Return the same if there are sections with this header; "" otherwise."""
        return self.place(section, number, key) if any(name == section for name, _, _ in self._parts) else ""

    def place_inside(self, section: str, number: int, table: str, key: str = "") -> str:
        """Return `FILE, line N` of a key in a table inside the section with this header and index: in a section
        `[section.table]` of its own, or else the line of the section's key `table`.
        """
        begins = [start for name, start, _ in self._parts if name == section]
        after = begins[number] if number < len(begins) else len(self._text)
        until = begins[number + 1] if number + 1 < len(begins) else len(self._text)
        own = f"{section}.{table}"
        found = [(name, at) for name, at, _ in self._parts if after < at < until and f"{name}.".startswith(f"{own}.")]
        if any(name == own for name, _ in found):
            return self.place(own, len([at for name, at, _ in self._parts if name == own and at < after]), key)
        return self._line(found[0][1]) if found else self.place(section, number, table)

    def _line(self, at: int) -> str:
        return f"{self.file}, line {self._text.count(chr(10), 0, at) + 1}"

    def _header_of(self, key: str, otherwise: int) -> int:
        """Return where a section of this name, or one inside it, begins."""
        return next((at for name, at, _ in self._parts if key and f"{name}.".startswith(f"{key}.")), otherwise)


def read_file(file: str, what: str) -> TOMLFile | Misreading:
    """Return the file at this path; `what` names it in a mistake if it cannot be read."""
    try:
        content = read_named(file, MAX_BYTES)
    except FileUnreadable as error:
        return Misreading(name=f"{what} {file}", flaw=NoFile(str(error)))
    try:
        return read_text(content.decode(), file, what)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return Misreading(where=f"{file}, line {line}", name=what, flaw=NoTOML(Slip.ENCODING))


def read_text(text: str, file: str, what: str) -> TOMLFile | Misreading:
    """Return the same from the file's text.

    The parser raises ValueError for everything that is not TOML, and for a number of thousands of digits.
    """
    if text.startswith(_MARK):
        return Misreading(where=f"{file}, line 1", name=what, flaw=NoTOML(Slip.MARK))
    try:
        return TOMLFile(TOMLText(file, text), tomllib.loads(text, parse_float=_number))
    except RecursionError:
        return Misreading(name=f"{what} {file}", flaw=NoTOML(Slip.DEEP))
    except tomllib.TOMLDecodeError as error:
        line, flaw = _slip(str(error), text)
    except ValueError:
        found = _MANY_DIGITS.search(text)
        line = text.count("\n", 0, found.start() if found else 0) + 1
        flaw = NoTOML(Slip.DIGITS if found else Slip.OTHER)
    return Misreading(where=f"{file}, line {line}", name=what, flaw=flaw)


class _TooLong(float):
    """A number beyond all that a float can hold, which is shown as it was typed. No reader takes it."""

    def __new__(cls, typed: str) -> Self:
        made = super().__new__(cls, typed)
        made.typed = typed
        return made

    typed: str

    def __str__(self) -> str:
        return self.typed


def _number(typed: str) -> float:
    number = float(typed)
    return _TooLong(typed) if math.isinf(number) and "inf" not in typed else number


def _slip(said: str, text: str) -> tuple[int, NoTOML]:
    """Return the line and the reason that the parser's sentence names."""
    slip = next((slip for begins, slip in _SLIPS if said.startswith(begins)), Slip.OTHER)
    match = _PLACE.search(said)
    if match and match[1]:
        return int(match[1]), NoTOML(slip, int(match[2]))
    return text.rstrip().count("\n") + 1, NoTOML(slip)
