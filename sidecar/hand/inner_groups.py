"""The groups inside those that the hand writes: on cgroup v1 they are brought along, or nothing can be written.

The theory.

1. On v1 a group cannot lose a CPU that a group inside it has (EBUSY), and none inside can have one that it lacks. So a
   container's tree is confined as a whole, and exactly when its outermost group is: nothing inside must be watched, and
   nothing is done before a write fails, or CPUs change by what the sidecar decided. On v2 the kernel does all of this.
2. A group inside that has all CPUs of the one above has them still afterwards. Any other is pinned: it keeps what is
   left of its own CPUs, all if nothing is, and gets them again later. What it had is kept in memory, so a new hand
   takes a pin for what it finds. A group without CPUs has no processes.
3. A group is widened before those inside it, to its CPUs before and after; then these are written, and then it gets
   exactly what it should have. So the deepest are narrowed first. Nothing is read below a group that does not change.
4. A walk is made in steps: whatever a tenant has nested, one step holds up nothing else for longer than some
   milliseconds. Until the last step the outermost group keeps the CPUs that it is leaving, and counts there. The kernel
   looks at all cpusets of the host for each write (Linux 6), so ten times the groups take a hundred times as long.

5. Groups inside come and go, and others write them meanwhile: one that is gone is passed over, and any other error of
   one is EBUSY of the outermost, which is tried again. One that may not be opened is told by its path. A tenant that
   widens both meanwhile gains one walk more, which changes what is not narrow yet.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

from sidecar.hand.group_files import CPUS
from sidecar.hand.group_names import ParentKind, recognized
from sidecar.hand.libc_calls import close, directories, may_open, open_directory, read_line, write_line
from sidecar.hand.standing_answers import parsed
from sidecar.host.cgroup.descent import Descent
from state.cpuset import EMPTY, CPUSet

STEP_SECONDS: Final = 0.005
"""After this long a step ends: births are waiting, and decisions."""

MOST_PINS: Final = 1000
"""Pins that are kept of one container; an older one is forgotten, and has all CPUs of the group above from then on."""

MOST_TOLD: Final = 100
"""Containers inside that are told of at once. Those beyond are found by the next check of the kernel."""

_Above = tuple[CPUSet, CPUSet, list[tuple[bytes, int]]]
"""A group that is being changed: its CPUs before and after, and what is left inside."""


MOST_SHOWN: Final = 200
"""Characters of the path of a group inside: a tenant chooses how long it is."""


class ClosedInside(PermissionError):
    """A group inside one, or that itself, may not be opened. `below` is its path from there, "" for that itself."""

    def __init__(self, below: str) -> None:
        super().__init__(errno.EACCES, os.strerror(errno.EACCES))
        self.below = below


class InnerGroups:
    """The groups inside one that the hand writes, and the walk through them that is not over."""

    __slots__ = ("_line", "_moved", "_pins", "_walk")

    def __init__(self) -> None:
        self._moved: list[str] = []
        self._pins: dict[int, tuple[CPUSet, CPUSet]] = {}
        """By inode: what was written, and what was there before."""
        self._line = b""
        self._walk: Generator[None] | None = None

    def bring(self, outermost: int, line: bytes) -> bool:
        """Write a line into an open group and what follows from it into those inside, a step of it. Return whether all
        is done: if not, the next call goes on. Raise OSError; the next call begins from the start.
        """
        if self._walk is None or self._line != line:
            if self._walk:
                self._walk.close()
            self._line, self._walk = line, self._steps(outermost, line)
        walk, self._walk = self._walk, None
        end = time.monotonic() + STEP_SECONDS
        for _ in walk:
            if time.monotonic() >= end:
                self._walk = walk
                return False
        return True

    @property
    def is_walking(self) -> bool:
        """Whether a step was made, and is not the last one."""
        return self._walk is not None

    def moved(self) -> list[str]:
        """Return the containers inside whose groups were written since the last call, by their ids."""
        found, self._moved = self._moved, []
        return found

    def close(self) -> None:
        """End a walk that is not over."""
        if self._walk:
            self._walk.close()
            self._walk = None

    def _steps(self, outermost: int, line: bytes) -> Generator[None]:
        # The generator outlives the descriptor of the caller.
        at, names = Descent(outermost, open_directory, close), list[bytes]()
        try:
            before, after = parsed(read_line(at.fd, CPUS)) or EMPTY, parsed(line) or EMPTY
            with _told_if_closed(at, names):
                stack = [_entered(at.fd, before, after)]
            while stack:
                before, after, inside = stack[-1]
                if inside:
                    name, inode = inside.pop()
                    with _errors_of_one_inside(at, names):
                        at.down(name)
                        names.append(name)
                        if self._enter(at, names, inode, stack):
                            self._tell(name)
                        else:
                            _leave(at, names)
                else:
                    stack.pop()
                    # Only now, since one inside may have had more.
                    with _errors_of_one_inside(at, names) if stack else nullcontext():
                        write_line(at.fd, CPUS, str(after).encode())
                    if stack:
                        _leave(at, names)
                yield
        finally:
            at.close()

    def _enter(self, at: Descent, names: list[bytes], inode: int, stack: list[_Above]) -> bool:
        """Begin with the group at this place, inside the last of the stack; return whether it changes, and is the last
        then. One that is gone meanwhile does not.
        """
        before, after, _ = stack[-1]
        with _errors_of_one_inside(at, names):
            if changed := self._changed(at.fd, inode, before, after):
                stack.append(_entered(at.fd, *changed))
                return True
        return False

    def _tell(self, name: bytes) -> None:
        seen = recognized(name, ParentKind.GUESTS)
        if seen and seen.id and len(self._moved) < MOST_TOLD:
            self._moved.append(seen.id)

    def _changed(self, group: int, inode: int, above: CPUSet, after: CPUSet) -> tuple[CPUSet, CPUSet] | None:
        """Return which CPUs a group has, and which it gets if the one above had and gets these; None if it stays."""
        had = parsed(read_line(group, CPUS)) or EMPTY
        if not had:
            return None
        wrote, theirs = self._pins.pop(inode, (EMPTY, EMPTY))
        if wrote != had:
            theirs = EMPTY if had >= above else had
        wanted = (theirs & after) or after
        if theirs:
            self._pins[inode] = wanted, theirs
            while len(self._pins) > MOST_PINS:
                del self._pins[next(iter(self._pins))]
        return None if wanted == had else (had, wanted)


def has_inner(group: int) -> bool:
    """Return whether there are groups in this open one of v1. Raise OSError."""
    return os.fstat(group).st_nlink > 2


def _entered(group: int, before: CPUSet, after: CPUSet) -> _Above:
    if not after <= before:
        write_line(group, CPUS, str(before | after).encode())
    return before, after, directories(group, b".")


def _leave(at: Descent, names: list[bytes]) -> None:
    """Go to the group above; raise EBUSY if the way is lost."""
    names.pop()
    try:
        at.up()
    except OSError as error:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY)) from error


@contextmanager
def _told_if_closed(at: Descent, names: list[bytes]) -> Iterator[None]:
    """Raise ClosedInside if the group at this place, which has these names, may not be opened. The kernel gives the
    same error for CPUs that the group above it lacks.
    """
    try:
        yield
    except PermissionError as error:
        if isinstance(error, ClosedInside) or not _is_closed(at.fd):
            raise
        path = ascii(os.fsdecode(b"/".join(names)))[1:-1]
        raise ClosedInside(path if len(path) <= MOST_SHOWN else f"{path[:MOST_SHOWN]}…") from error


def _is_closed(group: int) -> bool:
    try:
        if may_open(group, CPUS):
            directories(group, b".")
            return False
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


@contextmanager
def _errors_of_one_inside(at: Descent, names: list[bytes]) -> Iterator[None]:
    """Pass over a group that is gone; raise ClosedInside, and EBUSY for any other error (5)."""
    try:
        with _told_if_closed(at, names):
            yield
    except ClosedInside:
        raise
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY)) from error
