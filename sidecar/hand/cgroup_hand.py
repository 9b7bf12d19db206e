"""The hand: writes cgroups itself, and answers births and foreign writes from what it was told before.

The theory.

1. A thread waits for the kernel's events (`watcher`). A newborn group is watched first and written then: whatever the
   runtime writes after our write is an event, and whatever it wrote before is overwritten.
2. Every write makes an event, our own as well. The answer to one is to read the file, and to write the expected line
   if another one is there. The thread decides nothing: `expected` follows from the standing answers, or from the order
   that wrote the group last.
3. The daemon swaps the answers under the same lock, after pending events have been taken. So on return there is no
   group with an earlier answer, except for those that cannot be written.
4. What cannot be written now is tried again by itself for some seconds (a controller that the engine has not enabled
   yet, a parent that has no CPUs yet), and at the next event of its file.
5. Events that the kernel dropped are replaced by reading the tree.
6. Owners' groups are watched for births inside them, which are only told (`owners_groups`).

A loop of foreign writes is answered each time, up to `MOST_ANSWERS` in a second for each group, and from then on every
`CALM_SECONDS`. People are told once in a second.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, Self

from sidecar.decide.facts import ContainerView
from sidecar.decide.orders import Answers, Update
from sidecar.failures import CgroupClosed, CgroupError, CgroupGone
from sidecar.hand import pinned_pods
from sidecar.hand.due import Due
from sidecar.hand.enforcing import Enforcer
from sidecar.hand.group_access import open_groups
from sidecar.hand.group_files import GroupFiles
from sidecar.hand.group_names import ParentKind
from sidecar.hand.group_places import GroupPlaces
from sidecar.hand.groups import Footing, GroupTable, WatchedGroup
from sidecar.hand.libc_calls import COMES, GOES, IN_ISDIR, IN_MODIFY, IN_Q_OVERFLOW, RENAMED, InotifyEvent, Queue
from sidecar.hand.news_room import NewsRoom
from sidecar.hand.owners_groups import OwnersGroups
from sidecar.hand.parents import default_parents, wanted_parents
from sidecar.hand.placing import order_many
from sidecar.hand.reflex_queue import open_queue
from sidecar.hand.shut_groups import is_impassable
from sidecar.hand.standing_answers import StandingAnswers, parsed
from sidecar.hand.urgency import Urgency
from sidecar.hand.watched_tree import WatchedTree
from sidecar.hand.watcher import Watcher
from sidecar.host.cgroup.places import CGROUP
from sidecar.ports import (
    GroupBorn,
    GroupGone,
    HandBroken,
    HandNews,
    HeldAnswers,
    NewsLost,
    ParentsChanged,
    ParentWritten,
)
from state import files as state_files
from state.cpuset import EMPTY, CPUSet
from state.key import ContainerKey

_MICROSECONDS: Final = 1_000_000
"""In a second."""

TAKEN_SECONDS: Final = 5.0
"""Between two attempts on parents that another process has locked."""


MOST_AT_ONCE: Final = 64
"""Groups written without a pause for others: the watcher, and whatever waits for the interpreter. For one the kernel
needs 10 us with 50 cpusets of v1 on the host, and 70 us with 500.
"""


class CgroupHand:
    """A Hand on the cgroups below a mount of /sys/fs/cgroup. Made by `open`; `close` ends it."""

    def __init__(
        self, files: GroupFiles, queue: Queue, manager: str, defaults: Mapping[str, ParentKind], home: tuple[str, ...]
    ) -> None:
        self._lock = threading.Lock()
        self._files = files
        self._queue = queue
        self._manager = manager
        self._defaults = defaults
        self.home = home
        """Where containers are born that name no parent, if that was told; as a path below the hierarchy's root."""
        self._table = GroupTable()
        self._places = GroupPlaces(manager, defaults)
        self._tree = WatchedTree(files, queue, self._table, self._places)
        self._due = Due()
        self._news = NewsRoom()
        self._enforcer = Enforcer(files, queue, self._table, self._places, self._due, self._news.add)
        self._inside = OwnersGroups(files, queue, self._tree.needs, self._news.add)
        self._told_parents: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        self._is_attempt_due = False
        self._watcher = Watcher(queue.fd, self._hear, self._end)
        self._is_closed = False

    @classmethod
    def open(
        cls,
        library: str | None,
        engine: str = "",
        parent: str = "",
        *,
        also: Iterable[str] = (),
        cgroup: str | Path = CGROUP,
        proc: str | Path = "/proc",
    ) -> Self:
        """Watch the engines' default parents, and read what is below them. Raise CgroupClosed if that is not possible.

        `library` is the compiled reflex (`find_library`), None without one. `engine` is the name of the engine whose
        containers are born there; "" for all. `parent` is what it was given as its default parent, "" if that is not
        known; `also` are such parents that engines seem to have, and may change. Nothing is written before the first
        `hold`.
        """
        files, manager = open_groups(cgroup, proc)
        try:
            queue = open_queue(library)
        except OSError as error:
            files.close()
            raise CgroupClosed(f"inotify is not available: {state_files.reason(error)}") from error
        defaults = default_parents(engine, manager, parent)
        for each in also:
            defaults |= default_parents(engine, manager, each)
        made = cls(files, queue, manager, defaults, tuple(defaults) if parent else ())
        made._begin()
        return made

    @property
    def parents(self) -> tuple[str, ...]:
        """The parents that are watched now, as paths below the hierarchy's root."""
        with self._lock:
            return self._tree.parents

    @property
    def taken(self) -> tuple[str, ...]:
        """The parents that are not watched because another process has locked them, as paths as well."""
        with self._lock:
            return self._tree.taken

    @property
    def shut(self) -> tuple[str, ...]:
        """The watched parents that this process may not enter, as paths as well."""
        with self._lock:
            return tuple(path for path in self._tree.parents if is_impassable(self._table.parents[path].fd))

    @property
    def urgency(self) -> Urgency:
        """The priority of the thread that answers."""
        return self._queue.urgency or self._watcher.urgency

    def hold(
        self,
        answers: Answers,
        parents: Sequence[str] = (),
        home: Sequence[str] = (),
        resting: Collection[ContainerKey] = (),
        *,
        keeps_defaults: bool = False,
    ) -> HeldAnswers:
        """Hold these answers, as the port describes."""
        compiled = StandingAnswers(answers)
        with self._lock:
            now = time.monotonic()
            wanted = partial(wanted_parents, self._defaults, manager=self._manager, home=home)
            self._places.hold(wanted((), keeps_defaults=keeps_defaults), answers, self._table.parents)
            self._tree.place()
            # Those born before get the new answers as well.
            self._enforcer.hold(compiled)
            self._take_all(now)
            if self._tree.want(wanted(parents, keeps_defaults=keeps_defaults)):
                self._settle_found(now)
            stuck, over = EMPTY, {key.id for key in resting}
            for group in self._table.groups():
                if group.id in over or not self._enforcer.called(group):
                    self._enforcer.forget_order(group)
                stuck |= self._enforcer.rewrite(group, now)
            pinned_pods.narrow(self._table, compiled)
            self._inside.follow((group.path, id) for id in compiled.owners for group in self._innermost(id))
            self._tell_parents(now)
            held = HeldAnswers(self._tree.parents, stuck)
        self._watcher.wake()
        return held

    def write(self, view: ContainerView, update: Update) -> CPUSet:
        """Write an update into a container's cgroup, as the port describes."""
        with self._lock:
            now = time.monotonic()
            self._take_all(now)
            return self._ordered(view, update, now)

    def write_many(self, writes: Sequence[tuple[ContainerView, Update]]) -> list[CPUSet | CgroupError]:
        """Write updates into many containers' cgroups, as the port describes."""
        found: list[CPUSet | CgroupError] = []
        for first in range(0, len(writes), MOST_AT_ONCE):
            some = writes[first : first + MOST_AT_ONCE]
            with self._lock:
                now = time.monotonic()
                self._take_all(now)
                alone = ((self._groups_of(view.id), update) for view, update in some)
                plain = ((groups[0], update) for groups, update in alone if self._is_plain(groups))
                done = order_many(self._queue, self._files, plain)
                for view, update in some:
                    try:
                        found.append(done[view.id] if view.id in done else self._ordered(view, update, now))
                    except CgroupError as error:
                        found.append(error)
        return found

    def _is_plain(self, groups: list[WatchedGroup]) -> bool:
        """Return whether an order is carried out by one write. In a pod, version 2 does not tell that it is not."""
        return len(groups) == 1 and (self._files.version == 1 or not pinned_pods.is_pod(self._table, groups[0].parent))

    def _ordered(self, view: ContainerView, update: Update, now: float) -> CPUSet:
        groups = self._groups_of(view.id)
        if not groups:
            raise CgroupGone(f"{view.name} has no cgroup below {', '.join(self._tree.parents)}")
        try:
            for group in groups:
                self._enforcer.order(group, update, now)
                if group.is_due:
                    # The watcher knows of nothing that is due so soon.
                    self._watcher.wake()
            return self._enforcer.effective(groups[-1])
        except OSError as error:
            shut = next((each.shut.reason for each in groups if each.shut), "")
            reason = shut or f"the cgroup {groups[0].path} cannot be written: {state_files.reason(error)}"
            is_gone = error.errno == errno.ENODEV or not self._enforcer.is_there(groups[-1])
            raise (CgroupGone if is_gone else CgroupClosed)(reason) from error

    def release(self, id: str | None) -> None:
        """Guard the cgroup of this container no more; None: all that exist now."""
        with self._lock:
            groups = self._table.groups() if id is None else self._groups_of(id)
            for group in groups:
                self._enforcer.release(group)

    def _groups_of(self, id: str) -> list[WatchedGroup]:
        return [group for group in self._table.by_id.get(id, []) if self._enforcer.called(group)]

    def _innermost(self, id: str) -> list[WatchedGroup]:
        """Return the groups of a container without those that are watched as parents."""
        return [group for group in self._groups_of(id) if group.path not in self._table.parents]

    async def news(self) -> Sequence[HandNews]:
        """Wait for news, and return all there are."""
        return await self._news.wait()

    def close(self) -> None:
        """End the thread, and leave all groups as they are. May be called twice."""
        if not self._is_closed:
            self._is_closed = True
            self._watcher.close()
            with self._lock, ExitStack() as ends:
                # From the last to the first, and whatever fails: it answers nothing any more, and locks nothing.
                for end in (self._news.close, self._files.close, self._queue.close):
                    ends.callback(end)
                for path in list(self._table.parents):
                    ends.callback(self._tree.forget, path)
                ends.callback(self._queue.halt)

    def _begin(self) -> None:
        now = time.monotonic()
        self._tree.want(self._defaults)
        self._settle_found(now)
        self._told_parents = (self._tree.parents, self._tree.taken)
        self._plan_attempt(now)
        self._queue.start()
        self._watcher.start()

    def _settle_found(self, now: float) -> None:
        for group in self._tree.settle(Footing.FOUND, now):
            self._enforcer.settle(group, now)

    def _plan_attempt(self, now: float) -> None:
        """Try the parents that another process has locked again later, if there are any."""
        if self._tree.taken and not self._is_attempt_due:
            self._is_attempt_due = True
            self._due.at(now + TAKEN_SECONDS, self._try_taken)

    def _try_taken(self, now: float) -> None:
        self._is_attempt_due = False
        self._settle_found(now)
        self._tell_parents(now)

    def _hear(self, waited: float) -> float | None:
        with self._lock:
            now = time.monotonic()
            # What the reflex left was not there for so long.
            self._take_events(now, now - waited if self._queue.is_passive else now)
            self._due.run(now)
            return self._due.pause(now)

    def _take_all(self, now: float) -> None:
        """Answer the events of everything that has happened."""
        self._queue.drain()
        while self._take_events(now, now):
            pass
        if self._due.pause(now) is not None:
            # The watcher may not know of it.
            self._watcher.wake()

    def _take_events(self, now: float, since: float) -> bool:
        """Answer the events of one read, which are no older than `since`. Return False if there were none."""
        any_came = False
        for event in self._queue.events():
            any_came = True
            if event.mask & IN_MODIFY:
                if group := self._table.by_watch.get(event.watch):
                    if event.name:
                        self._enforcer.answered(group, event.name, now, event.cookie / _MICROSECONDS)
                    self._enforcer.settle(group, now, since)
                elif parent := self._table.parent_by_cpuset.get(event.watch):
                    self._news.add(ParentWritten(parent.path))
            else:
                self._take_other(event, now)
        return any_came

    def _take_other(self, event: InotifyEvent, now: float) -> None:
        if event.mask & IN_Q_OVERFLOW:
            self._read_all(now)
        elif event.mask & IN_ISDIR and event.mask & COMES:
            is_renamed = bool(event.mask & RENAMED)
            for group in self._tree.created(event.watch, event.name, Footing.NEWBORN, now, is_renamed=is_renamed):
                if event.cookie and group.name == event.name and not is_renamed:
                    group.watch, group.is_answered = event.cookie, True
                    self._table.by_watch[group.watch] = group
                self._welcome(group, now)
            self._inside.created(event.watch, event.name)
            self._tell_parents(now)
        elif event.mask & IN_ISDIR and event.mask & GOES:
            self._inside.deleted(event.watch, event.name)
            if gone := self._tree.deleted(event.watch, event.name, is_renamed=bool(event.mask & RENAMED)):
                self._inside.forget(gone.path)
                self._news.add(GroupGone(gone.id, gone.path))
            self._tell_parents(now)

    def _welcome(self, group: WatchedGroup, now: float) -> None:
        self._enforcer.settle(group, now)
        wrote = parsed(group.line) if group.line and group.is_answered and not group.is_closed else None
        self._news.add(GroupBorn(called := self._enforcer.called(group), group.path, wrote, now))
        if self._enforcer.answers and called in self._enforcer.answers.owners:
            for each in self._innermost(called):
                self._inside.add(each.path, called)

    def _read_all(self, now: float) -> None:
        """Read the tree in place of events that were lost."""
        for parent in list(self._table.parents.values()):
            if self._tree.is_gone(parent):
                self._tree.forget(parent.path)
                continue
            there = set(self._files.names(parent.path))
            for name in parent.groups.keys() - there:
                self._tree.deleted(parent.watch, name)
            for group in list(parent.groups.values()):
                if self._tree.is_reborn(group):
                    self._tree.deleted(parent.watch, group.name)
                else:
                    self._enforcer.settle(group, now)
            for group in self._tree.read(parent, Footing.NEWBORN, now):
                self._welcome(group, now)
        for group in self._tree.settle(Footing.NEWBORN, now):
            self._welcome(group, now)
        self._inside.read_all()
        self._news.add(NewsLost())
        self._tell_parents(now)

    def _tell_parents(self, now: float) -> None:
        self._plan_attempt(now)
        if self._told_parents != (found := (self._tree.parents, self._tree.taken)):
            self._told_parents = found
            self._news.add(ParentsChanged(*found))

    def _end(self, error: Exception) -> None:
        try:
            # Without the watcher its answers would stay as they are, against every later order.
            self._queue.halt()
        finally:
            if isinstance(error, OSError):
                self._news.add(HandBroken(error.strerror or str(error)))
            else:
                self._news.add(HandBroken("its thread failed unexpectedly: the log has the error", error))
