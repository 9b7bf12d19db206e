"""A TOML file that people write: its table, and on which line something of it stands."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final, NamedTuple

from sidecar.misreadings import Misreading, NoFile, NoTOML
from state.errors import FileUnreadable
from state.files import read_named

MAX_BYTES: Final = 1024 * 1024
"""Bytes of a file: a larger one is something else."""

_HEADER: Final = re.compile(r"^[ \t]*(\[\[?)[ \t]*([^\[\]\n]+?)[ \t]*\]", re.MULTILINE)


class TOMLFile(NamedTuple):
    """What was read: the text, for places in it, and the table."""

    text: TOMLText
    table: dict[str, Any]


class TOMLText:
    """A TOML file's text, for finding the line on which something stands."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self._text = text
        found = [(match[2].strip("\"'"), match.start()) for match in _HEADER.finditer(text)]
        begins = [("", 0), *found]
        ends = [start for _, start in found] + [len(text)]
        self._parts = [(name, start, end) for (name, start), end in zip(begins, ends, strict=True)]

    def place(self, section: str = "", number: int = 0, key: str = "") -> str:
        """`FILE, line N` of a key in the section with this header, the so-many'th of its name; of a section of the
        key's name, or of the section itself, if the key is not there."""
        parts = [(start, end) for name, start, end in self._parts if name == section]
        start, end = parts[number] if number < len(parts) else (0, len(self._text))
        key_there = re.compile(rf"""^[ \t]*(["']?){re.escape(key)}\1[ \t]*[.=]""", re.MULTILINE) if key else None
        match = key_there.search(self._text, start, end) if key_there else None
        at = match.start() if match else self._header_of(key, start)
        return f"{self.file}, line {self._text.count(chr(10), 0, at) + 1}"

    def _header_of(self, key: str, otherwise: int) -> int:
        """Where a section of this name, or one inside it, begins."""
        return next((at for name, at, _ in self._parts if key and f"{name}.".startswith(f"{key}.")), otherwise)


def read_file(file: str, what: str) -> TOMLFile | Misreading:
    """The file at this path; `what` it should be is said where it cannot be read."""
    try:
        content = read_named(file, MAX_BYTES)
    except FileUnreadable as error:
        return Misreading(name=f"{what} {file}", flaw=NoFile(str(error)))
    try:
        return read_text(content.decode(), file, what)
    except UnicodeDecodeError as error:
        return Misreading(name=f"{what} {file}", flaw=NoTOML(f"it is not text in UTF-8 (byte {error.start})"))


def read_text(text: str, file: str, what: str) -> TOMLFile | Misreading:
    """The same from the file's text.

    The parser raises ValueError for all that is not TOML, and for a number of thousands of digits.
    """
    try:
        return TOMLFile(TOMLText(file, text), tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        return Misreading(name=f"{what} {file}", flaw=NoTOML(str(error)))
