"""The daemon's root of projection directories: what every managed container is told, by id and by name.

    .staging/                      0700; files are written here and moved into place
    by-id/<12 hex>/                one for each managed container
    by-name/<name>/by-id/<12 hex>/ for each container that uses the name
    by-name/<name>/                the same files once more, for the one with the lowest id (nearly always the only one)

Rules:

1. A container is told one thing: the files in all its directories are the same, number included. The number goes on
   from the highest one found in any of them, so it only grows for whoever watches any of them.
2. A name's directory is never removed, since a container may have it mounted, and a mount of a directory that was
   removed is stuck for ever. When nobody uses the name any more, `status.json` says `unmanaged`, and `cpuset` goes.
3. Directories by id are removed with their container.
4. Workloads may have their own directory mounted writable. So nothing found inside is trusted: every step is relative
   to an open directory and follows no link; a thing planted where a directory or file should be is an error for that
   directory, and the container's other directories are written all the same.
5. Nothing is kept open: a root or directory that was deleted, or mounted anew, is made anew at the next write.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Final

import msgspec

from state import files
from state.cpuset import CPUSet
from state.errors import FileUnreadable, FileUnwritable, ProjectionError, StateError
from state.projection import CPUSET, STATUS, Projection, ProjectionDirectory, Sharing, checked_name

_FULL_ID: Final = re.compile(r"[0-9a-f]{12,64}")
_SHORT_ID: Final = re.compile(r"[0-9a-f]{12}")

ACK: Final = "ack"
"""Written by the workload; removed with its directory."""


class _Told(msgspec.Struct, frozen=True):
    """What a container was last told, the names that it uses, and whether all its directories say so."""

    projection: Projection | None
    names: frozenset[str]
    is_everywhere: bool = False


class Projections:
    """Writes and removes projection directories below one root. Every method may raise ProjectionError."""

    def __init__(self, root: str | os.PathLike[str], *, clock: Callable[[], float]) -> None:
        """Opens (or makes) the root, and looks what an earlier run left there. `clock` gives seconds since 1970."""
        self._root = os.fspath(root)
        self._clock = clock
        self._told: dict[str, _Told] = {}
        with self._opened() as tree:
            for short in tree.ids():
                self._told[short] = _Told(None, frozenset())
            for name in tree.names():
                for short in tree.users(name):
                    self._told[short] = _Told(None, self._names(short) | {name})

    def write(self, container: str, names: Iterable[str], projection: Projection) -> None:
        """Tell a container this, by id and by each name. Nothing is written where nothing changed.

        What can be written is, even where one directory is in error; ProjectionError then names all that are.
        """
        short = _short(container)
        wanted = frozenset(checked_name(name) for name in names)
        former = self._names(short) - wanted
        with self._opened() as tree:
            errors = self._tell(tree, short, wanted, projection)
            for name in sorted(former):
                errors += _attempt(partial(self._leave, tree, short, name))
        _raise(errors)

    def withdraw(self, container: str, cpus: CPUSet) -> None:
        """Before an order that takes CPUs away: let the files name none outside `cpus`. Costs nothing if they do not.

        Where that leaves none, there is no `cpuset` file until the next `write`. Where a file cannot be written, on a
        full disk for instance, it is removed, which needs no space: nothing is better than what is no longer true.
        """
        short = _short(container)
        told = self._told.get(short)
        if told is None:
            return
        with ExitStack() as stack:
            present = told.projection
            if present is None:
                tree = stack.enter_context(self._opened())
                present = tree.told(short)
            if present is None or (told.is_everywhere and present.cpus <= cpus):
                return
            tree = stack.enter_context(self._opened())
            narrowed = present if present.cpus <= cpus else present.within(cpus)
            _raise(self._tell(tree, short, told.names, narrowed, or_withhold=True))

    def remove(self, container: str) -> None:
        """The container is gone, or no longer managed: take its directories away, and leave its names."""
        self._forget(_short(container))

    def retain(self, containers: Iterable[str]) -> None:
        """Remove what belongs to any other container than these."""
        kept = {_short(container) for container in containers}
        errors: list[str] = []
        # The lowest last, so that nobody becomes the first of a name only to be removed next.
        for short in sorted(set(self._told) - kept, reverse=True):
            errors += _attempt(partial(self._forget, short))
        _raise(errors)

    def _names(self, short: str) -> frozenset[str]:
        told = self._told.get(short)
        return told.names if told else frozenset()

    def _tell(
        self, tree: _Tree, short: str, names: frozenset[str], projection: Projection, *, or_withhold: bool = False
    ) -> list[str]:
        errors: list[str] = []
        others = {name: self._users(name) - {short} for name in names}
        paths: list[tuple[str, ...]] = [("by-id", short)]
        for name in sorted(names):
            paths.append(("by-name", name, "by-id", short))
            if not others[name] or short < min(others[name]):
                paths.append(("by-name", name))
        with ExitStack() as stack:
            opened: dict[str, ProjectionDirectory] = {}
            for path in paths:
                place = "/".join(path)
                try:
                    opened[place] = stack.enter_context(tree.projection(path))
                except StateError as error:
                    errors.append(f"{place}: {error}")
            stamped = self._stamped(short, projection, list(opened.values()))
            # Remembered before it is written: whatever happens then, the next number is higher.
            self._told[short] = _Told(stamped, names)
            for place, directory in opened.items():
                if failed := _attempt(partial(directory.write, stamped)):
                    if or_withhold:
                        failed += _attempt(partial(directory.withhold_all_but, stamped))
                    errors += [f"{place}: {error}" for error in failed]
        if not errors:
            self._told[short] = _Told(stamped, names, is_everywhere=True)
        return errors

    def _stamped(self, short: str, projection: Projection, opened: list[ProjectionDirectory]) -> Projection:
        """Rule 1: as it was last told if that is what is to be said, or else with the next number."""
        found = [told for directory in opened if (told := directory.told())]
        known = self._told.get(short)
        last = known.projection if known else None
        if last is None:
            # After a restart of the daemon: what its own directory says.
            last = next((told for told in found if told.container == projection.container), None)
        highest = max([told.generation for told in found] + ([last.generation] if last else [0]))
        if (
            last
            and last.says_the_same_as(projection)
            and all(t == last or t.generation < last.generation for t in found)
        ):
            return last
        return projection.stamped(highest + 1, _time_text(self._clock()))

    def _users(self, name: str) -> set[str]:
        return {short for short, told in self._told.items() if name in told.names}

    def _forget(self, short: str) -> None:
        if short not in self._told:
            return
        errors: list[str] = []
        with self._opened() as tree:
            for name in sorted(self._names(short)):
                errors += _attempt(partial(self._leave, tree, short, name))
            errors += _attempt(partial(tree.remove, ("by-id",), short))
        self._told.pop(short, None)
        _raise(errors)

    def _leave(self, tree: _Tree, short: str, name: str) -> None:
        """A container stops using a name: the next one's files move up, or the name says `unmanaged`."""
        was = self._told[short]
        if name in was.names:
            self._told[short] = msgspec.structs.replace(was, names=was.names - {name})
        tree.remove(("by-name", name, "by-id"), short)
        if others := self._users(name):
            if short < (heir := min(others)):
                told = self._told[heir]
                projection = told.projection or tree.told(heir)
                if projection:
                    _raise(self._tell(tree, heir, told.names, projection))
            return
        with tree.projection(("by-name", name)) as directory:
            before = directory.told()
            gone = Projection(
                name=before.name if before else "",
                sharing=Sharing.UNMANAGED,
                reason="no container uses this projection now",
            )
            if before is None or not before.says_the_same_as(gone):
                number = (before.generation if before else 0) + 1
                directory.write(gone.stamped(number, _time_text(self._clock())))

    @contextmanager
    def _opened(self) -> Iterator[_Tree]:
        try:
            with (
                files.directory(self._root, create=True) as root,
                files.directory(".staging", at=root, create=True, mode=0o700) as staging,
            ):
                yield _Tree(root, staging)
        except (FileUnwritable, FileUnreadable) as error:
            raise ProjectionError(f"below {self._root}: {error}") from error


class _Tree:
    """The root, held open for one operation. Paths are tuples of names, each opened relative to the one before."""

    def __init__(self, root: int, staging: int) -> None:
        self._root = root
        self._staging = staging

    @contextmanager
    def projection(self, path: tuple[str, ...], *, create: bool = True) -> Iterator[ProjectionDirectory]:
        with self._walked(path, create=create) as at:
            yield ProjectionDirectory(at, self._staging)

    def told(self, short: str) -> Projection | None:
        """What the container's own directory says; None if it says nothing."""
        with suppress(FileUnreadable), self.projection(("by-id", short), create=False) as directory:
            return directory.told()
        return None

    def ids(self) -> list[str]:
        """The containers that have a directory."""
        return [name for name in self._listed(("by-id",)) if _SHORT_ID.fullmatch(name)]

    def names(self) -> list[str]:
        """The names that were ever used."""
        found = []
        for name in self._listed(("by-name",)):
            with suppress(ProjectionError):
                found.append(checked_name(name))
        return found

    def users(self, name: str) -> list[str]:
        """The containers that have a directory under a name."""
        return [short for short in self._listed(("by-name", name, "by-id")) if _SHORT_ID.fullmatch(short)]

    def remove(self, path: tuple[str, ...], short: str) -> None:
        """Remove a container's directory; one in which somebody put more than there should be is emptied of ours."""
        with suppress(FileUnreadable), self._walked(path, create=False) as above:
            try:
                with files.directory(short, at=above) as at:
                    for name in (CPUSET, STATUS, ACK):
                        with suppress(FileUnwritable):
                            files.remove(at, name)
            except FileUnreadable:
                # Not there, or a link: rmdir says the same, and a link of that name is not ours to keep.
                with suppress(FileUnwritable):
                    files.remove(above, short)
                return
            with suppress(OSError):
                os.rmdir(short, dir_fd=above)

    @contextmanager
    def _walked(self, path: tuple[str, ...], *, create: bool) -> Iterator[int]:
        with ExitStack() as stack:
            at = self._root
            for name in path:
                at = stack.enter_context(files.directory(name, at=at, create=create))
            yield at

    def _listed(self, path: tuple[str, ...]) -> list[str]:
        with suppress(FileUnreadable), self._walked(path, create=False) as at:
            return sorted(os.listdir(at))
        return []


def _short(container: str) -> str:
    if not _FULL_ID.fullmatch(container):
        raise ProjectionError(f"{container[:70]!r} is not a container's id")
    return container[:12]


def _time_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _attempt(write: Callable[[], None]) -> list[str]:
    """What went wrong, so that the rest is done all the same."""
    try:
        write()
    except StateError as error:
        return [str(error)]
    return []


def _raise(errors: list[str]) -> None:
    if errors:
        raise ProjectionError("; ".join(errors))
