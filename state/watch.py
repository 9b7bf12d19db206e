"""ProjectionWatch: a workload reads its CPUs, and is notified of each change, in plain Python, trio or asyncio.

   for projection in ProjectionWatch().changes():
       os.sched_setaffinity(0, projection.cpus)

The rules:

1. Level-triggered. An event is only a hint to look; only the present content of the files counts. Lost, merged or
   spurious events do no harm, and a slow reader gets the newest state, not every one.
2. Arm first, read second: a change after the arming makes a new event; a change before it is read.
3. Equal states are reported once. The first state is reported at once, if there is one.
4. The directory is watched, never the files: a watch on a file dies with its first replacement (inotify(7)).
5. While the directory is missing, its nearest existing ancestor is watched.
6. In addition, look every `poll_seconds`: some file systems drop events (gVisor, Kata, shares of desktop virtual
   machines), and a rename further up the path makes none here.
7. A projection without CPUs means that nothing can be stated just now: wait for the next one.
8. A lease that runs out makes no event, so a look is due when it would; `vouched` then becomes false, which is another
   state.
9. A woken reader looks first and drains the events later, since draining costs more than the look. Draining may hide a
   change after that look, so every draining is followed by another look before the next pause.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Final, Self

import anyio
import anyio.lowlevel

from state import projection as projections
from state.errors import ProjectionError, ProjectionMissing
from state.inotify import Deaf, Ear, Inotify, nearest_directory
from state.own_directory import default_directory, may_come, never_comes
from state.projection import Reading

POLL_SECONDS: Final = 10.0

SHORT_POLL_SECONDS: Final = 1.0
"""How often to look if there is no inotify, or if there is no projection yet. The latter because the removal of a
directory makes no event while a process holds it open, so its successor could be missed.
"""

_AFTER_SECONDS: Final = 0.01
"""From the end of a lease to the look that finds it over."""


class ProjectionWatch:
    """Waits for the projection in one directory to change. For one task or thread; close it, or use it in `with`."""

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        poll_seconds: float = POLL_SECONDS,
        ear: Callable[[], Ear] = Inotify,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Watch `directory`, which may still be missing. Without inotify, it looks every second instead.

        `clock` gives seconds since 1970, by which leases count. Raise ProjectionMissing if no directory is given, and
        the default one can never appear.
        """
        self.directory: Final = os.path.abspath(default_directory(os.environ) if directory is None else directory)
        if directory is None and not may_come(self.directory):
            raise ProjectionMissing(never_comes(self.directory))
        self.trouble: ProjectionError | None = None
        """Why there was nothing to report at the last look; None if there was something."""
        self._poll_seconds = poll_seconds
        self._clock = clock
        self._lease_left = 0.0
        self._last: Reading | None = None
        self._is_armed = False
        self._is_drained = True
        self._hears = True
        self._ear: Ear | None = None
        try:
            self._ear = ear()
        except Deaf:
            self._hears = False

    def wait(self, timeout: float | None = None) -> Reading | None:
        """Return the next unreported state: at once, or when it comes. None after `timeout` seconds."""
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

    async def await_change(self) -> Reading:
        """Return the next unreported state, on trio or asyncio. Cancelling loses nothing."""
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

    def changes(self) -> Iterator[Reading]:
        """Yield every state from now on, beginning with the present one."""
        while True:
            found = self.wait()
            if found is not None:
                yield found

    def achanges(self) -> AsyncIterator[Reading]:
        """Return an iterator of every state from now on, beginning with the present one, on trio or asyncio."""
        return _Changes(self)

    def close(self) -> None:
        """Stop listening and close the descriptor. May be called twice."""
        if self._ear is not None:
            self._ear.close()
            self._ear = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _look(self) -> Reading | None:
        """Return a state to report, before each pause; nothing is left undrained."""
        if not self._is_drained and self._ear is not None:
            self._is_drained = True
            if self._ear.drain():
                self._is_armed = False
        return self._read()

    def _hear(self, heard: bool) -> Reading | None:
        """Apply rule 9 after a pause with an event, or rule 6 after one without: look at everything again, the path
        included.
        """
        if heard:
            self._is_drained = False
            return self._read()
        self._is_armed = False
        return None

    def _read(self) -> Reading | None:
        """Return the content of the files if it was not reported yet (rules 2 and 3)."""
        if not self._is_armed:
            self._arm()
        try:
            found, self._lease_left = projections.read_with_lease(self.directory, self._clock())
        except ProjectionError as error:
            self.trouble = error
            return None
        self.trouble = None
        if not found.cpus or found == self._last:
            return None
        self._last = found
        return found

    def _arm(self) -> None:
        """Listen (rules 4 and 5). Choosing again detects a directory that appears between choosing and listening."""
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
        """Return the pause of rules 6 and 8, in seconds."""
        if not self._hears or isinstance(self.trouble, ProjectionMissing):
            return min(self._poll_seconds, SHORT_POLL_SECONDS)
        if self._lease_left > 0:
            return min(self._poll_seconds, self._lease_left + _AFTER_SECONDS)
        return self._poll_seconds

    def _wait_readable(self, seconds: float) -> bool:
        if self._ear is None:
            time.sleep(seconds)
            return False
        poll = select.poll()
        poll.register(self._ear.fd, select.POLLIN)
        return bool(poll.poll(max(0.0, seconds) * 1000))


class _Changes:
    """Not an async generator: leaving the loop over one early is an error in trio."""

    def __init__(self, watch: ProjectionWatch) -> None:
        self._watch = watch

    def __aiter__(self) -> AsyncIterator[Reading]:
        return self

    async def __anext__(self) -> Reading:
        return await self._watch.await_change()
