"""ProjectionWatch: a workload learns which CPUs it has, and hears of each change, in plain Python, trio or asyncio.

    for projection in ProjectionWatch().changes():
        os.sched_setaffinity(0, projection.cpus)

The rules:

1. Level-triggered. An event is only a hint to look; what counts is what the files say now. So events that are lost,
   merged or made up do no harm, and a slow reader gets the newest and not every one.
2. Arm first, read second: what changes after the arming makes a new event, what changed before it is read.
3. Equal states are told once. The first state is told at once, if there is one.
4. The directory is watched, never the files: a watch on a file dies with its first replacement (inotify(7)).
5. While the directory is not there, the nearest one above it that is there is watched.
6. Besides, look every `poll_seconds`: some file systems drop events (gVisor, Kata, shares of desktop virtual machines),
   and a rename further up the path makes none here.
7. A projection that names no CPUs is one that says that nothing can be said just now: wait for the next one.
8. Whoever is woken looks first and drains the events later, for they cost more than the look. What is drained may hide
   a change after that look, so every draining is followed by a look of its own before the next pause.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from types import TracebackType
from typing import Final, Self

import anyio
import anyio.lowlevel

from state import projection as projections
from state.errors import ProjectionError, ProjectionMissing
from state.inotify import Deaf, Ear, Inotify, nearest_directory
from state.projection import Projection

ROOT: Final = "/run/cpuset-sidecar"
"""Where the volume is mounted by custom."""

POLL_SECONDS: Final = 10.0

SHORT_POLL_SECONDS: Final = 1.0
"""How often to look where nothing can be heard, or where there is nothing yet. The latter because a directory that is
removed while somebody holds it open makes no event until it is let go, so that its successor could be missed."""


def default_directory(environment: Mapping[str, str], root: str = ROOT) -> str:
    """`$CPUSET_SIDECAR_DIR`, or else the container's own directory by id, for which its host name must be its id.

    Where its own directory is mounted in the place of all of them, as after a strict start, that is it.
    """
    if named := environment.get("CPUSET_SIDECAR_DIR"):
        return named
    if os.path.lexists(os.path.join(root, projections.STATUS)):
        return root
    return os.path.join(root, "by-id", (environment.get("HOSTNAME") or os.uname().nodename)[:12])


class ProjectionWatch:
    """Waits for the projection in one directory to change. For one task or thread; close it, or use it in `with`."""

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        poll_seconds: float = POLL_SECONDS,
        ear: Callable[[], Ear] = Inotify,
    ) -> None:
        """`directory` need not be there yet. Where there is no inotify, it looks every second instead."""
        self.directory: Final = os.path.abspath(default_directory(os.environ) if directory is None else directory)
        self.trouble: ProjectionError | None = None
        """Why there was nothing to tell when it last looked; None if there was."""
        self._poll_seconds = poll_seconds
        self._last: Projection | None = None
        self._is_armed = False
        self._is_drained = True
        self._hears = True
        self._ear: Ear | None = None
        try:
            self._ear = ear()
        except Deaf:
            self._hears = False

    def wait(self, timeout: float | None = None) -> Projection | None:
        """The next state that was not told yet: at once if there is one, or else when it comes. None after `timeout`
        seconds without one."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            if (found := self._look()) is not None:
                return found
            pause = self._pause()
            if deadline is not None:
                pause = min(pause, deadline - time.monotonic())
                if pause <= 0:
                    return None
            if (found := self._hear(self._wait_readable(pause))) is not None:
                return found

    async def await_change(self) -> Projection:
        """The next state that was not told yet, on trio or asyncio. Cancelling it loses nothing."""
        while True:
            # Before looking, so that a state that was taken is always delivered.
            await anyio.lowlevel.checkpoint()
            if (found := self._look()) is not None:
                return found
            heard = False
            with anyio.move_on_after(self._pause()):
                if self._ear is None:
                    await anyio.sleep_forever()
                else:
                    await anyio.wait_readable(self._ear.fd)
                    heard = True
            if (found := self._hear(heard)) is not None:
                return found

    def changes(self) -> Iterator[Projection]:
        """Every state from now on, beginning with the present one."""
        while True:
            found = self.wait()
            if found is not None:
                yield found

    def achanges(self) -> AsyncIterator[Projection]:
        """Every state from now on, beginning with the present one, on trio or asyncio."""
        return _Changes(self)

    def close(self) -> None:
        """Stop listening and give the descriptor back. May be called twice."""
        if self._ear is not None:
            self._ear.close()
            self._ear = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _look(self) -> Projection | None:
        """Before each pause: what there is to tell, with nothing left undrained."""
        if not self._is_drained and self._ear is not None:
            self._is_drained = True
            if self._ear.drain():
                self._is_armed = False
        return self._read()

    def _hear(self, heard: bool) -> Projection | None:
        """After each pause: rule 8, or where nothing was heard, rule 6: all is looked at anew, the path too."""
        if heard:
            self._is_drained = False
            return self._read()
        self._is_armed = False
        return None

    def _read(self) -> Projection | None:
        """Rules 2 and 3: what the files say, if it was not told yet."""
        if not self._is_armed:
            self._arm()
        try:
            found = projections.read(self.directory)
        except ProjectionError as error:
            self.trouble = error
            return None
        self.trouble = None
        if not found.cpus or found == self._last:
            return None
        self._last = found
        return found

    def _arm(self) -> None:
        """Rules 4 and 5. What appears between choosing a directory and listening to it is seen by choosing again."""
        if self._ear is None:
            return
        chosen = nearest_directory(self.directory)
        while True:
            listens = self._ear.listen(chosen)
            again = nearest_directory(self.directory)
            if again == chosen or not listens:
                break
            chosen = again
        self._hears = listens
        self._is_armed = listens and chosen == self.directory

    def _pause(self) -> float:
        """Rule 6, in seconds."""
        if not self._hears or isinstance(self.trouble, ProjectionMissing):
            return min(self._poll_seconds, SHORT_POLL_SECONDS)
        return self._poll_seconds

    def _wait_readable(self, seconds: float) -> bool:
        if self._ear is None:
            time.sleep(seconds)
            return False
        poll = select.poll()
        poll.register(self._ear.fd, select.POLLIN)
        return bool(poll.poll(max(0.0, seconds) * 1000))


class _Changes:
    """Not an async generator: leaving the loop over one before its end is an offence in trio."""

    def __init__(self, watch: ProjectionWatch) -> None:
        self._watch = watch

    def __aiter__(self) -> AsyncIterator[Projection]:
        return self

    async def __anext__(self) -> Projection:
        return await self._watch.await_change()
