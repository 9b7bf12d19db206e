"""Bringing groups to the line that they should have, and keeping them there. All is called under the hand's lock."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from sidecar.decide.orders import Update
from sidecar.hand import pinned_pods
from sidecar.hand.bringing import brings
from sidecar.hand.denials import Denials
from sidecar.hand.due import Due
from sidecar.hand.group_files import CPUS, GroupFiles, watchable
from sidecar.hand.group_places import GroupPlaces
from sidecar.hand.groups import Footing, GroupTable, WatchedGroup
from sidecar.hand.inner_groups import ClosedInside
from sidecar.hand.libc_calls import IN_MODIFY, Queue, close, open_directory, read_line, write_line
from sidecar.hand.shut_groups import ShutGroups
from sidecar.hand.standing_answers import StandingAnswers, parsed
from sidecar.ports import GroupPinned, GroupStuck, GroupWritten, HandNews
from state.cpuset import EMPTY, CPUSet

MOST_ANSWERS: Final = 1000
"""Foreign writes to one group that are answered at once, in a second: an engine manages 70. Each answer costs 50 us."""
CALM_SECONDS: Final = 0.002
"""Between two answers beyond that: so one group costs some percent of a CPU more, whatever is done to it."""

_REST_SECONDS: Final = 0.015
"""Between two steps through the groups inside one: three times as long as a step takes."""

_FIRST_RETRY_SECONDS: Final = 0.001
_TRIES: Final = 12
"""Attempts on one group, each after twice the pause before: four seconds in all."""


class Enforcer:
    """Writes groups by their footing; `tell` receives what people should know."""

    def __init__(
        self,
        files: GroupFiles,
        queue: Queue,
        table: GroupTable,
        places: GroupPlaces,
        due: Due,
        tell: Callable[[HandNews], None],
    ) -> None:
        self._files = files
        self._queue = queue
        self._table = table
        self._places = places
        self._due = due
        self._tell = tell
        self._denials = Denials(due, tell, self._is_denied)
        self._shut = ShutGroups(files, due, tell, self.called, self.release, self.settle)
        self.answers: StandingAnswers | None = None

    def hold(self, answers: StandingAnswers) -> None:
        """Answer all births from now on with these."""
        self.answers = self._shut.answers = answers
        others, own = answers.lines
        self._queue.answer(others, {id: (self._places.number_of(id), line) for id, line in own.items()})

    def called(self, group: WatchedGroup) -> str:
        """Return the id of the container whose group this is; "" if it only has such a name."""
        return group.id if self._places.stands_for(group.id, group.parent.place) else ""

    def answered(self, group: WatchedGroup, line: bytes, now: float, stood: float) -> None:
        """Count a foreign write that the queue has answered already, after so many seconds."""
        group.theirs = line
        group.writes.looked(now, is_lost=False)
        self._denials.note(group, line, now, stood)

    def settle(self, group: WatchedGroup, now: float, since: float | None = None) -> None:
        """Watch a group that was taken up, or look at one that was written (not before `since`, if that is known), and
        write it if another line is expected.
        """
        if group.shut and group.footing is Footing.RELEASED:
            if since is not None:
                self._shut.tell(group, now)
            return
        if group.shut is None and self._is_tired_of(group, now):
            return
        try:
            fd = open_directory(group.parent.fd, group.name)
        except OSError as error:
            # If it is gone already, its event follows.
            self._shut.lose(group, error, now, self.answers)
            return
        is_foreign, began = False, now
        try:
            self._watch(group, fd)
            is_foreign = self._read(group, fd)
            began = group.writes.began(now if since is None else since)
            group.writes.looked(now, is_lost=False)
            self._tell_pin(group)
            was_late = group.is_closed
            # If nobody wrote it, what it should have has changed, for those inside as well.
            self._write(group, fd, has_changed=not is_foreign)
            if was_late:
                self._tell(GroupWritten(group.id))
            self._note(group, began, self._looked_again(group, fd) if is_foreign else now, is_new=is_foreign)
            is_foreign = False
            if group.watch < 0:
                # Nothing will tell of the runtime's own writes: look again after each of them.
                self._postpone(group, now)
        except OSError as error:
            is_shut = self._shut.lose(group, error, now, self.answers)
            if not is_shut:
                self._note(group, began, now, is_new=is_foreign, is_over=False)
            if group.footing in (Footing.NEWBORN, Footing.FOUND) and not group.is_closed and not is_shut:
                self._tell(GroupStuck(group.path))
            self._postpone(group, now)
        finally:
            close(fd)

    def rewrite(self, group: WatchedGroup, now: float) -> CPUSet:
        """Bring a group to the present answers. Return the CPUs where it may run in spite of them; EMPTY if none."""
        if self.answers and self.answers.for_newborn(self.called(group)) is None:
            return self._let_go(group, self.answers, now)
        self._shut.renew(group, self.answers)
        expected = self._expected(group)
        is_right = expected is None or (group.line == expected and group.watch >= 0 and not group.is_closed)
        if group.footing is Footing.RELEASED or (is_right and group.shut is None):
            return EMPTY
        try:
            with group.opened() as fd:
                return self._rewritten(group, fd, expected or b"", now)
        except OSError as error:
            is_shut = self._shut.lose(group, error, now, self.answers, is_asked=True)
            return self._shut.anywhere() if is_shut else EMPTY

    def _let_go(self, group: WatchedGroup, answers: StandingAnswers, now: float) -> CPUSet:
        """Guard a group no more, and give it what it would have without the hand. What an order wrote stays, but not of
        one that is pinned by hand: the order came before more than a glance was possible. Nor does such a pin that
        turns out to be older than a write that was undone. Return where it runs if that is not done at once.
        """
        group.shut = None
        back, pin = group.theirs, answers.pin_of(self.called(group))
        is_outdated = bool(group.pin) and group.line == group.pin != pin
        if group.footing is Footing.KNOWN or is_outdated:
            self.release(group)
            back = group.pin = pin
            group.is_answered = bool(back)
        self._queue.expect(group.watch, -1, b"", None)
        if not group.is_answered:
            return EMPTY
        group.is_answered = False
        with suppress(OSError), group.opened() as fd:
            had = answers.for_released(self.called(group), back)
            group.line = had or self._files.cleared(fd, group.parent.fd)
            if group.line and not self._give_back(group, fd, group.line, now):
                return self._files.effective(fd)
            if is_outdated:
                self._tell(GroupWritten(group.id))
        return EMPTY

    def _give_back(self, group: WatchedGroup, fd: int, line: bytes, now: float, tries: int = 0) -> bool:
        """Give a group that is let go this line; return whether that is over. If not, it goes on, or is tried again."""
        pause = _REST_SECONDS
        try:
            if brings(self._files.version, group, fd, line, self._tell, has_changed=True):
                return True
        except OSError:
            if tries >= _TRIES:
                return False
            pause, tries = _FIRST_RETRY_SECONDS * 2**tries, tries + 1
        self._due.at(now + pause, partial(self._give_on, group, line, tries))
        return False

    def _give_on(self, group: WatchedGroup, line: bytes, tries: int, now: float) -> None:
        """Make the next step of giving back, unless the group has another line to go to meanwhile. Report the last one:
        a look may have shown the group before.
        """
        if group.line != line or group.is_answered or group.footing is Footing.KNOWN:
            return
        with suppress(OSError), group.opened() as fd:
            if self._give_back(group, fd, line, now, tries):
                pinned_pods.narrow(self._table, self.answers)
                self._tell(GroupWritten(group.id))

    def _rewritten(self, group: WatchedGroup, fd: int, expected: bytes, now: float) -> CPUSet:
        try:
            self._watch(group, fd)
            self._read(group, fd)
            self._write(group, fd, has_changed=True)
            if self._files.version == 1:
                # v1 refuses what it does not do.
                return EMPTY
        except OSError as error:
            self._shut.lose(group, error, now, self.answers, is_asked=True)
            self._postpone(group, now)
        # What it was written with counts as well: offline CPUs come back.
        runs_on = self._files.effective(fd) | (parsed(group.line or b"") or EMPTY)
        return EMPTY if runs_on <= (parsed(expected) or EMPTY) else runs_on

    def _watch(self, group: WatchedGroup, fd: int) -> None:
        """Watch a group's cpuset; it stays without a watch if the kernel has no more."""
        if group.watch >= 0:
            return
        try:
            group.watch = self._queue.watch(watchable(fd, CPUS), IN_MODIFY)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        else:
            self._table.by_watch[group.watch] = group

    def _read(self, group: WatchedGroup, fd: int) -> bool:
        """Read a group's line. Return whether another program has changed what was read or written before."""
        before, line = group.line, read_line(fd, CPUS)
        if line == before:
            return False
        expected = self._expected(group)
        group.line = line
        if line == expected or (before is None and group.is_answered):
            # The second is an answer that the queue has written, perhaps an earlier one.
            return False
        if group.footing is Footing.FOUND:
            group.runs_on = line
        group.theirs = line
        return before is not None and expected is not None

    def order(self, group: WatchedGroup, update: Update, now: float) -> None:
        """Write an update into a group, which is guarded with it from now on. If groups inside it are in the way, it
        has its CPUs later. Raise OSError; it is then released.
        """
        self._shut.refuse(group)
        fd = open_directory(group.parent.fd, group.name)
        try:
            group.footing, group.expected = Footing.KNOWN, str(update.cpus).encode()
            self._watch(group, fd)
            self._queue.expect(group.watch, group.parent.fd, group.name, group.expected)
            self._files.write_around(fd, group.path, update)
            pinned_pods.widen(self._table, group.parent, group.expected)
            self._put_whole(group, fd, group.expected, has_changed=True)
            group.line, group.is_answered, group.is_closed, group.tries = group.expected, False, False, 0
            group.shut = None
        except OSError as error:
            if error.errno == errno.EBUSY and self._files.version == 1:
                group.is_answered, group.tries = False, 0
                self._postpone(group, now)
                return
            self.release(group)
            self._shut.lose(group, error, now, self.answers)
            raise
        finally:
            close(fd)

    def forget_order(self, group: WatchedGroup) -> None:
        """Count a group as newborn that an order wrote, since the run is over for which it was written; or one that the
        hand found, and whose container rests: no order will write it.
        """
        called = self.called(group)
        is_left = group.footing is Footing.KNOWN or (group.footing is Footing.FOUND and called)
        if is_left and self.answers and self.answers.for_newborn(called) is not None:
            group.footing, group.expected = Footing.NEWBORN, None

    def release(self, group: WatchedGroup) -> None:
        """Leave a group as it is from now on."""
        group.footing = Footing.RELEASED
        self._queue.expect(group.watch, -1, b"", None)

    def is_there(self, group: WatchedGroup) -> bool:
        """Return whether a group still exists."""
        try:
            with group.opened():
                return True
        except OSError as error:
            return isinstance(error, PermissionError)

    def effective(self, group: WatchedGroup) -> CPUSet:
        """Return the CPUs that a group has effectively. Raise OSError."""
        with group.opened() as fd:
            return self._files.effective(fd)

    def _write(self, group: WatchedGroup, fd: int, *, has_changed: bool = False) -> None:
        expected = self._expected(group)
        is_moving = group.footing is Footing.FOUND
        self._queue.expect(group.watch, group.parent.fd, group.name, None if is_moving else expected)
        if expected is not None:
            if group.line != expected or group.is_closed:
                expected = self._put(group, fd, expected, has_changed=has_changed)
                group.shut = None
            group.line = expected
            group.is_answered = group.footing is not Footing.KNOWN
        group.is_closed, group.tries = False, 0

    def _put(self, group: WatchedGroup, fd: int, line: bytes, *, has_changed: bool) -> bytes:
        """Write a line, or the plain answer if that is not possible: an own set may be all offline. Return what was
        written.
        """
        try:
            self._put_whole(group, fd, line, has_changed=has_changed)
        except OSError as error:
            if error.errno == errno.EBUSY or isinstance(error, ClosedInside):
                # What is inside has other CPUs: they would be in the way of the plain answer too.
                raise
            plain = self.answers.for_newborn(self.called(group)) if self.answers and group.theirs else None
            if group.footing is Footing.KNOWN or plain is None or plain == line:
                raise
            if group.footing is Footing.NEWBORN:
                self._queue.expect(group.watch, group.parent.fd, group.name, plain)
            write_line(fd, CPUS, plain)
            return plain
        return line

    def _put_whole(self, group: WatchedGroup, fd: int, line: bytes, *, has_changed: bool) -> None:
        """Write a line into a group, and what follows from it into those inside. Raise OSError, EBUSY if that is not
        over.
        """
        if not brings(self._files.version, group, fd, line, self._tell, has_changed=has_changed):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    def _expected(self, group: WatchedGroup) -> bytes | None:
        """Return the line that a group should have; None: it is left as it is."""
        match group.footing:
            case Footing.KNOWN:
                return group.expected
            case Footing.NEWBORN if self.answers:
                return self.answers.for_newborn(self.called(group), self._reached(group, group.theirs))
            case Footing.FOUND if self.answers and group.runs_on is not None:
                runs_on = self._reached(group, group.runs_on)
                line = self.answers.for_found(self.called(group), runs_on)
                if line == runs_on and not group.is_answered:
                    return None
                # The kernel takes no CPUs from a group with processes to give it those of its parent.
                return line if line != b"" else self.answers.for_newborn(self.called(group))
            case _:
                return None

    def _reached(self, group: WatchedGroup, line: bytes) -> bytes:
        """Return where a group runs that has this line: on v2 on the CPUs of the group above if that lacks them all."""
        if self._files.version == 1 or not line or (self.answers and self.answers.is_own(self.called(group))):
            # v1 refuses what the group above lacks.
            return line
        try:
            above = self._files.effective(group.parent.fd)
        except OSError:
            return line
        wanted = parsed(line)
        return str(above).encode() if wanted and above and wanted.isdisjoint(above) else line

    def _postpone(self, group: WatchedGroup, now: float) -> None:
        """Try again later; after the last attempt at its next event."""
        group.is_closed = True
        if group.inner and group.inner.is_walking:
            if not group.is_due:
                group.is_due = True
                self._due.at(now + _REST_SECONDS, partial(self._retry, group))
            return
        if not group.is_due and group.tries < _TRIES:
            group.is_due = True
            self._due.at(now + _FIRST_RETRY_SECONDS * 2**group.tries, partial(self._retry, group))
            group.tries += 1

    def _retry(self, group: WatchedGroup, now: float) -> None:
        group.is_due = False
        if group.parent.groups.get(group.name) is group:
            self.settle(group, now)

    def _is_tired_of(self, group: WatchedGroup, now: float) -> bool:
        """Stop watching a group that was written too often within this second, for a moment. Return whether it was."""
        if group.second != int(now) or group.answers < MOST_ANSWERS or group.watch < 0:
            return False
        del self._table.by_watch[group.watch]
        self._queue.leave(group.watch)
        group.watch = -1
        if not group.is_due:
            group.is_due = True
            self._due.at(now + CALM_SECONDS, partial(self._retry, group))
        return True

    def _looked_again(self, group: WatchedGroup, fd: int) -> float:
        """See whether what was written just now is still there. Return when that was."""
        is_lost, now = read_line(fd, CPUS) != group.line, time.monotonic()
        group.writes.looked(now, is_lost=is_lost)
        return now

    def _note(self, group: WatchedGroup, began: float, now: float, *, is_new: bool, is_over: bool = True) -> None:
        """Count a foreign write that is new, or that stands since an attempt that failed, until now."""
        note = self._denials.note if is_new else self._denials.stands
        if is_new or group.writes.is_standing:
            note(group, group.theirs, now, group.writes.stood(began, now, is_over=is_over))

    def _is_denied(self, group: WatchedGroup, line: bytes) -> bool:
        return bool(self.called(group)) and line != self._expected(group)

    def _tell_pin(self, group: WatchedGroup) -> None:
        """Report a newborn whose runtime gave it CPUs of its own, once."""
        if group.footing is not Footing.NEWBORN or group.is_pinned or not group.theirs or self.answers is None:
            return
        if self.answers.is_pin(group.theirs):
            group.is_pinned = True
            self._tell(GroupPinned(group.id))
