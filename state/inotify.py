"""Detecting that a directory changed: `Ear` for one, implemented by pyinotify; `Ears` for many; `FileEars` for files.

pyinotify is unmaintained, so it stays behind this seam, and is driven by its descriptor, without its threads. Its
relevant behaviour (0.9.6), each with a test:

- its descriptor is blocking and inherited by child processes: both are corrected here;
- importing it needs asyncore, which is the package pyasyncore from Python 3.12 on, and deprecated before; importing it
 also installs a log handler that writes to stderr, and logs unexpected kernel events: both are silenced;
- a file name that is not UTF-8 raises in the middle of a batch and drops the rest of it: counted as events lost;
- reading when there is nothing to read is an error: it is polled first;
- adding a watch fails by returning a negative number;
- IN_Q_OVERFLOW (the kernel dropped events) and IN_IGNORED (the watch is gone) are like any other event: handled here.
"""

from __future__ import annotations

import abc
import fcntl
import logging
import os
import sys
import warnings
from typing import Any, Final, Protocol

from state.errors import StateError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    _was_there = "pyinotify" in sys.modules
    import pyinotify

if not _was_there:
    # A module that imported it earlier may want its log lines.
    for _handler in list(pyinotify.log.handlers):
        pyinotify.log.removeHandler(_handler)
    pyinotify.log.setLevel(logging.CRITICAL + 1)

_CHANGES: Final = (
    pyinotify.IN_CLOSE_WRITE  # for files that are written in place
    | pyinotify.IN_CREATE
    | pyinotify.IN_MOVED_TO
    | pyinotify.IN_MOVED_FROM
    | pyinotify.IN_DELETE
    | pyinotify.IN_ATTRIB  # a directory that may now be entered
    | pyinotify.IN_DELETE_SELF
    | pyinotify.IN_MOVE_SELF
)
_LOST: Final = (
    pyinotify.IN_Q_OVERFLOW
    | pyinotify.IN_IGNORED
    | pyinotify.IN_DELETE_SELF
    | pyinotify.IN_MOVE_SELF
    | pyinotify.IN_UNMOUNT
)


class Ear(Protocol):
    """Detects that something changed in the one directory that it listens to; the caller looks up what."""

    @property
    def fd(self) -> int:
        """Readable when there is something to drain."""

    def listen(self, directory: str) -> bool:
        """Listen to this directory and to no other; may be called repeatedly. Return False if that is not possible."""

    def drain(self) -> bool:
        """Discard pending events. Return True if it may now listen to the wrong directory or to none: listen again."""

    def close(self) -> None:
        """Close the descriptor."""


class Deaf(StateError):
    """The kernel provides no (more) inotify instances, or there is no inotify here at all."""


class _Instance(abc.ABC):
    """One inotify instance, driven by its descriptor."""

    _mask: int = _CHANGES | pyinotify.IN_ONLYDIR

    def __init__(self) -> None:
        """Raise Deaf if the kernel provides no instance: fs.inotify.max_user_instances."""
        try:
            self._watches = pyinotify.WatchManager()
        except (OSError, pyinotify.PyinotifyError) as error:
            raise Deaf(f"inotify is not available: {error}") from error
        self._fd: int = self._watches.get_fd()
        fcntl.fcntl(self._fd, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
        os.set_blocking(self._fd, False)
        self._notifier = pyinotify.Notifier(self._watches, default_proc_fun=self._hear)
        self._is_lost = False

    @property
    def fd(self) -> int:
        """Readable when there is something to drain."""
        return self._fd

    def close(self) -> None:
        """Close the descriptor. May be called twice."""
        if self._fd >= 0:
            self._fd = -1
            self._watches.close()

    def _add(self, path: str) -> int:
        """Return the number of the watch, negative if that is not possible. An existing watch stays as it is."""
        try:
            return int(self._watches.add_watch(path, self._mask).get(path, -1))
        except UnicodeEncodeError:
            return -1

    def _read(self) -> bool:
        """Read the pending events. Return True if some were lost."""
        try:
            # Once: a flood of events must not keep this call busy. Unread events keep the descriptor readable.
            if self._notifier.check_events(timeout=0):
                self._notifier.read_events()
        except (UnicodeDecodeError, pyinotify.NotifierError):
            self._is_lost = True
        self._notifier.process_events()
        lost, self._is_lost = self._is_lost, False
        return lost

    @abc.abstractmethod
    def _hear(self, event: Any) -> None:
        """Take one event that was read."""


class Inotify(_Instance):
    """An Ear by inotify(7)."""

    def __init__(self) -> None:
        super().__init__()
        self._watch = -1

    def listen(self, directory: str) -> bool:
        """Listen to this directory only. An existing watch costs one system call and stays as it is."""
        watch = self._add(directory)
        if self._watch not in (-1, watch):
            self._watches.rm_watch(self._watch)
        self._watch = watch
        return watch >= 0

    def drain(self) -> bool:
        """Discard pending events. Return True if it may now listen to the wrong directory or to none: listen again."""
        return self._read()

    def _hear(self, event: Any) -> None:
        if event.mask & _LOST:
            self._is_lost = True


class Ears(_Instance):
    """Detects in which of many directories something changed."""

    def __init__(self) -> None:
        super().__init__()
        self._heard: set[int] = set()

    def listen(self, directory: str) -> int | None:
        """Listen to this directory too. Return the number that identifies it, or None if that is not possible.

        The same directory keeps its number. A path such as `/proc/self/fd/7` is the directory that is open as 7.
        """
        watch = self._add(directory)
        return watch if watch >= 0 else None

    def leave(self, number: int) -> None:
        """Stop listening to this one; no error if it is gone."""
        self._watches.rm_watch(number)

    def drain(self) -> frozenset[int] | None:
        """Return the numbers of the directories that changed since the last call; None if any may have changed."""
        lost = self._read()
        heard, self._heard = frozenset(self._heard), set()
        return None if lost else heard

    def _hear(self, event: Any) -> None:
        if event.mask & pyinotify.IN_Q_OVERFLOW:
            self._is_lost = True
        else:
            self._heard.add(int(event.wd))


class FileEars(Ears):
    """Detects which of many files were written, or are gone."""

    _mask: int = pyinotify.IN_MODIFY


def nearest_directory(path: str) -> str:
    """Return the directory itself, or its nearest ancestor that exists."""
    while True:
        above = os.path.dirname(path)
        if above == path or os.path.isdir(path):
            return path
        path = above
