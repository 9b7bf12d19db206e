"""Every burst of facts as one line of JSON, in files of bounded size: enough to replay the decisions.

A burst is decided on together, and a replay must do the same: each line is an array of facts.

Two files: `journal.jsonl`, and `journal.previous.jsonl`, which it becomes when it has grown to its limit. Every file
starts with a line `{"version":2,"world":...}`: the World before the facts that follow. Such a line also follows a
restart of the daemon, and facts that could not be written; a replay starts over at each.

A World is all that decisions know, so it changes with the program, and is not carried over from version to version: a
journal is replayed by the release that wrote it. A file of another version is not appended to.

The journal is for people and for replay, the checkpoint is what must survive: lines are given to the kernel at once
(they survive the daemon), but not synced. A file or directory deleted in the meantime is created again.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Final, Self

import msgspec

from sidecar.decide.facts import Fact
from sidecar.failures import StateUnwritable
from state import codec, files
from state.errors import StateError

NAME: Final = "journal.jsonl"
PREVIOUS: Final = "journal.previous.jsonl"

LIMIT: Final = 8 * 1024 * 1024
"""Bytes of one file; there are two. A fact is about a KiB, so this is some thousands of them."""

VERSION: Final = 4
"""Of the World, the facts, and the rules by which a World follows. Version 1 had no number."""

_WORLD: Final = b'{"version":%d,"world":' % VERSION
_ANY_WORLD: Final = re.compile(rb'\{(?:"version":(\d{1,9}),)?"world":')
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
# A line holds labels, names and mounts of containers, which are private.
_MODE: Final = 0o600
# Bytes read at a time while looking backwards for the end of the last whole line.
_STEP: Final = 64 * 1024


class WorldLine(msgspec.Struct, frozen=True):
    """The World at this point of the journal, as its JSON."""

    world: msgspec.Raw


def world_line(world: bytes) -> bytes:
    """Return the line at which a replay begins, from the World as JSON."""
    return _WORLD + world + b"}\n"


class Journal:
    """Appends facts in one directory. One writer at a time. A StateUnwritable never damages earlier lines."""

    def __init__(self, directory: str | os.PathLike[str], limit_bytes: int = LIMIT) -> None:
        """Open the directory, creating it if needed, and cut off an incomplete last line."""
        self._path = os.fspath(directory)
        self._limit = limit_bytes
        self._snapshot: Callable[[], bytes] | None = None
        self._file = -1
        self._size = 0
        # Bytes up to which the present file holds nothing but its world: rotating that away would gain nothing.
        self._opening = 0
        self._is_foreign = False
        """Whether the current file was begun by a release that writes another version."""
        self._needs_world = True
        try:
            self._directory = files.open_directory(self._path, create=True, mode=0o700)
        except StateError as error:
            raise StateUnwritable(f"cannot keep the journal: {error}") from error

    def start_with(self, snapshot: Callable[[], bytes]) -> None:
        """Set the source of the World as JSON: as it is *before* the facts that are being appended."""
        self._snapshot = snapshot

    def append(self, facts: Sequence[Fact]) -> None:
        """Write a burst of facts as one line. Raise StateUnwritable if that fails.

        The facts are then missing from the journal, which continues with the World at the next successful call.
        """
        if not facts:
            return
        try:
            self._write(codec.encode(facts) + b"\n")
        except OSError as error:
            self._needs_world = True
            raise StateUnwritable(f"cannot write the journal: {files.reason(error)}") from error
        except StateError as error:
            self._needs_world = True
            raise StateUnwritable(f"cannot write the journal: {error}") from error
        except BaseException:
            self._needs_world = True
            raise

    def close(self) -> None:
        """Close the files. May be called twice."""
        self._close_file()
        if self._directory >= 0:
            os.close(self._directory)
            self._directory = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _write(self, lines: bytes) -> None:
        if self._file >= 0 and not os.fstat(self._file).st_nlink:
            self._close_file()
        if self._file < 0:
            self._open_or_make()
        opening = self._world() if self._needs_world else b""
        is_full = self._size > self._opening and self._size + len(opening) + len(lines) > self._limit
        if is_full or self._is_foreign:
            self._close_file()
            os.rename(NAME, PREVIOUS, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            self._open()
            opening = self._world()
        self._add(opening + lines)
        if opening:
            self._needs_world = False
            if self._size == len(opening) + len(lines):
                self._opening = len(opening)

    def _world(self) -> bytes:
        if self._snapshot is None:
            raise StateUnwritable("the journal does not begin with a World")
        return world_line(self._snapshot())

    def _open_or_make(self) -> None:
        try:
            if self._directory >= 0:
                self._open()
        except FileNotFoundError:
            # The directory was deleted in the meantime, and the earlier facts with it.
            os.close(self._directory)
            self._directory = -1
        if self._directory < 0:
            self._directory = files.open_directory(self._path, create=True, mode=0o700)
            self._open()
        if not self._size:
            self._needs_world = True

    def _open(self) -> None:
        opened = os.open(NAME, _FLAGS, _MODE, dir_fd=self._directory)
        try:
            size = os.fstat(opened).st_size
            whole = _end_of_last_line(opened, size)
            if whole < size:
                os.ftruncate(opened, whole)
            self._is_foreign = whole > 0 and os.pread(opened, len(_WORLD), 0) != _WORLD
        except OSError:
            os.close(opened)
            raise
        self._file, self._size, self._opening = opened, whole, 0

    def _add(self, content: bytes) -> None:
        """Append all of it, or none: a full disk accepts the first part and refuses the rest."""
        rest = memoryview(content)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            # The next call opens it again, and cuts off what could not be cut off now.
            self._close_file()
            raise
        self._size += len(content)

    def _close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def read_journal(path: str | os.PathLike[str]) -> Iterator[WorldLine | tuple[Fact, ...]]:
    """Yield the content of a journal file, in order. A last line that was cut off is left out.

    Raise StateError, naming the line, for a journal of another version, and for anything else that is not a fact or a
    world; OSError if it cannot be opened.
    """
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            where = f"{os.fspath(path)}, line {number}"
            if (found := _ANY_WORLD.match(line)) and (version := int(found[1] or 1)) != VERSION:
                raise StateError(
                    f"{where}: the journal has version {version}, but this release reads version {VERSION}: replay it "
                    "with the release that wrote it"
                )
            try:
                if found:
                    yield msgspec.json.decode(line, type=WorldLine)
                else:
                    yield codec.decode(line, tuple[Fact, ...])
            except codec.UNREADABLE as error:
                raise StateError(f"{where}: not a fact: {codec.flaw(error)}") from error


def _end_of_last_line(opened: int, size: int) -> int:
    """Return the offset behind the last line feed; 0 if there is none."""
    end = size
    while end > 0:
        start = max(0, end - _STEP)
        found = os.pread(opened, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
