"""The grants of the last hour: each change of a grant with its time and reason. Pure.

The journal has every fact, and no time: a replay tells what was decided, not when. So the changes of grants are
recorded beside it, few and short, in a file of their own (`history_file`).

1. A change says what a container holds from then on. What it held before is its earlier change.
2. What is older than `HOUR` is dropped, except the last change of each container that holds CPUs: with it the hour
   begins.
3. There are never more than `MOST` changes: the oldest go first, by the same rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from state.cpuset import EMPTY, CPUSet

HOUR: Final = 3600.0
"""Seconds."""

MOST: Final = 4000
"""Changes that are kept: more than one a second, all the hour."""


class GrantChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a container holds from `at` on, in seconds since 1970, and why. `cpus` is empty once it holds none.

    Without a container it is a start of the daemon: changes that were made while none ran are recorded with it.
    """

    at: float
    container: str = ""
    name: str = ""
    cpus: CPUSet = EMPTY
    reason: str = ""


class GrantHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The changes from `since` to `until`, in seconds since 1970, oldest first; `began` are the grants at `since`."""

    since: float
    until: float
    began: tuple[GrantChange, ...] = ()
    changes: tuple[GrantChange, ...] = ()


def last_changes(changes: Iterable[GrantChange]) -> tuple[GrantChange, ...]:
    """Return the last change of each container that still holds CPUs then, in their order."""
    last: dict[str, GrantChange] = {}
    for each in changes:
        last.pop(each.container, None)
        if each.container and each.cpus:
            last[each.container] = each
    return tuple(last.values())


def kept(changes: Sequence[GrantChange], now: float, most: int = MOST) -> tuple[GrantChange, ...]:
    """Return the changes without those that are too old or too many (2, 3)."""
    first = next((place for place, each in enumerate(changes) if each.at >= now - HOUR), len(changes))
    first = max(first, len(changes) - most)
    return (*last_changes(changes[:first]), *changes[first:])


def history(changes: Sequence[GrantChange], now: float) -> GrantHistory:
    """Return the last hour. It begins at the oldest change if nothing is recorded of the time before."""
    since = max(now - HOUR, min((each.at for each in changes), default=now))
    before = [each for each in changes if each.at < since]
    return GrantHistory(
        since=since,
        until=now,
        began=last_changes(before),
        changes=tuple(each for each in changes if each.at >= since),
    )
