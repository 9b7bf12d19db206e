"""Moving the threads of a process and all its descendants from one set of CPUs to the next.

The kernel confines threads to the container's cpuset by itself, but only all of them at once: a thread that once asked
for a set of CPUs (sched_setaffinity(2)) is not widened when the cpuset grows, and no thread leaves before a cpuset
shrinks. So each thread is moved, one by one.

1. A thread follows if its CPUs are ours: those that we last asked for, or what the kernel has made of those since. What
   that is, our own thread shows, since it was asked the same and is in the same cpuset: kernels from 6.2 on remember
   what was asked for and apply its part within the cpuset; earlier ones set each thread to the whole cpuset whenever
   that changes (cpuset(7)). All are looked at before any is moved, and again if the kernel changed ours in the
   meantime.
2. Any other set of CPUs is the program's own doing. Such a thread is left alone, and remembered: it may bind itself to
   what happens to be our next set. It follows again once it changes to all CPUs in force. As long as CPUs that it chose
   are not in force, nothing is concluded from those that it has: the kernel pushed it there.
3. Threads are born while others are moved, and inherit the CPUs of their parent (sched_setaffinity(2)). So a pass over
   all is followed by another one, until one finds nothing to move and the kernel has not interfered.
4. Asking for CPUs outside the cpuset is no error as long as one is inside: the kernel takes those (EINVAL otherwise).
   Both happen when the projection is ahead of the kernel or behind it. The next change, or the next look, corrects it.
5. When sched_setaffinity returns, a running thread has been moved off the CPUs that it may not use any more.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from state.cpuset import CPUSet

_PROCESSES: Final = "/proc"

MAX_PASSES: Final = 64
"""In a row. A program that makes threads faster than they are moved must not keep signals from being passed on."""


class Moved(NamedTuple):
    """The result of a pass: how many threads follow and how many have bound themselves. `on_leaving` may still run
    where they should not. `is_complete` is false where another attempt may do better."""

    following: int
    own: int
    on_leaving: int
    is_complete: bool


class _Choice(NamedTuple):
    """CPUs that a thread chose itself. Numbers of threads are used again: `born` tells them apart."""

    born: bytes
    cpus: CPUSet


class Followers:
    """All threads of our descendants, and our own thread, which goes where they go."""

    def __init__(self) -> None:
        self._ours = {mine()}
        self._own: dict[int, _Choice] = {}

    def follow(self, wanted: CPUSet, in_force: CPUSet, leaving: CPUSet) -> Moved:
        """Move all that follow to `wanted`. `in_force` are the CPUs of the container, of which `leaving` go."""
        moved = Moved(0, 0, 0, is_complete=False)
        if not os.path.isdir(_PROCESSES):
            # Threads that cannot be seen are unknown.
            return moved
        followers = self._told_apart(in_force)
        _ask(0, wanted)
        for number in range(MAX_PASSES):
            target = mine()
            moved, had_to = self._pass(wanted, target, followers, leaving, is_first=number == 0)
            if not had_to and mine() == target:
                self._ours = {wanted, target}
                # (4) In part, or not at all: to be tried again.
                return moved._replace(is_complete=target == wanted)
            self._ours.add(target)
        return moved

    def were_moved(self) -> bool:
        """Return whether the kernel gave our own thread, and so all that follow, other CPUs than were asked for."""
        return mine() not in self._ours

    def _told_apart(self, in_force: CPUSet) -> set[int]:
        """Rules 1 and 2: the threads that follow. Those with CPUs of their own are remembered."""
        followers: set[int] = set()
        own: dict[int, _Choice] = {}
        ours = self._ours
        for _ in range(MAX_PASSES):
            before = mine()
            ours = ours | {before}
            followers, own = set(), {}
            for process, thread in _threads(os.getpid()):
                if (now := _cpus_of(thread)) is None:
                    continue
                if chosen := self._choice(process, thread, now, ours, in_force):
                    own[thread] = chosen
                else:
                    followers.add(thread)
            if mine() == before:
                break
        self._ours, self._own = ours, own
        return followers

    def _choice(self, process: int, thread: int, now: CPUSet, ours: set[CPUSet], in_force: CPUSet) -> _Choice | None:
        """Rule 2: what a thread has chosen; None if it follows."""
        before = self._own.get(thread)
        if before is None and now in ours:
            return None
        born = _born(process, thread)
        if before is None or before.born != born:
            return None if now in ours else _Choice(born, now)
        if now == before.cpus or not before.cpus <= in_force:
            return before
        return None if now == in_force else _Choice(born, now)

    def _pass(
        self, wanted: CPUSet, target: CPUSet, followers: set[int], leaving: CPUSet, *, is_first: bool
    ) -> tuple[Moved, bool]:
        """Look at each thread once. Return whether one had to be moved."""
        following = own = on_leaving = 0
        had_to = False
        for process, thread in _threads(os.getpid()):
            now = _cpus_of(thread)
            if now is None:
                continue
            is_ours = thread in followers or now == target or now in self._ours
            if is_ours and thread not in self._own:
                following += 1
                # In the first pass even those that are right: the kernel may remember that they asked for others.
                if is_first or now != target:
                    _ask(thread, wanted)
                    after = _cpus_of(thread)
                    had_to = had_to or (after is not None and after != now)
                    now = after or now
            else:
                own += 1
            if not now.isdisjoint(leaving) and _is_alive(process, thread):
                on_leaving += 1
        return Moved(following, own, on_leaving, is_complete=False), had_to


def mine() -> CPUSet:
    """Return the CPUs that our own thread may use."""
    return CPUSet(os.sched_getaffinity(0))


def _ask(thread: int, cpus: CPUSet) -> None:
    """Ignore a thread that is gone, not ours to move, or would have no CPU in its cpuset (4)."""
    with contextlib.suppress(OSError):
        os.sched_setaffinity(thread, cpus)


def _cpus_of(thread: int) -> CPUSet | None:
    try:
        return CPUSet(os.sched_getaffinity(thread))
    except OSError:
        return None


def _threads(root: int) -> Iterator[tuple[int, int]]:
    """Process and thread of each thread of all descendants of a process. Orphans are adopted by it
    (PR_SET_CHILD_SUBREAPER), so that none is lost."""
    children: dict[int, list[int]] = {}
    for name in os.listdir(_PROCESSES):
        if name.isdigit() and (parent := _parent(name)) is not None:
            children.setdefault(parent, []).append(int(name))
    waiting = list(children.get(root, ()))
    while waiting:
        process = waiting.pop()
        waiting += children.get(process, ())
        try:
            threads = os.listdir(f"{_PROCESSES}/{process}/task")
        except OSError:
            continue
        for thread in threads:
            yield process, int(thread)


def _parent(process: str) -> int | None:
    fields = _stat(f"{_PROCESSES}/{process}/stat")
    return int(fields[1]) if len(fields) > 1 else None


def _born(process: int, thread: int) -> bytes:
    """Return its start time (proc_pid_stat(5)), as thread IDs are reused. Empty if it is gone."""
    fields = _stat(f"{_PROCESSES}/{process}/task/{thread}/stat")
    return fields[19] if len(fields) > 19 else b""


def _is_alive(process: int, thread: int) -> bool:
    """Return a zombie runs nowhere, whatever CPUs it had."""
    fields = _stat(f"{_PROCESSES}/{process}/task/{thread}/stat")
    return bool(fields) and fields[0] not in (b"Z", b"X")


def _stat(path: str) -> list[bytes]:
    """Return the fields from the third on. The second one, the name, is in brackets and may hold anything."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        # Unbuffered: this is done for each process of the machine, several times a change. It fits (proc_pid_stat(5)).
        return os.read(opened, 4096).rpartition(b")")[2].split()
    except OSError:
        # ESRCH: it ended in between.
        return []
    finally:
        os.close(opened)
