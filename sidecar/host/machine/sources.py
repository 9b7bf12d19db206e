"""Where a machine's files are read from: a sysfs below some root, or a record of one. Every path is below the root.

Both answer the same few questions, so that one reading (sysfs.py) serves both, and a recorded machine is read exactly
as it would be read in place. Nothing here raises for the contents of a tree: a file that is missing, unreadable, a loop
of links, or not one line of printable text counts as missing. A file that is there, and is no such line, is noted.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Protocol, Self

_CPUS: Final = "devices/system/cpu/"

_PAGE: Final = 4096
"""Bytes: the most that nearly all files of sysfs have, so one read is nearly always enough."""

_MAX_VALUE: Final = 64 * 1024
"""Bytes of one value. All of 8192 CPUs written one by one, with commas, need 40 KiB."""

_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""Without O_NONBLOCK, opening a named pipe in a tree would block."""


class Files(Protocol):
    """The files of one machine. `passed_over` are those that were read and count as missing, each with the reason."""

    @property
    def passed_over(self) -> Mapping[str, str]:
        """The files that were read so far, and are not one line of printable text."""
        ...

    def value(self, path: str) -> str | None:
        """Return the stripped text of a file; None if there is none that is one line of printable ASCII."""
        ...

    def children(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; none if there is no such directory."""
        ...

    def target(self, path: str) -> str | None:
        """Return the text of a symbolic link below the root; None if it is not such a link."""
        ...


class Live:
    """The files below a directory. A context, since it holds the directory open: paths are walked from there."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._fd = self._cpus = -1
        self.passed_over: dict[str, str] = {}

    def __enter__(self) -> Self:
        # Without the directory, every file counts as missing.
        with contextlib.suppress(OSError, ValueError):
            self._fd = os.open(self._root, _READ | os.O_DIRECTORY)
            self._cpus = os.open(_CPUS, _READ | os.O_DIRECTORY, dir_fd=self._fd)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for fd in (self._fd, self._cpus):
            if fd >= 0:
                os.close(fd)
        self._fd = self._cpus = -1

    def value(self, path: str) -> str | None:
        """Return a file's text, as `Files` defines it."""
        if self._fd < 0:
            return None
        # Plain descriptors: a large machine has ten thousand files, and a file object costs as much as the read.
        try:
            # Nearly all files are the CPUs': the way to them is walked once.
            if path.startswith(_CPUS):
                fd = os.open(path[len(_CPUS) :], _READ, dir_fd=self._cpus)
            else:
                fd = os.open(path, _READ, dir_fd=self._fd)
        except OSError:
            return None
        try:
            found = os.read(fd, _PAGE)
            while len(found) >= _PAGE and len(found) <= _MAX_VALUE and (more := os.read(fd, _MAX_VALUE)):
                found += more
        except OSError:
            return None
        finally:
            os.close(fd)
        return _line(path, found, self.passed_over)

    def children(self, directory: str) -> list[str]:
        """Return a directory's names, as `Files` defines them."""
        if self._fd < 0:
            return []
        try:
            fd = os.open(directory, _READ | os.O_DIRECTORY, dir_fd=self._fd)
        except OSError:
            return []
        try:
            return sorted(os.listdir(fd))
        except OSError:
            return []
        finally:
            os.close(fd)

    def target(self, path: str) -> str | None:
        """Return a link's target, as `Files` defines it."""
        if self._fd < 0:
            return None
        try:
            link = os.readlink(path, dir_fd=self._fd)
        except OSError:
            return None
        # The kernel's links are relative, and lead to plain directories: the text alone determines the target.
        found = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
        return None if found.startswith(("/", "../")) else found


class Recorded:
    """The files of a record: path to value. A path with a final slash is a directory that holds nothing else."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self.passed_over: dict[str, str] = {}
        self._names: dict[str, set[str]] = {}
        for path in values:
            directory = path.rstrip("/")
            while directory:
                directory, _, name = directory.rpartition("/")
                known = self._names.setdefault(directory, set())
                if name in known:
                    break
                known.add(name)

    def value(self, path: str) -> str | None:
        """Return a file's text, as `Files` defines it."""
        found = self._values.get(path)
        return None if found is None else _line(path, found.encode("utf-8", "surrogatepass"), self.passed_over)

    def children(self, directory: str) -> list[str]:
        """Return a directory's names, as `Files` defines them."""
        return sorted(self._names.get(directory, ()))

    def target(self, path: str) -> str | None:  # noqa: ARG002
        """Return None: a record has no links."""
        return None


def numbered(files: Files, directory: str, prefix: str) -> list[int]:
    """Return the ascending numbers in the names of a directory like cpu0, cpu1, ...: decimal, up to five digits."""
    numbers = (name[len(prefix) :] for name in files.children(directory) if name.startswith(prefix))
    return sorted(
        int(text)
        for text in numbers
        if text.isascii() and text.isdigit() and len(text) <= 5 and (text == "0" or text[0] != "0")
    )


def _line(path: str, found: bytes, passed_over: dict[str, str]) -> str | None:
    """Return the text of a file; None, with the reason in `passed_over`, if it is not one line."""
    text = found.decode("ascii", "replace").strip()
    if len(found) > _MAX_VALUE:
        passed_over[path] = f"it has more than {_MAX_VALUE} bytes"
    elif not text.isascii() or not text.isprintable():
        passed_over[path] = "it is not one line of printable text"
    else:
        return text
    return None
