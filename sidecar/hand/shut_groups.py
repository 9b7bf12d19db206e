"""Groups that are *shut*: their cpusets were closed to the hand, by a change of an owner or a mode.

The theory.

1. What can write a cgroup's directory can do that, and without CAP_DAC_OVERRIDE the hand then neither reads nor
   writes the cpuset. A watch that was made before keeps telling of each write, so none goes unheard.
2. Where such a group is, only the kernel's other files tell, and these may be closed as well. So the first failure is
   told at once, and each write after it, but for those within `PAUSE_SECONDS` of the one before: they are told
   together.
3. Without a watch nothing tells of its writes, and none can be made. So it is told again and again while it is there.
4. What was told stays true until another run: a group that is shut and was released is guarded no more, also if it is
   opened again. Else an order that was under way might guard it against the engine, which alone moves it from then on.
5. It is another run's as well that has no answer of its own any more: it is no container's then, and stuck where it is.
6. On v1 a closed group inside another shuts that as well: it cannot leave CPUs that the one inside has, neither by the
   hand nor by its engine, which writes none inside. So the hand tries again and again, with the answer that is held for
   it, and the walk that its engine does not make: until the run is over, as it may be closed again.
7. A write that is refused for another reason shuts no group: on v1 a group cannot have what the one above it lacks.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from sidecar.hand.bringing import brings
from sidecar.hand.due import Due
from sidecar.hand.group_files import CPUS, GroupFiles
from sidecar.hand.groups import Footing, ShutGroup, WatchedGroup, path_below
from sidecar.hand.inner_groups import ClosedInside
from sidecar.hand.libc_calls import may_open, read_line
from sidecar.hand.standing_answers import StandingAnswers
from sidecar.ports import GroupShut, GroupStuck, GroupWritten, HandNews
from state import files as state_files
from state.cpuset import EMPTY, CPUSet

PAUSE_SECONDS: Final = 0.1
"""Between two reports of one group: each has its container looked at."""
UNHEARD_SECONDS: Final = 1.0
"""Between two reports of a group without a watch."""
INSIDE_SECONDS: Final = 1.0
"""Between two attempts on a group with a closed one inside."""
STILL_SECONDS: Final = 20.0
"""Between two reports of such a group, whose own cpuset is watched: people read of it until a minute without."""
_REST_SECONDS: Final = 0.015
"""Between two steps through the groups inside."""


class ShutGroups:
    """Tells of groups that are shut. `called` returns the id of a group's container, "" if it is none's; `release`
    guards a group no more, `settle` tries again to bring one to its answer. All is called under the hand's lock.
    """

    def __init__(
        self,
        files: GroupFiles,
        due: Due,
        tell: Callable[[HandNews], None],
        called: Callable[[WatchedGroup], str],
        release: Callable[[WatchedGroup], None],
        settle: Callable[[WatchedGroup, float], None],
    ) -> None:
        self._files = files
        self._due = due
        self._tell = tell
        self._called = called
        self._release = release
        self._settle = settle
        self.answers: StandingAnswers | None = None
        """Those that are held."""

    def _finds(self, group: WatchedGroup, error: OSError, now: float) -> bool:
        """Return whether a group is shut, after this error (7)."""
        inside = error if isinstance(error, ClosedInside) else None
        if not isinstance(error, PermissionError) or (inside is None and _is_open(group)):
            return False
        if group.shut is None:
            path = path_below(group.path, inside.below.encode()) if inside and inside.below else group.path
            reason = f"the cgroup {path} cannot be written: {state_files.reason(error)}"
            group.shut = ShutGroup(reason, is_inside=inside is not None)
            if inside:
                self._due.at(now + INSIDE_SECONDS, partial(self._bring, group, group.shut))
        return True

    def lose(
        self,
        group: WatchedGroup,
        error: OSError,
        now: float,
        answers: StandingAnswers | None,
        *,
        is_asked: bool = False,
    ) -> bool:
        """After an error, release a group that is shut, and tell of it. One that has no answer of its own stays as it
        is, and is not told if where it may be `is_asked` now: that is done with all answers that are held. Return
        whether it is shut.
        """
        if not answers or answers.for_newborn(called := self._called(group)) is None:
            return False
        if not self._finds(group, error, now):
            return False
        is_known = group.footing in (Footing.KNOWN, Footing.RELEASED) or answers.is_own(called)
        if is_known:
            self._release(group)
        if is_known or not is_asked:
            self.tell(group, now)
        return True

    def refuse(self, group: WatchedGroup) -> None:
        """Raise PermissionError if an order for a group comes too late (4)."""
        if group.shut and group.footing is Footing.RELEASED:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def renew(self, group: WatchedGroup, answers: StandingAnswers | None) -> None:
        """With new answers, count a group as newborn that was released, and has none of its own any more (5). Bring one
        with a closed one inside to its own at once (6): its engine would move the outermost alone.
        """
        if group.shut is None or group.footing is not Footing.RELEASED or not answers:
            return
        if not answers.is_own(self._called(group)):
            group.footing, group.expected = Footing.NEWBORN, None
        elif group.shut.is_inside:
            # What fails is tried again soon.
            with suppress(OSError):
                self._is_brought(group)

    def tell(self, group: WatchedGroup, now: float) -> None:
        """Tell of a group that is shut, now or soon (2)."""
        if group.shut is None or group.shut.is_due:
            return
        if now >= group.shut.told_at + PAUSE_SECONDS:
            self._report(group, now)
        else:
            self._plan(group, group.shut, group.shut.told_at + PAUSE_SECONDS)

    def anywhere(self) -> CPUSet:
        """Return the CPUs on which a group may be of which nothing can be read."""
        with suppress(OSError):
            fd = self._files.open_path("")
            try:
                if cpus := self._files.effective(fd):
                    return cpus
            finally:
                os.close(fd)
        return CPUSet(range(os.sysconf("SC_NPROCESSORS_CONF")))

    def _plan(self, group: WatchedGroup, shut: ShutGroup, when: float) -> None:
        shut.is_due = True
        self._due.at(when, partial(self._report, group))

    def _report(self, group: WatchedGroup, now: float) -> None:
        shut = group.shut
        if shut is None:
            return
        shut.is_due = False
        if group.parent.groups.get(group.name) is not group:
            return
        shut.told_at = now
        if group.footing in (Footing.NEWBORN, Footing.FOUND):
            self._tell(GroupStuck(group.path))
        if id := self._called(group):
            self._tell(GroupShut(id, self._seen(group), shut.reason))
        if group.watch < 0:
            # 3.
            self._plan(group, shut, now + UNHEARD_SECONDS)

    def _bring(self, group: WatchedGroup, shut: ShutGroup, now: float) -> None:
        """Try again to bring a group to its answer that has, or had, a closed one inside (6)."""
        if group.shut is not shut or group.parent.groups.get(group.name) is not group:
            return
        pause = INSIDE_SECONDS
        if group.footing is not Footing.RELEASED:
            self._settle(group, now)
        else:
            try:
                if not self._is_brought(group):
                    pause = _REST_SECONDS
            except OSError as error:
                if isinstance(error, ClosedInside) and now >= shut.told_at + STILL_SECONDS:
                    self.tell(group, now)
        self._due.at(now + pause, partial(self._bring, group, shut))

    def _is_brought(self, group: WatchedGroup) -> bool:
        """Write the answer that is held into a group and those inside, a step of it. Return whether that is over. It is
        not guarded: it is what its engine was told to give it. Raise OSError.
        """
        line = self.answers.for_newborn(self._called(group)) if self.answers else None
        with group.opened() as fd:
            if not line or read_line(fd, CPUS) == line:
                return True
            if not brings(self._files.version, group, fd, line, self._tell, has_changed=True):
                return False
        self._tell(GroupWritten(group.id))
        return True

    def _seen(self, group: WatchedGroup) -> CPUSet:
        with suppress(OSError), group.opened() as fd:
            return self._files.effective(fd)
        return EMPTY


def _is_open(group: WatchedGroup) -> bool:
    """Return whether a group's cpuset may be read and written, or is gone."""
    try:
        with group.opened() as fd:
            return may_open(fd, CPUS)
    except PermissionError:
        return False
    except OSError:
        return True


def is_impassable(directory: int) -> bool:
    """Return whether this process lacks the right to pass through an open directory."""
    try:
        os.stat(".", dir_fd=directory)
    except PermissionError:
        return True
    except OSError:
        return False
    return False
