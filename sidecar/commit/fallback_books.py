"""A second place for the recorded state, for as long as the state directory cannot be written.

A container's original settings are recorded nowhere else: the engine forgets them. So if the disk of the state
directory is full or broken, the state goes to a spare directory, on another file system if possible, and back as soon
as that works. The spare exists only while it is newer.

Another program that can write the spare must not be able to forge the state: a key in the state directory seals it,
made when that directory could last be written.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import shutil
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from state import files
from state.checkpoint import LIMIT, NAME, PREVIOUS, CheckpointFile, Loaded, decode_checkpoint, encode_checkpoint
from state.errors import CheckpointCorrupt, CheckpointTooNew, StateError
from state.model import State

SPARE: Final = ".books"
"""The name of the spare directory below the projections, 0700."""

KEY: Final = "spare.key"
SEAL: Final = "seal"


class SparedCheckpoint:
    """The checkpoint in `directory`, or for as long as that cannot be written in `spare`. One writer at a time."""

    def __init__(self, directory: str, spare: str) -> None:
        """Open the directory. Raise FileUnwritable or FileUnreadable. The spare is made when it is needed."""
        self._main = CheckpointFile(directory)
        self._directory = directory
        self._spare = spare
        self._is_spared = os.path.lexists(spare)
        self._key = _key_in(directory)

    def save(self, state: State) -> str:
        """Commit the state; it is on disk on return. Return why it is in the spare directory; "" if it is not.

        Raise StateError if it is in neither; the last commit stands.
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

    def save_at_its_path(self, state: State) -> None:
        """Commit the state in the directory that is at the path now, whatever became of the one that was opened: it may
        have been deleted, or moved elsewhere. Raise StateError if it is nowhere on disk.
        """
        self._main.reopen()
        self._key = _key_in(self._directory)
        self.save(state)

    def load(self) -> Loaded:
        """Return the newest state that can be read, from the place where it was last written."""
        if not _is_newer(self._directory, self._spare):
            return self._main.load()
        state = _sealed(self._spare, self._key)
        if state is None:
            found = self._main.load()
            note = f"the state in {self._spare} is damaged or not the sidecar's own: it is ignored"
            return Loaded(state=found.state, notes=(note, *found.notes))
        note = f"the state was loaded from {self._spare}, because {self._directory} could not be written"
        return Loaded(state=state, notes=(note,))

    def _saved_in_spare(self, state: State) -> bool:
        if self._key is None:
            return False
        try:
            with CheckpointFile(self._spare) as spare, files.directory(self._spare) as at:
                spare.save(state)
                over = _identity(self._directory)
                content = files.read_bounded(at, NAME, LIMIT) or b""
                if content != encode_checkpoint(state):
                    return False
                files.replace(at, SEAL, over + b" " + _seal_of(self._key, over, content), sync=True, mode=0o600)
        except StateError:
            return False
        return True

    def close(self) -> None:
        """Close the directory. May be called twice."""
        self._main.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def spared_state(directory: str, spare: str) -> State | None:
    """Return the state in the spare directory, if it is newer than that in `directory`, and the sidecar's own; None
    otherwise. Changes no file.
    """
    if not _is_newer(directory, spare):
        return None
    with suppress(StateError), files.directory(directory) as at:
        return _sealed(spare, files.read_bounded(at, KEY, 1024))
    return None


def was_used(directory: str) -> bool:
    """Return whether a daemon has recorded anything in a state directory, or that cannot be looked at."""
    try:
        return not {NAME, PREVIOUS, KEY}.isdisjoint(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def _is_newer(directory: str, spare: str) -> bool:
    """Return whether there is a spare, which replaces the very state that is in its own place."""
    over, _, _ = _spared(spare)
    return over == _identity(directory)


def _sealed(spare: str, key: bytes | None) -> State | None:
    """Return the state in the spare directory; None if it is damaged, or not sealed with this key."""
    over, seal, content = _spared(spare)
    if hmac.compare_digest(seal, _seal_of(key, over, content)):
        # What was verified is what is read: the file may be another one by now.
        with suppress(CheckpointCorrupt, CheckpointTooNew):
            return decode_checkpoint(content)
    return None


def _spared(spare: str) -> tuple[bytes, bytes, bytes]:
    """Return which state in its own place the spare replaces, its seal, and the spare; all empty without one."""
    try:
        with files.directory(spare) as at:
            over, _, seal = (files.read_bounded(at, SEAL, 1024) or b"").partition(b" ")
            return over, seal, files.read_bounded(at, NAME, LIMIT) or b""
    except StateError:
        return b"", b"", b""


def _seal_of(key: bytes | None, over: bytes, content: bytes) -> bytes:
    """Return the seal of this content of the spare. Without a key there is none that fits."""
    return hmac.new(key or secrets.token_bytes(32), over + content, hashlib.sha256).hexdigest().encode()


def _key_in(directory: str) -> bytes | None:
    """Return the key of a state directory, creating it if needed; None if it cannot be created."""
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
    """Return an identity of the state in a directory, which each commit changes."""
    try:
        found = os.stat(os.path.join(directory, NAME), follow_symlinks=False)
    except OSError:
        return b"none"
    return b"%d-%d-%d" % (found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
