"""Log lines on stderr: a time, a level, a sentence, and fields; for people, or as JSON lines for machines.

A `Log` is passed to the code that logs. Names of containers and texts of engines are foreign: all that is not
printable in them is escaped, so that no name can forge a line or drive a terminal.
"""

from __future__ import annotations

import contextlib
import enum
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, TextIO

import msgspec

from state import codec


class LogLevel(enum.IntEnum):
    """How important a line is."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40

    @classmethod
    def named(cls, name: str) -> LogLevel:
        """Return the level of a word of the configuration: debug, info, warning, error."""
        return cls[name.upper()]


_COLOURS: Final = {
    LogLevel.DEBUG: "\x1b[2m",
    LogLevel.INFO: "",
    LogLevel.WARNING: "\x1b[33m",
    LogLevel.ERROR: "\x1b[31m",
}
_RESET: Final = "\x1b[0m"

_MAX_VALUE: Final = 4000
"""Characters of one field. An engine's error text can hold a whole label, and a label 40 MB."""


def now() -> datetime:
    """Return the time of day, UTC."""
    return datetime.now(UTC)


class Log:
    """Writes lines of one format, from one level up. Safe to use from any task; a line is one write."""

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        level: LogLevel = LogLevel.INFO,
        is_json: bool = False,
        clock: Callable[[], datetime] = now,
    ) -> None:
        """Write text for people, or JSON. Without a stream, write to the present stderr at each line."""
        self._stream = stream
        self._level = level
        self._is_json = is_json
        self._clock = clock

    def debug(self, message: str, **fields: object) -> None:
        """Log a line for debugging the sidecar."""
        self.say(LogLevel.DEBUG, message, fields)

    def info(self, message: str, **fields: object) -> None:
        """Log what an operator may want to read later."""
        self.say(LogLevel.INFO, message, fields)

    def warning(self, message: str, **fields: object) -> None:
        """Log a fault that the sidecar copes with."""
        self.say(LogLevel.WARNING, message, fields)

    def error(self, message: str, **fields: object) -> None:
        """Log a fault that an operator should look at."""
        self.say(LogLevel.ERROR, message, fields)

    def say(self, level: LogLevel, message: str, fields: Mapping[str, object]) -> None:
        """Log a line of any level."""
        if level < self._level:
            return
        stream = self._stream or sys.stderr
        time = self._clock().strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        # A closed stderr must not end the daemon that would have complained there.
        with contextlib.suppress(OSError, ValueError):
            line = _json if self._is_json else _coloured if stream.isatty() else _text
            stream.write(line(time, level, message, fields))
            stream.flush()


def printable(text: str) -> str:
    """Return the text with all that cannot be seen escaped: line ends, escape codes, marks that change the direction,
    letters that show nothing.
    """
    if codec.is_printable(text):
        return text
    return "".join(
        c if codec.is_printable(c) else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text
    )


def _text(time: str, level: LogLevel, message: str, fields: Mapping[str, object]) -> str:
    shown = "".join(f" {key}={_value(value)}" for key, value in fields.items())
    text = _cut(message)
    # Beside fields, a message that looks like one, or like the beginning of a quotation, would change their meaning.
    told = _quoted(text) if "=" in text or text.count('"') % 2 else printable(text)
    return f"{time} {level.name.lower():<7} {told}{shown}\n"


def _coloured(time: str, level: LogLevel, message: str, fields: Mapping[str, object]) -> str:
    colour = _COLOURS[level]
    line = _text(time, level, message, fields)
    return f"{colour}{line[:-1]}{_RESET}\n" if colour else line


def _json(time: str, level: LogLevel, message: str, fields: Mapping[str, object]) -> str:
    record: dict[str, object] = {"time": time, "level": level.name.lower(), "message": _cut(message)}
    for key, value in fields.items():
        name = f"{key}_" if key in record else key
        record[name] = value if isinstance(value, (bool, int, float)) or value is None else _cut(str(value))
    return codec.printable(msgspec.json.encode({key: _valid(value) for key, value in record.items()})).decode() + "\n"


def _valid(value: object) -> object:
    """Escape surrogates that stand alone, which JSON cannot carry."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _value(value: object) -> str:
    text = _cut(str(value))
    return text if codec.is_printable(text) and text and not any(c in text for c in ' "=\\') else _quoted(text)


def _quoted(text: str) -> str:
    """Return a text in quotes. What is escaped there is told apart from what stood there escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(escaped)}"'


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}... ({len(text)} characters)"
