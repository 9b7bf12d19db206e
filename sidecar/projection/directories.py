"""The root of projection directories, held open: every step goes from an open directory to the next, and not by a link.

Beside the directories there are private files in `.staging`, where no workload can write:

- `since-<12 hex>`, or a unit's key, for each container with leaving CPUs: the first generation that announced them, and
  the CPUs.
- `claims@<name>`, for each name in use: the containers that use it, in the order in which they claimed it.
- `highest`, if a workload ever planted a number beyond those that are believed: what is believed since.
- `lease@<a directory's path, with @ for />`, one more name of the file `lease` in it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final

from sidecar.projection.belongings import BY_UNIT, OF_UNIT, own_place
from sidecar.projection.clearing import OURS, clear
from sidecar.projection.file_replacer import Replacement, Replacer
from state import ack, files, lease
from state.cpuset import CPUSet
from state.errors import CPUSetError, FileUnreadable, FileUnwritable, ProjectionError, StateError
from state.projection import STATUS, Projection, ProjectionDirectory, ProjectionFiles, checked_name

_SHORT_ID: Final = re.compile(r"[0-9a-f]{12}")

_RECORD_BYTES: Final = 32 * 1024
"""Bytes of a set of 8192 CPUs, written in the worst way, and a number."""

_MOST_ACK: Final = 4096
"""Bytes of an acknowledgement that are left where space is short: a number has sixteen."""

_CEILING: Final = "highest"
"""The file of the ceiling of numbers, in staging."""

_LINK: Final = f"{lease.NAME}@"
_CLAIMS: Final = "claims@"


class opened_root:  # noqa: N801 - used as a function: a generator would cost as much as the calls inside
    """Yield the root, made if necessary, open for one operation. Raise ProjectionError."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._at = self._staging = -1

    def __enter__(self) -> ProjectionTree:
        """Open the root and its staging."""
        try:
            self._at = files.open_directory(self._root, create=True)
            self._staging = files.open_directory(".staging", at=self._at, create=True, mode=0o700)
        except (FileUnwritable, FileUnreadable) as error:
            self._close()
            raise ProjectionError(f"below {self._root}: {error}") from error
        return ProjectionTree(self._at, self._staging)

    def __exit__(self, _kind: object, error: BaseException | None, _where: object) -> None:
        """Close both."""
        self._close()
        if isinstance(error, FileUnwritable | FileUnreadable):
            raise ProjectionError(f"below {self._root}: {error}") from error

    def _close(self) -> None:
        for each in (self._staging, self._at):
            if each >= 0:
                os.close(each)
        self._at = self._staging = -1


class ProjectionTree:
    """The root, held open for one operation. Paths are tuples of names, each opened relative to the one before."""

    def __init__(self, root: int, staging: int) -> None:
        self._root = root
        self._staging = staging

    @contextmanager
    def projection(self, path: tuple[str, ...], *, create: bool = True) -> Iterator[ProjectionDirectory]:
        """Yield a container's directory, for writing and reading. Raise StateError if it cannot be opened."""
        with self._walked(path, create=create) as at:
            yield ProjectionDirectory(at, self._staging)

    def open_projection(self, path: tuple[str, ...]) -> ProjectionDirectory:
        """Return a container's directory, made if necessary; the caller closes it. Raise StateError."""
        return ProjectionDirectory(self._entered(path, create=True), self._staging)

    def replace_all(self, replacements: Sequence[Replacement], replacer: Replacer) -> list[bool]:
        """Replace the files of containers' own directories. Return for each whether that was done."""
        with self._walked(("by-id",), create=False) as above:
            return replacer.put(above, self._staging, replacements)

    def told(self, short: str) -> Projection | None:
        """Return what the container's own directory holds; None if it holds nothing readable."""
        with suppress(FileUnreadable), self.projection(own_place(short), create=False) as directory:
            return directory.told()
        return None

    def differs(self, paths: Iterable[tuple[str, ...]], written: ProjectionFiles | None) -> bool:
        """Return whether something else is in one of these directories than was written; not if that is None."""
        for path in paths if written else ():
            try:
                with self.projection(path, create=False) as directory:
                    if written and not directory.holds(written):
                        return True
            except StateError:
                return True
        return False

    def ids(self) -> list[str]:
        """Return the containers, and the units, that have a directory."""
        units = [f"{OF_UNIT}{name}" for name in self._listed((BY_UNIT,))]
        return [name for name in self._listed(("by-id",)) if _SHORT_ID.fullmatch(name)] + units

    def names(self) -> list[str]:
        """Return the names that were ever used."""
        found = []
        for name in self._listed(("by-name",)):
            with suppress(ProjectionError):
                found.append(checked_name(name))
        return found

    def users(self, name: str) -> list[str]:
        """Return the containers that have a directory under a name."""
        return [short for short in self._listed(("by-name", name, "by-id")) if _SHORT_ID.fullmatch(short)]

    def remove(self, path: tuple[str, ...], short: str) -> None:
        """Remove a directory with all that a workload left in it, as far as that takes no time."""
        with suppress(FileUnreadable), self._walked(path, create=False) as above:
            try:
                with files.directory(short, at=above) as at:
                    clear(at)
            except FileUnreadable:
                # Not there, or a link: rmdir would fail as well, and a link of that name is not ours to keep.
                with suppress(FileUnwritable):
                    files.remove(above, short)
                return
            with suppress(OSError):
                os.rmdir(short, dir_fd=above)

    def is_there(self, path: tuple[str, ...]) -> bool:
        """Return whether there is such a directory."""
        with suppress(FileUnreadable), self._walked(path, create=False):
            return True
        return False

    def make_room(self) -> bool:
        """Remove what workloads wrote into their directories beside our files. Return whether there was anything."""
        removed = 0
        for path in self._all():
            with suppress(FileUnreadable), self._walked(path, create=False) as at:
                removed += clear(at, keep=OURS | {"by-id"})
                with suppress(OSError, FileUnwritable):
                    if os.stat(ack.NAME, dir_fd=at, follow_symlinks=False).st_size > _MOST_ACK:
                        removed += files.remove(at, ack.NAME)
        return removed > 0

    def _all(self) -> Iterator[tuple[str, ...]]:
        yield from map(own_place, self.ids())
        for name in self.names():
            yield ("by-name", name)
            yield from (("by-name", name, "by-id", short) for short in self.users(name))

    def age(self, name: str) -> float:
        """Return when the files of a name last changed, in seconds since 1970; 0.0 if that cannot be read."""
        with suppress(FileUnreadable, OSError), self._walked(("by-name", name), create=False) as at:
            return os.stat(STATUS, dir_fd=at, follow_symlinks=False).st_mtime
        return 0.0

    def ceiling(self) -> int | None:
        """Return the recorded ceiling of numbers; None without one."""
        with suppress(FileUnreadable, ValueError):
            content = files.read_bounded(self._staging, _CEILING, 32)
            return None if content is None else int(content)
        return None

    def put_ceiling(self, number: int) -> None:
        """Record the ceiling of numbers. Raise FileUnwritable."""
        files.replace(self._staging, _CEILING, b"%d\n" % number, mode=0o600)

    def since(self, short: str) -> tuple[int, CPUSet] | None:
        """Return the record of a container: the first generation that announced these CPUs as leaving; None without
        one.
        """
        with suppress(FileUnreadable, CPUSetError, ValueError):
            content = files.read_bounded(self._staging, f"since-{short}", _RECORD_BYTES)
            if content is not None:
                number, _, cpus = content.decode("ascii").partition(" ")
                return int(number), CPUSet.parse(cpus.strip())
        return None

    def put_since(self, short: str, generation: int, leaving: CPUSet) -> None:
        """Write the record. Raise FileUnwritable."""
        content = f"{generation} {leaving}\n".encode()
        files.replace(self._staging, f"since-{short}", content, mode=0o600)

    def remove_since(self, short: str) -> None:
        """Remove the record, if there is one. Raise FileUnwritable."""
        files.remove(self._staging, f"since-{short}")

    def claims(self, name: str) -> list[str]:
        """Return the recorded claims of a name, the first one first; empty without a record."""
        with suppress(FileUnreadable, UnicodeDecodeError):
            content = files.read_bounded(self._staging, _CLAIMS + name, _RECORD_BYTES)
            return (content or b"").decode("ascii").split()
        return []

    def put_claims(self, name: str, claims: Iterable[str]) -> None:
        """Record the claims of a name; none removes the record. Raise FileUnwritable."""
        if content := " ".join(claims).encode():
            files.replace(self._staging, _CLAIMS + name, content + b"\n", mode=0o600)
        else:
            files.remove(self._staging, _CLAIMS + name)

    def has_claims(self, name: str) -> bool:
        """Return whether the claims of a name are recorded."""
        with suppress(OSError):
            return bool(os.stat(_CLAIMS + name, dir_fd=self._staging, follow_symlinks=False))
        return False

    def put_lease(self, lease_of: tuple[str, ...], at: int, seconds: float) -> None:
        """Move a fresh lease with this time into the directory that is open as `at`, and keep its name in staging.

        Raise FileUnwritable.
        """
        link = _link(lease_of)
        with _dated(self._staging, seconds) as fresh:
            files.remove(self._staging, link)
            files.link(self._staging, fresh, link)
            files.move_over(fresh, lease.NAME, source=self._staging, target=at)

    def share_lease(self, lease_of: tuple[str, ...], at: int) -> bool:
        """Move one more name of a lease into the directory that is open as `at`. Return False if the lease is lost.

        Raise FileUnwritable.
        """
        fresh = f"{_link(lease_of)}@"
        files.remove(self._staging, fresh)
        try:
            files.link(self._staging, _link(lease_of), fresh)
        except OSError:
            return False
        files.move(fresh, lease.NAME, source=self._staging, target=at)
        return True

    def put_ended_lease(self, at: int) -> None:
        """Move a lease that never counts into the directory that is open as `at`. Raise FileUnwritable."""
        with _dated(self._staging, 0.0) as fresh:
            files.move_over(fresh, lease.NAME, source=self._staging, target=at)

    def renew_lease(self, lease_of: tuple[str, ...], seconds: float) -> bool:
        """Set the time of a lease by its name in staging. Return False if that is not possible."""
        try:
            os.utime(_link(lease_of), times=(seconds, seconds), dir_fd=self._staging, follow_symlinks=False)
        except OSError:
            return False
        return True

    def has_lease(self, lease_of: tuple[str, ...], at: int) -> bool:
        """Return whether the lease in the directory that is open as `at` is the file with that name in staging."""
        try:
            told = os.stat(lease.NAME, dir_fd=at, follow_symlinks=False)
            kept = os.stat(_link(lease_of), dir_fd=self._staging, follow_symlinks=False)
        except OSError:
            return False
        return os.path.samestat(told, kept)

    def has_names(self, lease_of: tuple[str, ...], count: int) -> bool:
        """Return whether a lease has so many names, without a look into its directories, which would be an event."""
        try:
            return os.stat(_link(lease_of), dir_fd=self._staging, follow_symlinks=False).st_nlink == count
        except OSError:
            return False

    def drop_lease(self, lease_of: tuple[str, ...]) -> None:
        """Remove the name of a lease in staging. Raise FileUnwritable."""
        files.remove(self._staging, _link(lease_of))

    def drop_leases(self) -> None:
        """Remove the names that an earlier run left in staging."""
        for name in os.listdir(self._staging):
            if name.startswith(_LINK):
                with suppress(FileUnwritable):
                    files.remove(self._staging, name)

    def opened(self, path: tuple[str, ...]) -> AbstractContextManager[int]:
        """Yield the descriptor of an existing directory."""
        return self._walked(path, create=False)

    @contextmanager
    def _walked(self, path: tuple[str, ...], *, create: bool) -> Iterator[int]:
        at = self._entered(path, create=create)
        try:
            yield at
        finally:
            os.close(at)

    def _entered(self, path: tuple[str, ...], *, create: bool) -> int:
        """Return the descriptor of a directory, which the caller closes. Raise StateError."""
        at = self._root
        for name in path:
            try:
                below = self._below(at, name, create=create)
            finally:
                if at != self._root:
                    os.close(at)
            at = below
        return at

    def _below(self, at: int, name: str, *, create: bool) -> int:
        try:
            return files.open_directory(name, at=at, create=create)
        except FileUnreadable:
            if not create or at == self._root:
                raise
            _unplanted(name, at)
            return files.open_directory(name, at=at, create=True)

    def _listed(self, path: tuple[str, ...]) -> list[str]:
        with suppress(FileUnreadable), self._walked(path, create=False) as at:
            return sorted(os.listdir(at))
        return []


def _unplanted(name: str, at: int) -> None:
    """Give what a workload put in the place of a directory another name, beside it."""
    with suppress(OSError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            files.move_aside(at, name)


def _link(path: tuple[str, ...]) -> str:
    """Return the name in staging of the lease of a directory. No name in a path contains `@`, but for the last one in
    that of a unit.
    """
    return _LINK + "@".join(path)


@contextmanager
def _dated(at: int, seconds: float) -> Iterator[str]:
    """Write an empty file with this time, and yield its name; the block moves it into place. Raise FileUnwritable."""
    with files.write_beside(at, lease.NAME, b"", sync=False, mode=0o644) as fresh:
        os.utime(fresh, times=(seconds, seconds), dir_fd=at, follow_symlinks=False)
        yield fresh
