"""The daemon's root of projection directories: the projection of every managed container, by ID and by name.

    .staging/                      0700; files are written here and moved into place
    by-id/<12 hex>/                one for each managed container
    by-unit/<name>/                one for each unit of the host that asks for CPUs of its own
    by-name/<name>/by-id/<12 hex>/ for each container that uses the name
    by-name/<name>/                the same files once more, for the first container that claimed the name

Rules:

1. The files in all directories of a container are the same, number included. The number continues from the highest one
   found in any of them, so it only grows for a reader of any of them (`numbering.py`).
2. A mount of a removed directory stays stale. So when no container uses a name any more, its directory stays:
   `status.json` is set to `unmanaged`, and `cpuset` is removed. Of such directories `SPARE_NAMES` are kept, those that
   were used last, and all that a known container has mounted.
3. Directories by id are removed with their container, and belong to the first one whose id begins so. The files at the
   top of a name belong to the first one that claimed it, after a restart of the daemon too; then to the next one.
4. Workloads may have their own directory mounted writable. So nothing found inside is trusted: every step is relative
   to an open directory and follows no link; what was planted in the place of another thing is replaced. An error in one
   directory stops no other. Without space, what workloads wrote beside our files is removed (`clearing.py`).
5. Nothing is kept open: what was deleted is created again at the next write. The teller asks what is `lost`.
6. The rest of a grace period is counted from its `announce`, on a steady clock, and written with each update in the
   meantime; of several, the one that ends first. The passing of time alone is not written.
7. Each directory has a lease, which the daemon renews while the files hold what it last wrote (`leases.py`). It begins
   with `write`, after the files, since the old ones may be out of date; in a new directory before them, so that they
   are never seen unvouched. It ends as soon as a file cannot be written.
8. A generation acknowledges CPUs if it and all later ones announced that they leave: the first such is `since`. It
   stays the same while all leaving CPUs were already leaving in the previous files. A record that no workload can write
   keeps it across a restart of the daemon.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

import msgspec

from sidecar.projection.attempts import SpaceMaker, attempted, attempted_with_room, raise_all
from sidecar.projection.belongings import NameClaims, Owners, SpareNames, ToldProjection, own_place, short_of
from sidecar.projection.directories import ProjectionTree, opened_root
from sidecar.projection.file_replacer import Replacer
from sidecar.projection.leases import Leases, Place, lease_of
from sidecar.projection.leftovers import Leftovers
from sidecar.projection.narrowing import Narrowing
from sidecar.projection.numbering import Numbers, time_text
from state.cpuset import CPUSet
from state.errors import ProjectionMissing, StateError
from state.lease import LEASE_SECONDS
from state.projection import Projection, ProjectionDirectory, ProjectionFiles, checked_name


class Projections:
    """Writes and removes projection directories below one root. Every method may raise ProjectionError."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        clock: Callable[[], float],
        steady: Callable[[], float] = time.monotonic,
        lease_seconds: float = LEASE_SECONDS,
        replacer: Replacer | None = None,
    ) -> None:
        """Open (or make) the root, and read what an earlier run left there. `clock` gives seconds since 1970, `steady`
        those by which graces are measured. A renewal of a lease counts for `lease_seconds`. Without a `replacer`, many
        withdrawals are made one by one.
        """
        self._root = os.fspath(root)
        self._clock = clock
        self._steady = steady
        self._lease_seconds = lease_seconds
        self._leases = Leases(clock, lease_seconds)
        self._told: dict[str, ToldProjection] = {}
        self._ends: dict[str, tuple[float, ...]] = {}
        """When the graces of a container's leaving CPUs are over, by the steady clock."""
        self._owners = Owners()
        self.claims = NameClaims()
        self._room = SpaceMaker(steady)
        self._left = Leftovers()
        with opened_root(self._root) as tree:
            self._numbers = Numbers(tree.ceiling())
            self._narrowing = Narrowing(self._root, self._told, self._owners, self._numbers, clock, replacer)
            tree.drop_leases()
            for short in tree.ids():
                self._told[short] = ToldProjection(None, frozenset())
            for name in tree.names():
                for short in tree.users(name):
                    self._told[short] = ToldProjection(None, self._names(short) | {name})
            for name in tree.names():
                users = {short for short, told in self._told.items() if name in told.names}
                self.claims.begin(name, tree.claims(name), users)
            used = {name for told in self._told.values() for name in told.names}
            unused = (name for name in tree.names() if name not in used)
            self._spare = SpareNames(sorted(unused, key=tree.age))

    def write(self, container: str, names: Iterable[str], projection: Projection) -> None:
        """Write a container's projection, by id and by each name, and vouch for it. Nothing is written if nothing
        changed. A directory in error keeps no other from being written: ProjectionError names all of them.
        """
        self._write(self._owners.own(container), names, projection, vouches=True)

    def begin(self, container: str, projection: Projection) -> None:
        """Write the projection of a container that has none, by id."""
        if short_of(container) not in self._told:
            self.write(container, (), projection)

    def announce(
        self, container: str, names: Iterable[str], projection: Projection, *, grace_seconds: float | None = None
    ) -> None:
        """Write a container's projection before a signal is sent, or, with `grace_seconds`, before a grace period of
        this length begins. A new grace period always gets a new number and time, even if nothing else changed.
        """
        short = self._owners.own(container)
        if grace_seconds is not None:
            # The time runs from now on, whether or not the writing succeeds.
            self._ends[short] = (*self._ends.get(short, ()), self._steady() + grace_seconds)
        self._write(short, names, projection, anew=grace_seconds is not None)

    def _write(
        self, short: str, names: Iterable[str], projection: Projection, *, anew: bool = False, vouches: bool = False
    ) -> None:
        self._spare.used(wanted := frozenset(checked_name(name) for name in names))
        former = self._names(short) - wanted
        with opened_root(self._root) as tree:
            errors = [error for name in sorted(wanted) for error in self._claim(tree, short, name)]
            errors += self._tell(tree, short, wanted, projection, anew=anew, vouches=vouches)
            for name in sorted(former):
                errors += attempted(partial(self._leave, tree, short, name))
        raise_all(errors)

    def awaited(self, container: str, leaving: CPUSet) -> range:
        """Return the generations any of which acknowledges that the container left these CPUs.

        Return an empty range if they were not announced to it.
        """
        told = self._told.get(short_of(container)) if self._owners.is_owner(container) else None
        if told is None or told.projection is None or told.since is None or not leaving <= told.projection.leaving:
            return range(0)
        return range(told.since, told.projection.generation + 1)

    @contextmanager
    def directories(self, container: str) -> Iterator[tuple[int, ...]]:
        """Yield descriptors of the directories that notify this container, and in any of which it may acknowledge.

        Directories that are missing, or have something planted on the way, are left out. All are closed after the
        block.
        """
        short = short_of(container)
        found: list[int] = []
        with ExitStack() as stack:
            with suppress(StateError):
                if not self._owners.is_owner(container):
                    raise ProjectionMissing(container)
                tree = stack.enter_context(opened_root(self._root))
                for path in self._paths(short, self._names(short)):
                    with suppress(StateError):
                        found.append(stack.enter_context(tree.opened(path)))
            yield tuple(found)

    def withdraw(self, container: str, cpus: CPUSet) -> None:
        """Remove CPUs outside `cpus` from the files, before an order takes them away. Costs nothing if there are none.
        If no CPU is left, there is no `cpuset` file until the next `write`. A file that cannot be written is removed,
        which needs no space: no file is better than a wrong one.
        """
        short = short_of(container)
        told = self._told.get(short)
        if told is None or not self._owners.is_owner(container):
            return
        if (present := told.projection) is None:
            with opened_root(self._root) as tree:
                present = tree.told(short)
        if present is None or (told.is_everywhere and present.cpus <= cpus):
            return
        narrowed = present if present.cpus <= cpus else present.within(cpus)
        with opened_root(self._root) as tree:
            raise_all(self._tell(tree, short, told.names, narrowed, or_withhold=True))

    def withdraw_many(self, taken: Sequence[tuple[str, CPUSet]]) -> list[str]:
        """Do the same for many containers, each once, as far as that is plain. Return those left to `withdraw`."""
        return self._narrowing.narrow(taken)

    def correct(self, container: str, projection: Projection) -> None:
        """Write this into the files that a container has, before others are let onto CPUs that were its own."""
        if (short := short_of(container)) in self._told and self._owners.is_owner(container):
            with opened_root(self._root) as tree:
                raise_all(self._tell(tree, short, self._names(short), projection, or_withhold=True))

    def vouched(self) -> list[Place]:
        """Begin a round of renewals; return the leases that are held."""
        return self._leases.held()

    def renew(self, leases: Iterable[Place]) -> None:
        """Renew these leases. Raise ProjectionError for those that could not be."""
        with opened_root(self._root) as tree:
            raise_all(self._leases.renew(tree, leases))

    def end_leases(self) -> None:
        """Vouch for nothing any more. The files stay as they are."""
        with opened_root(self._root) as tree:
            self._leases.end_all(tree)

    def lost(self, containers: Iterable[str], *, reads_files: bool = False) -> list[str]:
        """Return the containers whose directory by ID or name is gone or, with `reads_files`, has other files than were
        written. `write` creates it again.
        """
        with opened_root(self._root) as tree:
            ids, names = set(tree.ids()), set(tree.names())

            def is_lost(told: ToldProjection, short: str) -> bool:
                is_there = short in ids and told.names <= names
                return not is_there or (reads_files and tree.differs(self._paths(short, told.names), told.written))

            shorts = ((id, short_of(id)) for id in containers if self._owners.is_owner(id))
            return [id for id, at in shorts if at in self._told and is_lost(self._told[at], at)]

    def remove(self, container: str) -> None:
        """Remove the directories of a container that is gone or no longer managed; its names stay."""
        if self._owners.is_owner(container):
            self._forget(short_of(container))

    def retain(self, containers: Iterable[str]) -> None:
        """Remove what belongs to any other container than these."""
        kept = {short_of(container) for container in containers if self._owners.is_owner(container)}
        errors: list[str] = []
        # The first of each name last, so that none becomes it only to be removed next.
        firsts = {each for each, told in self._told.items() if any(self.claims.is_first(n, each) for n in told.names)}
        for short in sorted(set(self._told) - kept, key=lambda each: (each in firsts, each)):
            errors += attempted(partial(self._forget, short))
        raise_all(errors)

    def remove_spare_names(self, mounted: Callable[[], Collection[str]]) -> None:
        """Remove directories of unused names, but for the last `SPARE_NAMES` and those `mounted`; and leftovers."""
        too_many = self._spare.too_many()
        if not (too_many or self._left):
            return
        with opened_root(self._root) as tree:
            self._left.go_on(tree)
            for name in self._spare.oldest(kept=mounted()) if too_many else ():
                tree.remove(("by-name",), name)
                if not tree.is_there(("by-name", name)):
                    self._spare.used([name])

    def _names(self, short: str) -> frozenset[str]:
        return told.names if (told := self._told.get(short)) else frozenset()

    def _paths(self, short: str, names: Iterable[str]) -> list[tuple[str, ...]]:
        """Return the directories of a container that uses these names, below the root."""
        paths: list[tuple[str, ...]] = [own_place(short)]
        for name in sorted(names):
            paths.append(("by-name", name, "by-id", short))
            if self.claims.is_first(name, short):
                paths.append(("by-name", name))
        return paths

    def _tell(
        self,
        tree: ProjectionTree,
        short: str,
        names: frozenset[str],
        projection: Projection,
        *,
        or_withhold: bool = False,
        anew: bool = False,
        vouches: bool = False,
    ) -> list[str]:
        projection = msgspec.structs.replace(projection, lease_seconds=self._lease_seconds)
        errors: list[str] = []
        make_room = partial(self._room.make, tree)
        opened: dict[Place, ProjectionDirectory] = {}
        try:
            self._left.used(paths := self._paths(short, names))
            for path in paths:
                try:
                    opened[path] = tree.open_projection(path)
                except StateError as error:
                    self._leases.end(tree, path)
                    errors.append(f"{'/'.join(path)}: {error}")
            last = known.written if (known := self._told.get(short)) else None
            stamped, since = self._stamped(tree, short, projection, list(opened.values()), anew=anew)
            errors += self._record(tree, short, since, stamped.leaving)
            new = last if last and stamped is last.projection else ProjectionFiles.of(stamped)
            # Remembered before it is written: whatever happens then, the next number is higher.
            self._told[short] = ToldProjection(new, names, since=since)
            for path, directory in opened.items():
                failed: list[str] = []
                hold = partial(self._leases.hold, tree, path, directory.at, lease_of(path, short))
                if vouches and directory.is_new():
                    failed += attempted(hold)
                if unwritten := attempted_with_room(partial(directory.put, new, last), make_room):
                    self._leases.end(tree, path)
                    failed += unwritten
                    if or_withhold:
                        failed += attempted(partial(directory.withhold_all_but, new))
                elif vouches and not failed:
                    failed += attempted(hold)
                errors += [f"{'/'.join(path)}: {error}" for error in failed]
        finally:
            for directory in opened.values():
                os.close(directory.at)
        if not errors:
            self._told[short] = ToldProjection(new, names, is_everywhere=True, since=since)
        return errors

    def _stamped(
        self, tree: ProjectionTree, short: str, projection: Projection, opened: list[ProjectionDirectory], *, anew: bool
    ) -> tuple[Projection, int | None]:
        """Return the last projection if it is the same (rule 1), else with the next number; and since when (rule 8)."""
        known = self._told.get(short)
        last, since = (known.projection, known.since) if known else (None, None)
        found = self._numbers.believed(opened, known.written if known else None)
        if last is None:
            # After a restart of the daemon: the projection in its own directory.
            last = next((told for told in found if told.container == projection.container), None)
            record = tree.since(short) if last and last.leaving else None
            since = record[0] if record and projection.leaving <= record[1] else None
        highest = max([told.generation for told in found] + ([last.generation] if last else [0]))
        if last is None or last.generation != highest or not projection.leaving <= last.leaving:
            # In between, another container may have had this name, and acknowledged.
            since = None
        is_newest = last is not None and all(t == last or t.generation < last.generation for t in found)
        if last and is_newest and not anew and last.says_the_same_as(projection):
            return last, last.generation if since is None and last.leaving else since
        stamped = projection.stamped(self._numbers.claim(highest + 1, tree.put_ceiling), time_text(self._clock()))
        stamped = msgspec.structs.replace(stamped, deadline_seconds=self.seconds_left(short, projection))
        if not stamped.leaving:
            return stamped, None
        return stamped, highest + 1 if since is None else since

    def _record(self, tree: ProjectionTree, short: str, since: int | None, leaving: CPUSet) -> list[str]:
        """Write the record before the files (rule 8): a missed acknowledgement is better than a false one."""
        known = self._told.get(short)
        if known and known.since == since and known.projection and known.projection.leaving == leaving:
            return []
        if since is None:
            return attempted(partial(tree.remove_since, short))
        return attempted_with_room(partial(tree.put_since, short, since, leaving), partial(self._room.make, tree))

    def seconds_left(self, short: str, projection: Projection) -> float | None:
        """Return the seconds until the first unexpired grace is over (rule 6). CPUs that are due have no time left."""
        if not projection.leaving:
            self._ends.pop(short, None)
            return None
        if not projection.deadline_seconds or short not in self._ends:
            return projection.deadline_seconds
        now = self._steady()
        self._ends[short] = tuple(end for end in self._ends[short] if end > now)
        return round(min(self._ends[short], default=now) - now, 3)

    def _claim(self, tree: ProjectionTree, short: str, name: str) -> list[str]:
        """Note that a container uses a name, also for the next run if there are several."""
        is_new, claims = self.claims.claim(name, short), self.claims.of(name)
        if len(claims) == 1 or (not is_new and tree.has_claims(name)):
            return []
        return attempted(partial(tree.put_claims, name, claims))

    def _forget(self, short: str) -> None:
        self._ends.pop(short, None)
        if short not in self._told:
            return
        errors: list[str] = []
        with opened_root(self._root) as tree:
            for name in sorted(self._names(short)):
                errors += attempted(partial(self._leave, tree, short, name))
            self._leases.forget(tree, own := own_place(short))
            errors += attempted(partial(self._left.remove, tree, own))
            errors += attempted(partial(tree.remove_since, short))
        # What could not be removed is still this container's, and is tried again.
        raise_all(errors)
        self._told.pop(short, None)
        self._owners.release(short)

    def _leave(self, tree: ProjectionTree, short: str, name: str) -> None:
        """Take a name from a container: the next one's files move up, or the name's become `unmanaged`."""
        was = self._told[short]
        if name in was.names:
            self._told[short] = msgspec.structs.replace(was, names=was.names - {name})
        self._leases.forget(tree, ("by-name", name, "by-id", short))
        self._left.remove(tree, ("by-name", name, "by-id", short))
        was_first = self.claims.is_first(name, short)
        self.claims.leave(name, short)
        claims = self.claims.of(name)
        attempted(partial(tree.put_claims, name, claims if len(claims) > 1 else ()))
        if heir := next((each for each in claims if each in self._told), ""):
            if was_first:
                told = self._told[heir]
                projection = told.projection or tree.told(heir)
                if told.projection is None:
                    # Nothing is known yet of what is there from an earlier run.
                    self._leases.end(tree, ("by-name", name))
                if projection:
                    raise_all(self._tell(tree, heir, told.names, projection, vouches=told.projection is not None))
            return
        self._leases.end(tree, ("by-name", name))
        self._spare.left(name)
        with tree.projection(("by-name", name)) as directory:
            self._numbers.put_unmanaged(directory, tree.put_ceiling, time_text(self._clock()))
