"""The last hour of a container as a line of characters: how many CPUs it had when. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from sidecar.status.grant_history import GrantChange, GrantHistory

BARS: Final = "▁▂▃▄▅▆▇█"
ASCII_BARS: Final = "12345678"
"""Where a terminal has no other characters: the eighths of the most."""

NOTHING: Final = "."
"""It had none."""

UNKNOWN: Final = " "
"""Nothing is recorded of that time."""


def time_line(history: GrantHistory, id: str, width: int, seconds: float, bars: str = BARS) -> str:
    """Return `width` characters for the last `seconds`, the newest last: the most CPUs that it had in each part."""
    counts = counts_in_parts(history, id, width, seconds)
    most = max((count for count in counts if count), default=1)
    return "".join(_bar(count, most, bars) for count in counts)


def counts_in_parts(history: GrantHistory, id: str, parts: int, seconds: float) -> list[int | None]:
    """Return how many CPUs it had at most in each of these equal parts of the time; None for before the record."""
    begin = history.until - seconds
    counts: list[int | None] = [
        None if begin + (place + 1) * seconds / parts <= history.since else 0 for place in range(parts)
    ]
    for start, end, count in _spans(history, id):
        if end <= begin:
            continue
        first = min(parts - 1, max(0, math.floor((start - begin) * parts / seconds)))
        # What ends where a part begins is not in it.
        last = min(parts - 1, max(first, math.ceil((end - begin) * parts / seconds) - 1))
        for place in range(first, last + 1):
            counts[place] = max(counts[place] or 0, count)
    return counts


def most_held(history: GrantHistory, id: str) -> int:
    """Return the most CPUs that it had at once."""
    return max((count for _, _, count in _spans(history, id)), default=0)


def changes_of(history: GrantHistory, id: str) -> list[GrantChange]:
    """Return its changes, the newest first."""
    return [each for each in reversed(history.changes) if each.container == id]


def _spans(history: GrantHistory, id: str) -> list[tuple[float, float, int]]:
    """Return since when, until when, and how many CPUs it held each time that it held some."""
    own: Sequence[GrantChange] = [each for each in (*history.began, *history.changes) if each.container == id]
    ends = [*(each.at for each in own[1:]), history.until] if own else []
    return [(each.at, end, len(each.cpus)) for each, end in zip(own, ends, strict=True) if each.cpus]


def _bar(count: int | None, most: int, bars: str) -> str:
    if count is None:
        return UNKNOWN
    return bars[-(-count * len(bars) // most) - 1] if count else NOTHING
