"""The file of events: every change as it was told to followers, and when the daemon began and ended.

So people can read later what happened, also before the daemon was killed. A line is an object with `id`,
`time`, `level`, `message` and the fields of that message, as a log line. The last ones are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sidecar.status.line_file import LineFile

NAME: Final = "events.jsonl"

LIMIT: Final = 1024 * 1024
"""Bytes after which the file is replaced by its last half. An event has 200 bytes, without a long name or reason."""


class RecordedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What each event has, beside the fields of its message, as a log line. `time` is RFC 3339; `id` is empty for what
    the command `events` saw by itself.
    """

    id: str
    time: str
    level: str
    message: str


Event = Mapping[str, Any]
"""An event as it is in the file: a `RecordedEvent` with the fields of its message."""

BEGAN: Final = "the daemon began"
ENDED: Final = "the daemon ended"


def event_file(state_dir: str) -> LineFile:
    """Return the file in a state directory."""
    return LineFile(state_dir, NAME, version=1, limit=LIMIT, is_shared=True)


def shortened(lines: list[bytes]) -> list[bytes]:
    """Return the last lines, which have half the limit at most."""
    kept, room = list[bytes](), LIMIT // 2
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept[::-1]


def event_of(line: bytes) -> Event | None:
    """Return the event of a line; None if it is none."""
    try:
        found = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    is_event = all(isinstance(found.get(name), str) for name in ("id", "time", "level", "message"))
    return found if is_event else None
