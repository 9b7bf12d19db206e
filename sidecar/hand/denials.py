"""What other programs wrote and the hand undid, as people are told of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from sidecar.hand.due import Due
from sidecar.hand.groups import WatchedGroup
from sidecar.hand.standing_answers import parsed
from sidecar.ports import GroupOverwritten, HandNews
from state.cpuset import EMPTY

_BIRTH_SECONDS: Final = 2.0
"""So long a runtime may write a newborn group itself without a report, unless that becomes wrested."""


class Denials:
    """Counts foreign writes of groups; `tell` receives the reports, `is_denied` tells whether a group that had such a
    line was denied anything. All is called under the hand's lock.
    """

    def __init__(
        self, due: Due, tell: Callable[[HandNews], None], is_denied: Callable[[WatchedGroup, bytes], bool]
    ) -> None:
        self._due = due
        self._tell = tell
        self._is_denied = is_denied

    def stands(self, group: WatchedGroup, line: bytes, now: float, stood: float) -> None:
        """Count that a foreign write which was noted before stood for so many seconds more, and report it if it becomes
        urgent.
        """
        group.writes.add(stood, now)
        if group.writes.is_urgent and self._is_denied(group, line):
            self._count(group, line, now)

    def note(self, group: WatchedGroup, line: bytes, now: float, stood: float) -> None:
        """Count a foreign write that stood for so many seconds, and report it if it was denied anything, and the last
        report is old enough, or this one is urgent.
        """
        if group.second != int(now):
            group.second, group.answers = int(now), 0
        group.answers += 1
        writes = group.writes
        writes.add(stood, now)
        is_runtimes = now - group.born_at < _BIRTH_SECONDS and not writes.is_wrested
        if not is_runtimes and self._is_denied(group, line):
            self._count(group, line, now)

    def _count(self, group: WatchedGroup, line: bytes, now: float) -> None:
        if (due := group.writes.count(line, now)) is not None:
            self._due.at(due, partial(self._report, group, due))

    def _report(self, group: WatchedGroup, due: float, now: float) -> None:
        found, times = group.writes.report(due, now)
        if times:
            self._tell(GroupOverwritten(group.id, parsed(found) or EMPTY, times, group.writes.is_wrested))
