"""The queue of events with `reflex.c` in front of it, which answers births and foreign writes by itself.

With a busy interpreter on a loaded host an event waits some ten milliseconds for the lock (docs/performance.md).
`reflex.c` needs no interpreter. It is compiled when the package is installed, if there is a compiler; without it, the
watcher does the same, later.

Everything passes here once more (`events`): the watcher finds that what it would write is there.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from sidecar.hand.group_names import ParentKind, pattern_of
from sidecar.hand.libc_calls import (
    InotifyEvent,
    Placed,
    Placing,
    Queue,
    add_watch,
    parsed_events,
    read_now,
    remove_watch,
)
from sidecar.hand.urgency import hurry

_BUFFER_BYTES: Final = 64 * 1024
_ID_LENGTH: Final = 64

_MOST_READS: Final = 1000
"""Of 4 KiB each, in one call: more than the kernel keeps."""

_KINDS: Final = {kind: number for number, kind in enumerate(ParentKind) if kind is not ParentKind.SCOPE}


_OF: Final = struct.Struct("ii")
_PLACED: Final = {0: Placed.EXACTLY, -2: Placed.SOMEHOW}

INTERFACE: Final = 4
"""What `reflex_interface` of a fitting library returns."""


class Library(NamedTuple):
    """The path of the compiled `reflex.c`, None without one that fits. `is_there`: one is installed, perhaps of another
    version of the package, for another machine, or not readable.
    """

    path: str | None
    is_there: bool


def find_library(folder: str | Path = Path(__file__).parent) -> Library:
    """Return the compiled `reflex.c` of this version of the package.

    Its name has the Python for which the package was installed, but it uses nothing of it: any build will do.
    """
    try:
        names = sorted(name for name in os.listdir(folder) if name.startswith("reflex") and name.endswith(".so"))
    except OSError:
        return Library(None, is_there=True)
    for name in names:
        # Missing symbols are an AttributeError.
        with suppress(OSError, AttributeError):
            if ctypes.CDLL(path := f"{folder}/{name}").reflex_interface() == INTERFACE:
                return Library(path, is_there=True)
    return Library(None, is_there=bool(names))


def open_queue(library: str | None) -> Queue:
    """Return a queue with the reflex at this path, or without it if there is none, or none for this machine.

    Raise OSError if the kernel provides no inotify instance.
    """
    if library:
        with suppress(OSError):
            return ReflexQueue(library)
    return Queue()


class ReflexQueue(Queue):
    """A Queue whose events come from the reflex. `fd` is readable when there are some."""

    is_passive = False

    def __init__(self, library: str) -> None:
        """Raise OSError if the library cannot be loaded, or the kernel provides no inotify instance."""
        # One that keeps the interpreter's lock, for calls of microseconds, and one for the thread.
        self._calls = ctypes.PyDLL(library)
        self._calls.reflex_new.restype = ctypes.c_void_p
        self._calls.reflex_fetch.restype = ctypes.c_long
        super().__init__()
        self._events = self.fd
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        self._reflex = ctypes.c_void_p(self._calls.reflex_new(self._events, self.fd))
        for kind, number in _KINDS.items():
            self._calls.reflex_names(self._reflex, number, pattern_of(kind))
        self._fetched = ctypes.create_string_buffer(_BUFFER_BYTES)
        self._runs = ctypes.CDLL(library).reflex_run
        self._thread = threading.Thread(target=self._run, name="reflex", daemon=True)
        self._began = threading.Event()

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()
        self._began.wait()

    def watch(self, path: bytes, mask: int) -> int:
        """Return the number of the watch."""
        return add_watch(self._events, path, mask)

    def leave(self, watch: int) -> None:
        """Remove a watch, and what is expected there."""
        self._calls.reflex_expect(self._reflex, watch, -1, b"", None)
        remove_watch(self._events, watch)

    def drain(self) -> None:
        """Have all pending events answered now, so that `events` yields them."""
        for _ in range(_MOST_READS):
            if not self._calls.reflex_take(self._reflex):
                return

    def events(self) -> Iterator[InotifyEvent]:
        """Yield the events that the reflex has passed on, as many as one buffer holds."""
        read_now(self.fd, self._fetched, 8)
        length = self._calls.reflex_fetch(self._reflex, self._fetched, ctypes.c_size_t(_BUFFER_BYTES))
        yield from parsed_events(ctypes.string_at(self._fetched, length))

    def know_parent(self, watch: int, fd: int, kind: ParentKind, place: int) -> None:
        """Answer births below this parent, which is at this place."""
        if kind in _KINDS:
            self._calls.reflex_parent(self._reflex, watch, fd, _KINDS[kind], place)

    def forget_parent(self, watch: int) -> None:
        """Answer no births there any more; its descriptor may be closed then."""
        self._calls.reflex_parent(self._reflex, watch, -1, 0, 0)

    def answer(self, others: bytes, own: Mapping[str, tuple[int, bytes]]) -> None:
        """Answer births with these lines; b"" writes nothing. Each own one counts at one place, below 0 at any."""
        entries = [b"%s%d %s" % (id.encode(), *each) for id, each in sorted(own.items()) if len(id) == _ID_LENGTH]
        blob = b"".join(entry + b"\0" for entry in entries)
        sizes = ctypes.c_size_t(len(blob)), ctypes.c_size_t(len(entries))
        self._calls.reflex_answers(self._reflex, others, blob, *sizes)

    def expect(self, watch: int, parent: int, name: bytes, line: bytes | None) -> None:
        """Keep a group at this line; None: leave it to the watcher."""
        self._calls.reflex_expect(self._reflex, watch, parent, name, line)

    def place(self, groups: Sequence[Placing], effective: bytes) -> list[Placed]:
        """Write lines into groups, and keep them there."""
        done = (ctypes.c_int * len(groups))()
        entries = b"".join(_OF.pack(each.watch, each.parent) + each.name + b"\0" + each.line + b"\0" for each in groups)
        self._calls.reflex_place(self._reflex, entries, ctypes.c_size_t(len(groups)), effective, done)
        return [_PLACED.get(each, Placed.NOT) for each in done]

    def halt(self) -> None:
        """End the thread: answer nothing any more."""
        os.eventfd_write(self._stop, 1)
        if self._thread.is_alive():
            self._thread.join()

    def close(self) -> None:
        """End the thread, and close all descriptors. May be called twice."""
        if self._stop < 0:
            return
        self.halt()
        self._calls.reflex_free(self._reflex)
        for fd in (self._stop, self._events):
            os.close(fd)
        self._stop = -1
        super().close()

    def _run(self) -> None:
        self.urgency = hurry()
        self._began.set()
        self._runs(self._reflex, self._stop)
