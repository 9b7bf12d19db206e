"""System calls of the watcher, made without giving up the interpreter's lock: inotify(7), and short files by directory.

`os.open`, `os.write` and `os.close` release the lock around each call, and with a busy interpreter each of them waits
up to a switch interval to get it back: five calls for one birth, five waits. `ctypes.PyDLL` keeps it. So a birth costs
one wait, for the poll that ends with it. The calls here are on cgroup files, inotify and descriptors, which answer in
microseconds; nothing else may be called in this way.

`state.inotify` (pyinotify) is for workloads' files: it makes an object for each event, keeps a path for each watch, and
releases the lock on the way.
"""

from __future__ import annotations

import ctypes
import enum
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from sidecar.hand.group_names import ParentKind
from sidecar.hand.urgency import Urgency

_LIBC: Final = ctypes.PyDLL(None, use_errno=True)
_GETDENTS: Final = getattr(_LIBC, "getdents64", None) or _LIBC.getdents
"""The second is its name in musl."""

IN_MODIFY: Final = 0x00000002
IN_MOVED_FROM: Final = 0x00000040
IN_MOVED_TO: Final = 0x00000080
IN_CREATE: Final = 0x00000100
IN_DELETE: Final = 0x00000200
COMES: Final = IN_CREATE | IN_MOVED_TO
GOES: Final = IN_DELETE | IN_MOVED_FROM
RENAMED: Final = IN_MOVED_FROM | IN_MOVED_TO
IN_DELETE_SELF: Final = 0x00000400
IN_UNMOUNT: Final = 0x00002000
IN_Q_OVERFLOW: Final = 0x00004000
IN_IGNORED: Final = 0x00008000
IN_ONLYDIR: Final = 0x01000000
IN_ISDIR: Final = 0x40000000

_EVENT: Final = struct.Struct("iIII")
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_NOFOLLOW | os.O_CLOEXEC
_EVENTS_BYTES: Final = 64 * 1024
"""Read at a time: some thousand events."""

_ENTRY: Final = struct.Struct("QqHB")
_IS_DIRECTORY: Final = 4
"""Of an entry of a directory, as getdents64(2) has them."""

_START_BYTES: Final = 80
_LINE_BYTES: Final = 4096
"""Read at a time: more than most CPU lists, of which the longest has 40 KiB."""


class InotifyEvent(NamedTuple):
    """One event: the watch, what happened (IN_*), and the name in a watched directory. For a watched file it is b"", or
    the line of a foreign write that was answered already. `cookie` is the watch of a newborn (IN_CREATE) that was
    answered already, or how many microseconds a foreign write (IN_MODIFY) stood that was.
    """

    watch: int
    mask: int
    name: bytes
    cookie: int = 0


class Placing(NamedTuple):
    """A line to be written into the cpuset of a group, which is watched, by its name below an open parent."""

    watch: int
    parent: int
    name: bytes
    line: bytes


class Placed(enum.Enum):
    """What became of such a line."""

    EXACTLY = enum.auto()
    """It was written, and the group has these CPUs effectively."""
    SOMEHOW = enum.auto()
    """It was written. What the group has effectively is not known, or something else."""
    NOT = enum.auto()
    """It was not written, for whatever reason: it is left to the caller."""


class Queue:
    """One inotify instance. `fd` is readable when there are events."""

    is_passive = True
    """Whether all events are left to the reader."""
    urgency: Urgency | None = None
    """The priority of the thread that answers by itself; None without one."""

    def __init__(self) -> None:
        """Raise OSError if the kernel provides no instance: fs.inotify.max_user_instances."""
        self.fd: int = _checked(_LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._buffer = ctypes.create_string_buffer(_EVENTS_BYTES)

    def start(self) -> None:
        """Begin."""

    def watch(self, path: bytes, mask: int) -> int:
        """Return the number of the watch; the same inode has the same. Raise OSError, ENOSPC if there are no more."""
        return add_watch(self.fd, path, mask)

    def leave(self, watch: int) -> None:
        """Remove a watch; no error if it is gone. IN_IGNORED follows."""
        remove_watch(self.fd, watch)

    def drain(self) -> None:
        """Have all pending events ready for `events`."""

    def events(self) -> Iterator[InotifyEvent]:
        """Yield the pending events of one read."""
        length = read_now(self.fd, self._buffer, _EVENTS_BYTES)
        yield from parsed_events(ctypes.string_at(self._buffer, max(0, length)))

    # What a queue may be told that answers by itself.

    def know_parent(self, watch: int, fd: int, kind: ParentKind, place: int) -> None:
        """Answer births below this parent, which is at this place."""

    def forget_parent(self, watch: int) -> None:
        """Answer no births there any more; its descriptor may be closed then."""

    def answer(self, others: bytes, own: Mapping[str, tuple[int, bytes]]) -> None:
        """Answer births with these lines; b"" writes nothing. Each own one counts at one place, below 0 at any."""

    def expect(self, watch: int, parent: int, name: bytes, line: bytes | None) -> None:
        """Keep a group at this line; None: leave it to the reader."""

    def place(self, groups: Sequence[Placing], effective: bytes) -> list[Placed]:
        """Write lines into groups, as many as there are in one call, and keep them there as `expect` does. `effective`
        is the name of the file with what a group has effectively. What could not be written may be expected as well.
        """
        del effective
        return [Placed.NOT] * len(groups)

    def halt(self) -> None:
        """Answer nothing any more."""

    def close(self) -> None:
        """Close the descriptor. May be called twice."""
        if self.fd >= 0:
            _LIBC.close(self.fd)
            self.fd = -1


def add_watch(queue: int, path: bytes, mask: int) -> int:
    """Return the number of a watch on an inotify instance. Raise OSError."""
    return _checked(_LIBC.inotify_add_watch(queue, path, mask))


def remove_watch(queue: int, watch: int) -> None:
    """Remove a watch; no error if it is gone."""
    _LIBC.inotify_rm_watch(queue, watch)


def parsed_events(read: bytes) -> Iterator[InotifyEvent]:
    """Yield the events in what was read."""
    at = 0
    while at < len(read):
        watch, mask, cookie, size = _EVENT.unpack_from(read, at)
        at += _EVENT.size
        yield InotifyEvent(watch, mask, read[at : at + size].rstrip(b"\0"), cookie)
        at += size


def read_now(fd: int, into: ctypes.Array[ctypes.c_char], size: int) -> int:
    """Read from a descriptor that does not block. Return the bytes read, negative if there are none."""
    return int(_LIBC.read(fd, into, size))


def open_directory(above: int, name: bytes) -> int:
    """Return a descriptor of a directory by its name in an open one; a link is refused. Raise OSError."""
    return _checked(_LIBC.openat(above, name, _DIRECTORY))


def directories(above: int, path: bytes) -> list[tuple[bytes, int]]:
    """Return the directories in the one at this path below an open one, by name and inode. Raise OSError.

    The filesystem must tell the types of its entries, as that of cgroups does.
    """
    fd = _checked(_LIBC.openat(above, path, _LISTED))
    found, buffer = [], ctypes.create_string_buffer(_EVENTS_BYTES)
    try:
        while length := _checked(_GETDENTS(fd, buffer, _EVENTS_BYTES)):
            at, read = 0, buffer.raw[:length]
            while at < length:
                inode, _, size, kind = _ENTRY.unpack_from(read, at)
                name = read[at + _ENTRY.size : at + size].partition(b"\0")[0]
                if kind == _IS_DIRECTORY and name not in (b".", b".."):
                    found.append((name, inode))
                at += size
    finally:
        _LIBC.close(fd)
    return found


def read_line(directory: int, name: bytes) -> bytes:
    """Return the first line of a file in an open directory. Raise OSError."""
    fd = _checked(_LIBC.openat(directory, name, os.O_RDONLY | _FILE))
    found, buffer = b"", ctypes.create_string_buffer(_LINE_BYTES)
    try:
        while b"\n" not in found and (length := _checked(_LIBC.read(fd, buffer, _LINE_BYTES))):
            found += buffer.raw[:length]
    finally:
        _LIBC.close(fd)
    return found.partition(b"\n")[0]


def read_start(fd: int) -> bytes:
    """Return what an open file of some bytes begins with now; b"" if it cannot be read."""
    buffer = ctypes.create_string_buffer(_START_BYTES)
    length = _LIBC.pread(fd, buffer, _START_BYTES, ctypes.c_long(0))
    return buffer.raw[: max(0, length)]


def write_line(directory: int, name: bytes, line: bytes) -> None:
    """Write a line into an existing file in an open directory, with one call. Raise OSError."""
    fd = _checked(_LIBC.openat(directory, name, os.O_WRONLY | _FILE))
    try:
        _checked(_LIBC.write(fd, line + b"\n", len(line) + 1))
    finally:
        _LIBC.close(fd)


def may_open(directory: int, name: bytes) -> bool:
    """Return whether a file in an open directory may be read and written. Raise OSError if it is not there."""
    try:
        fd = _checked(_LIBC.openat(directory, name, os.O_RDWR | _FILE))
    except PermissionError:
        return False
    _LIBC.close(fd)
    return True


def close(fd: int) -> None:
    """Close a descriptor."""
    _LIBC.close(fd)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
