"""The State on disk: one versioned, checksummed JSON file, its predecessor, and any files that had to be set aside.

   {"version":5,"checksum":"sha256:<hex>","state":{...}}

The checksum covers the version, a newline, and the bytes of the state exactly as they stand in the file, so no change
of types or of the encoder can break it. There is no other white space, so every byte of the file is checked. An older
version is decoded to plain values, migrated from version to version by `_MIGRATIONS`, and only then made into a State;
a newer one is never touched.

Saving is on the path of every placement and takes as few system calls as possible: write beside and sync;
`checkpoint.json` becomes `checkpoint.previous.json`; the new file becomes `checkpoint.json`; sync the folder. Between
the two renames there is only the previous file, and it holds the newest State that was ever committed. A crash at any
point leaves a file that loads.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from state import codec, files
from state.errors import CheckpointCorrupt, CheckpointTooNew, FileUnreadable, FileUnwritable, StateError
from state.model import State

VERSION: Final = 6
NAME: Final = "checkpoint.json"
PREVIOUS: Final = "checkpoint.previous.json"

LIMIT: Final = 64 * 1024 * 1024
"""Bytes. Two thousand grants take half a MiB."""

KEPT_ASIDE: Final = 8
"""Files of each kind that are kept for inspection; the oldest is removed first."""

# The state file contains names and settings of containers, which other users may not read.
_MODE: Final = 0o600


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """What was found: the State, or None to begin with an empty one; `notes` say what was wrong, for log and status."""

    state: State | None
    notes: tuple[str, ...] = ()


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    checksum: str
    state: msgspec.Raw


def encode_checkpoint(state: State) -> bytes:
    """Return the whole content of a checkpoint file."""
    return _framed(VERSION, codec.encode(state))


def decode_checkpoint(content: bytes) -> State:
    """Return the State in a checkpoint file's content. Raise CheckpointCorrupt or CheckpointTooNew."""
    try:
        envelope = msgspec.json.decode(content, type=_Envelope)
    except msgspec.ValidationError as error:
        raise CheckpointCorrupt("it is not a checkpoint: version, checksum and state are not all there") from error
    except codec.UNREADABLE as error:
        raise CheckpointCorrupt("it is not a checkpoint: it is not whole JSON") from error
    body = bytes(envelope.state)
    if _framed(envelope.version, body) != content:
        raise CheckpointCorrupt("its checksum does not match its content")
    if envelope.version > VERSION:
        raise CheckpointTooNew(
            f"it has format {envelope.version}, and this version reads up to {VERSION}: update the program"
        )
    try:
        values = msgspec.json.decode(body)
        for version in range(envelope.version, VERSION):
            values = _MIGRATIONS[version](values)
        return codec.convert(values, State)
    except (*codec.UNREADABLE, KeyError, TypeError, AttributeError) as error:
        raise CheckpointCorrupt(f"its content is not that of format {envelope.version}: {error}") from error


class CheckpointFile:
    """The checkpoint in one directory, which is created if missing. One writer at a time."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Open the directory. Raise FileUnwritable or FileUnreadable."""
        self._path = os.fspath(directory)
        self._directory = files.open_directory(self._path, create=True, mode=0o700)

    def save(self, state: State) -> None:
        """Commit the State: it is on disk on return. Raise FileUnwritable if it is not; what was committed before
        stands.
        """
        content = encode_checkpoint(state)
        try:
            self._commit(content)
        except FileUnwritable as error:
            if not _is_gone(error):
                raise
            # The directory was deleted while it was open. Create it again, once.
            self.reopen()
            self._commit(content)

    def reopen(self) -> None:
        """Open the directory that is at the path now, which is created if missing. Raise as opening does."""
        self.close()
        self._directory = files.open_directory(self._path, create=True, mode=0o700)

    def load(self) -> Loaded:
        """Return the newest State that can be read. An unreadable file is set aside, and never overwritten silently."""
        notes: list[str] = []
        for name in (NAME, PREVIOUS):
            try:
                content = files.read_bounded(self._directory, name, LIMIT)
                if content is None:
                    continue
                state = decode_checkpoint(content)
            except (CheckpointCorrupt, CheckpointTooNew, FileUnreadable) as error:
                notes.append(self._set_aside(name, error))
                continue
            if notes:
                notes.append(f"went back to {name}, the previous state")
            return Loaded(state=state, notes=tuple(notes))
        return Loaded(state=None, notes=tuple(notes))

    def close(self) -> None:
        """Close the directory. May be called twice."""
        if self._directory >= 0:
            os.close(self._directory)
            self._directory = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _commit(self, content: bytes) -> None:
        at = self._directory
        with files.write_beside(at, NAME, content, sync=True, mode=_MODE) as temporary:
            with contextlib.suppress(FileNotFoundError):
                os.rename(NAME, PREVIOUS, src_dir_fd=at, dst_dir_fd=at)
            os.rename(temporary, NAME, src_dir_fd=at, dst_dir_fd=at)
            os.fsync(at)

    def _set_aside(self, name: str, error: StateError) -> str:
        """Rename an unusable file. Return the note that reports it."""
        kind = "newer" if isinstance(error, CheckpointTooNew) else "corrupt"
        pattern = re.compile(rf"checkpoint\.{kind}-(\d{{1,9}})\.json")
        numbers = sorted(int(m[1]) for entry in os.listdir(self._directory) if (m := pattern.fullmatch(entry)))
        aside = f"checkpoint.{kind}-{numbers[-1] + 1 if numbers else 1}.json"
        try:
            os.rename(name, aside, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        except OSError as failure:
            raise FileUnwritable(f"cannot set {name} aside ({error}): {files.reason(failure)}") from failure
        note = f"{name} cannot be used: {error}; it was set aside as {aside}"
        for number in numbers[: max(0, len(numbers) + 1 - KEPT_ASIDE)]:
            old = f"checkpoint.{kind}-{number}.json"
            files.remove(self._directory, old)
            note += f"; {old}, the oldest of {KEPT_ASIDE}, was removed"
        return note


def _framed(version: int, body: bytes) -> bytes:
    checksum = hashlib.sha256(b"%d\n" % version + body).hexdigest().encode()
    return b'{"version":%d,"checksum":"sha256:%s","state":%s}' % (version, checksum, body)


def _is_gone(error: FileUnwritable) -> bool:
    return isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.ENOENT


def _from_0(old: Mapping[str, Any]) -> dict[str, Any]:
    """Format 0, of the first drafts: grants were a list in the order in which they were made, without a counter."""
    assignments = {
        grant["container"]: {
            "demand": {"container": grant["container"], "name": grant["name"], "cpus": grant["count"]},
            "cpus": grant["cpus"],
            "original": grant["cpus"],
            "since": since,
        }
        for since, grant in enumerate(old["assignments"])
    }
    kept = {key: value for key, value in old.items() if key != "assignments"}
    return {**kept, "assignments": assignments, "grants": len(assignments)}


def _from_1(old: dict[str, Any]) -> dict[str, Any]:
    """Format 1 had no isolated CPUs, NUMA rules, devices or memory nodes: their defaults are right."""
    return old


def _from_2(old: dict[str, Any]) -> dict[str, Any]:
    """Format 2 had no sizes that change: their defaults are right."""
    return old


def _from_3(old: dict[str, Any]) -> dict[str, Any]:
    """Format 3 kept the reasons of refusals and of changes as sentences, which are kept as `Said`. Its containers were
    recorded under their ids alone, which are keys without an engine.
    """
    refusals = {
        id: {
            "container": each["container"],
            "name": each["name"],
            "refusal": {"code": each["code"], "detail": _said(each["reason"])},
            "demand": each.get("demand"),
        }
        for id, each in old.get("refusals", {}).items()
    }
    assignments = {id: _with_causes(each) for id, each in old.get("assignments", {}).items()}
    return {**old, "assignments": assignments, "refusals": refusals}


def _from_4(old: dict[str, Any]) -> dict[str, Any]:
    """Format 4 had no queue and no vacancies: their defaults are right."""
    return old


def _from_5(old: dict[str, Any]) -> dict[str, Any]:
    """Format 5 recorded no promises of notices and rests: their defaults are right."""
    return old


def _with_causes(assignment: dict[str, Any]) -> dict[str, Any]:
    moves = [_with_cause(move) for move in assignment.get("moves", ())]
    leaving = assignment.get("leaving")
    return {**assignment, "moves": moves, "leaving": _with_cause(leaving) if leaving else None}


def _with_cause(change: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in change.items() if key != "reason"}
    return {**kept, "cause": _said(change["reason"])}


def _said(reason: str) -> dict[str, str]:
    return {"type": "Said", "text": reason}


_MIGRATIONS: Final[Mapping[int, Callable[[Any], Any]]] = {
    0: _from_0,
    1: _from_1,
    2: _from_2,
    3: _from_3,
    4: _from_4,
    5: _from_5,
}
"""From each version to the next, on decoded data."""
