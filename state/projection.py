"""The projection of one workload, and the directory of files that holds it.

The rules of such a directory, which `ProjectionDirectory` keeps and readers may rely on:

1. `status.json` is moved into place first, then `cpuset`; each by one rename from another directory of the same file
   system, so a watcher of the directory sees exactly one IN_MOVED_TO for each, and a reader never sees half a file.
2. `cpuset` holds the CPUs in force as one line of the kernel's list syntax, and is never empty. If no CPUs can be
   stated truthfully (the container is between two disjoint CPU sets, or is gone), the file is absent, and `cpus` in
   `status.json` is "".
3. A file whose content is already right is not written again: a change of status alone is one event.
4. `generation` only grows. A slow reader sees the newest one, not every one.
5. The files are true while the lease of the directory counts (`state.lease`). After that the daemon is stopped or
   stalled, or does not reach its engine, and they are what was last true.
"""

from __future__ import annotations

import enum
import os
import re
import stat
import time
from typing import Final, NamedTuple

import msgspec

from state import codec, files, lease
from state.cpuset import EMPTY, CPUSet
from state.errors import FileUnreadable, FileUnwritable, ProjectionError, ProjectionMissing

VERSION: Final = 1
STATUS: Final = "status.json"
CPUSET: Final = "cpuset"

LIMIT: Final = 256 * 1024
"""Bytes. Six CPU sets of 8192 CPUs, written in the worst way, need 140 KiB."""

MAX_GENERATION: Final = 2**53 - 1
"""The highest number that every reader of JSON keeps exactly. A file that claims more was not written by us."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Sharing(enum.StrEnum):
    """How a container shares its CPUs."""

    EXCLUSIVE = "exclusive"
    """With no other container."""
    SHARED = "shared"
    """With all containers without exclusive CPUs."""
    UNMANAGED = "unmanaged"
    """Unknown: the sidecar leaves it alone, or it is gone. An unknown word of a later version is read as this."""

    @classmethod
    def _missing_(cls, value: object) -> Sharing:
        del value
        return cls.UNMANAGED


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """What one container can read about its CPUs. Every field has a default, so any version can read any other's file.

    `cpus` are in force now, `desired` is where the container is heading, `original` is what it was first granted.
    `leaving` are about to be taken, in `deadline_seconds` from `updated_at`; `arriving` are about to be given.
    `settled` is true once what was decided is in force. `alone` is true if, in addition, it has CPUs of its own and no
    other container that the sidecar can see may run on them. `never_alone` is true if it gets no CPUs of its own unless
    its labels, the settings, or its start change. `reason` is a sentence for people.

    The writer fills in `generation` and `updated_at` (RFC 3339, UTC), and counts `deadline_seconds` down from one write
    to the next. It fills in `lease_seconds`, for how long a renewal of the lease counts; None if the daemon vouches for
    nothing here.
    """

    version: int = VERSION
    generation: int = 0
    container: str = ""
    name: str = ""
    policy: str = "none"
    sharing: Sharing = Sharing.UNMANAGED
    cpus: CPUSet = EMPTY
    desired: CPUSet = EMPTY
    original: CPUSet = EMPTY
    leaving: CPUSet = EMPTY
    arriving: CPUSet = EMPTY
    deadline_seconds: float | None = None
    settled: bool = False
    alone: bool = False
    never_alone: bool = False
    shared_pool: CPUSet = EMPTY
    mems: str = ""
    reason: str = ""
    lease_seconds: float | None = None
    updated_at: str = ""

    @classmethod
    def of_no_container(cls, name: str) -> Projection:
        """Return what is told where no container uses a projection any more; the last one had this name."""
        return cls(name=name, sharing=Sharing.UNMANAGED, reason="no container uses this projection now")

    def says_the_same_as(self, other: Projection) -> bool:
        """Return whether the two differ only in what the writer fills in: number, time, and the seconds left."""
        filled_in = {name: getattr(self, name) for name in ("generation", "updated_at", "deadline_seconds")}
        return self == msgspec.structs.replace(other, **filled_in)

    def stamped(self, generation: int, updated_at: str) -> Projection:
        """Return the same, with its number and its time."""
        return msgspec.structs.replace(self, generation=generation, updated_at=updated_at)

    def within(self, cpus: CPUSet) -> Projection:
        """Return the same without any CPU outside `cpus` in force: what may be written while the others are being
        taken.
        """
        leaving = self.leaving & cpus
        return msgspec.structs.replace(
            self,
            cpus=self.cpus & cpus,
            leaving=leaving,
            deadline_seconds=self.deadline_seconds if leaving else None,
            settled=False,
            alone=False,
        )


class Reading(Projection, frozen=True, kw_only=True):
    """What a reader finds: a projection, and whether the daemon vouches for it. If not, it is what was last true."""

    vouched: bool = False

    @classmethod
    def of(cls, projection: Projection, *, vouched: bool) -> Reading:
        """Return a reading of this projection."""
        return cls(**{name: getattr(projection, name) for name in Projection.__struct_fields__}, vouched=vouched)

    @property
    def projection(self) -> Projection:
        """What stood in the files, without the reader's part."""
        return Projection(**{name: getattr(self, name) for name in Projection.__struct_fields__})


class ProjectionFiles(NamedTuple):
    """A projection, and the contents of its files; that of an absent one is empty here."""

    projection: Projection
    status: bytes
    cpuset: bytes

    @classmethod
    def of(cls, projection: Projection) -> ProjectionFiles:
        """Return what is written of a projection."""
        cpus = f"{projection.cpus}\n".encode() if projection.cpus else b""
        return cls(projection, codec.encode_flat(projection) + b"\n", cpus)

    @property
    def contents(self) -> tuple[tuple[str, bytes], ...]:
        """The files in the order in which they are written (rules 1 and 2)."""
        return (STATUS, self.status), (CPUSET, self.cpuset)


class ProjectionDirectory:
    """Writes the files of one projection directory, which the caller holds open, by way of `staging`."""

    def __init__(self, at: int, staging: int) -> None:
        """Take two descriptors of directories in one file system; the caller still closes both."""
        self.at: Final = at
        self._staging = staging
        self._found: bytes | None = None
        """The status that `told` found, for the next `put`."""

    def told(self, last: ProjectionFiles | None = None) -> Projection | None:
        """Return what the directory holds now; None if that cannot be understood or trusted. What was written `last`
        is known by its bytes.
        """
        self._found = content = self._content(STATUS)
        if content is None:
            return None
        if last is not None and content == last.status:
            return last.projection
        try:
            found = codec.decode(content, Projection)
        except codec.UNREADABLE:
            return None
        return found if 0 <= found.generation <= MAX_GENERATION else None

    def is_new(self) -> bool:
        """Return whether there is no status yet, not even one that cannot be understood."""
        try:
            os.stat(STATUS, dir_fd=self.at, follow_symlinks=False)
        except FileNotFoundError:
            return True
        return False

    def write(self, projection: Projection) -> None:
        """Write this into the directory; files with the right content are left alone. Raise ProjectionError."""
        self.put(ProjectionFiles.of(projection))

    def put(self, new: ProjectionFiles, last: ProjectionFiles | None = None) -> None:
        """Write this into the directory; files with the right content are left alone. Raise ProjectionError.

        Where the status is still the one that was written `last`, other CPUs than that time are written without a look
        at what is there.
        """
        found, self._found = self._found, None
        if found is None:
            found = self._content(STATUS)
        if found != new.status:
            self._put(STATUS, new.status)
        is_other = last is not None and found == last.status and last.cpuset != new.cpuset
        if not new.cpuset:
            self._remove(CPUSET)
        elif is_other or self._content(CPUSET) != new.cpuset:
            self._put(CPUSET, new.cpuset)

    def holds(self, written: ProjectionFiles) -> bool:
        """Return whether the files are what `put` makes of this."""
        return all((self._content(name) or b"") == content for name, content in written.contents)

    def withhold_all_but(self, written: ProjectionFiles) -> None:
        """Remove each file that differs from this, which could not be written. Raise ProjectionError."""
        for name, content in written.contents:
            if self._content(name) != content:
                self._remove(name)

    def _remove(self, name: str) -> None:
        try:
            if stat.S_ISDIR(os.stat(name, dir_fd=self.at, follow_symlinks=False).st_mode):
                files.move_aside(self.at, name)
            else:
                files.remove(self.at, name)
        except FileNotFoundError:
            return
        except OSError as error:
            raise ProjectionError(f"cannot remove {name}: {files.reason(error)}") from error
        except FileUnwritable as error:
            raise ProjectionError(str(error)) from error

    def _put(self, name: str, content: bytes) -> None:
        try:
            with files.write_beside(self._staging, name, content, sync=False, mode=0o644) as temporary:
                files.move_over(temporary, name, source=self._staging, target=self.at)
        except FileUnwritable as error:
            raise ProjectionError(str(error)) from error

    def _content(self, name: str) -> bytes | None:
        try:
            return files.read_bounded(self.at, name, LIMIT)
        except FileUnreadable:
            # It was planted. Writing replaces it, or reports why it cannot.
            return None


def read(directory: str | os.PathLike[str]) -> Reading:
    """Return what the projection directory holds now.

    Raise ProjectionMissing if there is none, and ProjectionError if it is broken. Fields of later versions are ignored.
    """
    return read_with_lease(directory, time.time())[0]


def read_with_lease(directory: str | os.PathLike[str], now: float) -> tuple[Reading, float]:
    """Return what `read` does, and for how many seconds from `now` its lease counts: 0 if it does not."""
    where = os.fspath(directory)
    try:
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ProjectionMissing(f"there is no projection directory {where}") from error
    except OSError as error:
        raise ProjectionError(f"cannot open the projection directory {where}: {files.reason(error)}") from error
    try:
        # The lease first: what is read after it is at least as new.
        renewed_at = lease.renewed_at(opened)
        content = files.read_bounded(opened, STATUS, LIMIT)
    except FileUnreadable as error:
        raise ProjectionError(f"in {where}: {error}") from error
    finally:
        os.close(opened)
    if content is None:
        raise ProjectionMissing(f"there is no {STATUS} in {where}")
    try:
        found = codec.decode(content, Projection)
    except codec.UNREADABLE as error:
        raise ProjectionError(f"{where}/{STATUS} is not a projection: {codec.flaw(error)}") from error
    left = lease.seconds_left(renewed_at, found.lease_seconds, now)
    return Reading.of(found, vouched=left > 0), left


def checked_name(name: str) -> str:
    """Return a projection's name as it is, if it can be the name of a directory of its own. Raise ProjectionError if
    not.
    """
    if not _NAME.fullmatch(name):
        raise ProjectionError(
            f"{name[:70]!r} is not a name for a projection: letters, digits, '_', '.' and '-', at most 64, "
            "beginning with a letter or digit"
        )
    return name
