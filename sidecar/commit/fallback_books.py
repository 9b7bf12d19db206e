"""Books that cannot be written where they belong are kept in another place meanwhile, and found there.

What a container had before its first order is nowhere else: an engine forgets it. So where the disk of the state
directory is full or broken, the books go to a spare directory, on another file system if possible, and back as soon as
that is possible. The spare is there only while it is newer.

Whoever can write where the spare is must not write the books: they are sealed with a key that lies in the state
directory, made when that could be written last.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import shutil
from types import TracebackType
from typing import Final, Self

from state import files
from state.checkpoint import LIMIT, NAME, CheckpointFile, Loaded
from state.errors import StateError
from state.model import State

SPARE: Final = ".books"
"""The name of the spare directory below the projections, 0700."""

KEY: Final = "spare.key"
SEAL: Final = "seal"


class SparedCheckpoint:
    """The checkpoint in `directory`, or for as long as that cannot be written in `spare`. One writer at a time."""

    def __init__(self, directory: str, spare: str) -> None:
        """Opens the directory: FileUnwritable, FileUnreadable. The spare is made when it is needed."""
        self._main = CheckpointFile(directory)
        self._directory = directory
        self._spare = spare
        self._is_spared = os.path.lexists(spare)
        self._key = _key_in(directory)

    def save(self, state: State) -> str:
        """Commit the books: on disk when this returns. Why they are in the spare directory, "" where they are not.

        StateError: they are in neither, and what was committed before stands.
        """
        try:
            self._main.save(state)
        except StateError as error:
            if not self._saved_in_spare(state):
                raise
            self._is_spared = True
            return f"{error}; until then it is kept in {self._spare}"
        if self._is_spared:
            shutil.rmtree(self._spare, ignore_errors=True)
            self._is_spared = os.path.lexists(self._spare)
        return ""

    def load(self) -> Loaded:
        """The newest books that can be read, from wherever they were written last."""
        over, seal = self._sealed()
        if over != _identity(self._directory):
            # None, or it was written before the books in their own place.
            return self._main.load()
        if not hmac.compare_digest(seal, self._seal_of(over)):
            found = self._main.load()
            note = f"the state in {self._spare} is damaged or not the sidecar's own: it is ignored"
            return Loaded(state=found.state, notes=(note, *found.notes))
        with CheckpointFile(self._spare) as spare:
            loaded = spare.load()
        note = f"the state was loaded from {self._spare}, because {self._directory} could not be written"
        return Loaded(state=loaded.state, notes=(*loaded.notes, note))

    def _saved_in_spare(self, state: State) -> bool:
        if self._key is None:
            return False
        try:
            with CheckpointFile(self._spare) as spare, files.directory(self._spare) as at:
                spare.save(state)
                over = _identity(self._directory)
                files.replace(at, SEAL, over + b" " + self._seal_of(over), sync=True, mode=0o600)
        except StateError:
            return False
        return True

    def _sealed(self) -> tuple[bytes, bytes]:
        """Over which books in their own place the spare was written, and its seal; nothing where there is none."""
        try:
            with files.directory(self._spare) as at:
                over, _, seal = (files.read_bounded(at, SEAL, 1024) or b"").partition(b" ")
        except StateError:
            return b"", b""
        return over, seal

    def _seal_of(self, over: bytes) -> bytes:
        """The seal of the books that are in the spare; "" where that cannot be made."""
        try:
            with files.directory(self._spare) as at:
                content = files.read_bounded(at, NAME, LIMIT) or b""
        except StateError:
            return b""
        return hmac.new(self._key or secrets.token_bytes(32), over + content, hashlib.sha256).hexdigest().encode()

    def close(self) -> None:
        """Give the directory back. May be called twice."""
        self._main.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _key_in(directory: str) -> bytes | None:
    """The key of a state directory, made if there is none; None where it cannot be."""
    try:
        with files.directory(directory) as at:
            key = files.read_bounded(at, KEY, 1024)
            if not key:
                key = secrets.token_bytes(32)
                files.replace(at, KEY, key, sync=True, mode=0o600)
    except StateError:
        return None
    return key


def _identity(directory: str) -> bytes:
    """Which books lie in a directory: another text after each that is written."""
    try:
        found = os.stat(os.path.join(directory, NAME), follow_symlinks=False)
    except OSError:
        return b"none"
    return b"%d-%d-%d" % (found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
