"""A hand in memory: cgroups as a dictionary, and the same answers at once, without a thread."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import trio

from sidecar.decide.facts import ContainerView
from sidecar.decide.orders import Answers, Update
from sidecar.failures import CgroupClosed, CgroupError, CgroupGone
from sidecar.hand.group_names import GroupKind, ParentKind, recognized
from sidecar.hand.group_places import GroupPlaces
from sidecar.hand.groups import Footing
from sidecar.hand.parents import DEFAULTS, wanted_parents
from sidecar.hand.standing_answers import StandingAnswers, parsed
from sidecar.ports import GroupBorn, GroupGone, GroupOverwritten, GroupPinned, HandNews, HeldAnswers, ParentsChanged
from state.cpuset import EMPTY, CPUSet
from state.key import ContainerKey


class SimulatedGroup:
    """A cgroup: its CPUs, and what the hand knows of it."""

    def __init__(self, id: str, cpus: CPUSet, parent: str = "") -> None:
        self.id = id
        self.parent = parent
        self.cpus = self.theirs = cpus
        self.footing = Footing.NEWBORN
        self.ordered: bytes | None = None
        self.wrote = b""
        self.is_pinned = False
        """Whether that its runtime gave it CPUs of its own was told."""
        self.pin = b""
        """To which CPUs its engine had it pinned when an order guarded it no more."""
        self.is_closed = False
        """Whether the hand cannot write it."""


def _id_in(path: str) -> str:
    seen = recognized(path.rpartition("/")[2].encode(), ParentKind.GUESTS)
    return seen.id if seen else ""


class SimulatedHand:
    """A Hand whose host is driven by `make`, `remove` and `overwrite`, the work of runtimes and tenants."""

    def __init__(self, online: CPUSet, clock: Callable[[], float] = lambda: 0.0) -> None:
        self._online = online
        self._clock = clock
        self._answers: StandingAnswers | None = None
        self._wanted = dict(DEFAULTS)
        self._places = GroupPlaces("", DEFAULTS)
        self._there: dict[str, ParentKind] = {}
        self._elsewhere: set[str] = set()
        self._groups: dict[str, SimulatedGroup] = {}
        self._inside: dict[str, str] = {}
        """Groups inside those of owners that were told, by their paths, and the ids of these."""
        self.is_shut = False
        """Whether it was closed."""
        self.closed: tuple[str, ...] = ()
        """The parents that it may not enter."""
        self._send, self._receive = trio.open_memory_channel[HandNews](math.inf)

    # What happens on the host.

    def begin(self) -> None:
        """Begin (again): the groups that are there now are found."""
        self._answers = None
        for group in self._groups.values():
            group.footing = Footing.FOUND if group.id else group.footing

    def make(self, path: str) -> None:
        """Make a cgroup, as a runtime does, with all CPUs."""
        parent, _, name = path.rpartition("/")
        if path in self._wanted:
            self._there[path] = self._wanted[path]
            self._send.send_nowait(ParentsChanged(self.parents))
            return
        seen = recognized(name.encode(), self._there[parent]) if parent in self._there else None
        if seen is None:
            self._groups[path] = SimulatedGroup("", self._online)
            self._groups[path].footing = Footing.RELEASED
            self._look_inside()
            return
        if seen.kind is GroupKind.PARENT:
            self._there[path] = seen.parent_kind
            self._send.send_nowait(ParentsChanged(self.parents))
            return
        group = self._groups[path] = SimulatedGroup(seen.id, self._online, parent)
        self._enforce(group)
        wrote = None if self._expected(group) is None or group.is_closed else group.cpus
        self._send.send_nowait(GroupBorn(self._called(group), path, wrote, self._clock()))

    def remove(self, path: str) -> None:
        """Remove a cgroup."""
        if self._there.pop(path, None):
            self._send.send_nowait(ParentsChanged(self.parents))
        elif group := self._groups.pop(path, None):
            self._look_inside()
            if group.footing is Footing.RELEASED and not group.parent:
                return
            self._send.send_nowait(GroupGone(group.id, path))

    def overwrite(self, path: str, cpus: CPUSet) -> None:
        """Write a group's CPUs, as an engine or a tenant does."""
        group = self._groups[path]
        group.cpus = group.theirs = cpus
        group.wrote = str(cpus).encode()
        is_newborn = group.footing is Footing.NEWBORN and not group.is_pinned
        if is_newborn and self._answers and self._answers.is_pin(group.wrote):
            group.is_pinned = True
            self._send.send_nowait(GroupPinned(group.id))
        if self._enforce(group):
            self._send.send_nowait(GroupOverwritten(group.id, cpus, 1))

    def cpus(self, path: str) -> CPUSet:
        """Return the CPUs that a group has."""
        return self._groups[path].cpus

    # The port.

    @property
    def parents(self) -> tuple[str, ...]:
        """The parents that are there."""
        return tuple(sorted(self._there))

    @property
    def shut(self) -> tuple[str, ...]:
        """As the port says, and as a test has it."""
        return self.closed

    @property
    def taken(self) -> tuple[str, ...]:
        """The wanted parents that another hand watches."""
        return tuple(sorted(self._elsewhere))

    @property
    def home(self) -> tuple[str, ...]:
        """It was not told."""
        return ()

    def hold(
        self,
        answers: Answers,
        parents: Sequence[str] = (),
        home: Sequence[str] = (),
        resting: Collection[ContainerKey] = (),
        *,
        keeps_defaults: bool = False,
    ) -> HeldAnswers:
        """Hold these answers, and rewrite the newborns."""
        self._answers = StandingAnswers(answers)
        self._wanted = wanted_parents(DEFAULTS, parents, home=home, keeps_defaults=keeps_defaults)
        homes = wanted_parents(DEFAULTS, (), home=home, keeps_defaults=keeps_defaults)
        self._places.hold(homes, answers, self._there)
        stuck, over = EMPTY, {key.id for key in resting}
        for group in self._groups.values():
            called = self._called(group)
            is_over = group.id in over or not called
            is_left = group.footing is Footing.KNOWN or (group.footing is Footing.FOUND and called)
            if is_over and is_left and self._answers.for_newborn(called) is not None:
                group.footing, group.wrote = Footing.NEWBORN, b""
            if self._answers.for_newborn(called) is None:
                self._let_go(group)
            elif group.footing in (Footing.NEWBORN, Footing.FOUND):
                self._enforce(group)
                wanted = parsed(self._expected(group) or b"")
                stuck |= group.cpus if wanted and not group.cpus <= wanted else EMPTY
        self._look_inside()
        return HeldAnswers(self.parents, stuck)

    def write(self, view: ContainerView, update: Update) -> CPUSet:
        """Write an update into a container's cgroup."""
        found = [group for group in self._groups.values() if self._called(group) == view.id]
        if not found:
            raise CgroupGone(f"{view.name} has no cgroup")
        for group in found:
            if group.is_closed:
                group.footing = Footing.RELEASED
                raise CgroupClosed(f"the cgroup of {view.name} cannot be written")
            group.footing, group.ordered = Footing.KNOWN, str(update.cpus).encode()
            self._enforce(group)
        return found[-1].cpus

    def write_many(self, writes: Sequence[tuple[ContainerView, Update]]) -> list[CPUSet | CgroupError]:
        """Write many."""
        found: list[CPUSet | CgroupError] = []
        for view, update in writes:
            try:
                found.append(self.write(view, update))
            except CgroupError as error:
                found.append(error)
        return found

    def release(self, id: str | None) -> None:
        """Guard the cgroup of this container no more; None: all that exist now."""
        for group in self._groups.values():
            if id in (None, self._called(group)):
                group.footing = Footing.RELEASED

    async def news(self) -> Sequence[HandNews]:
        """Wait for news, and return all there are."""
        found = [await self._receive.receive()]
        while True:
            try:
                found.append(self._receive.receive_nowait())
            except trio.WouldBlock:
                return found

    def close(self) -> None:
        """Leave all groups as they are."""
        self.is_shut = True

    def _look_inside(self) -> None:
        """Tell what is inside owners' groups, and what is not any more."""
        owners = {
            path: called
            for path, group in self._groups.items()
            if self._answers and (called := self._called(group)) in self._answers.owners
        }
        there = {
            path: owner
            for path in self._groups
            for above, owner in owners.items()
            if path.startswith(f"{above}/") and _id_in(path)
        }
        for path in self._inside.keys() - there.keys():
            self._send.send_nowait(GroupGone(_id_in(path), path, self._inside[path]))
        for path in there.keys() - self._inside.keys():
            self._send.send_nowait(GroupBorn(_id_in(path), path, None, self._clock(), there[path]))
        self._inside = there

    def _called(self, group: SimulatedGroup) -> str:
        return group.id if self._places.stands_for(group.id, group.parent) else ""

    def _expected(self, group: SimulatedGroup) -> bytes | None:
        match group.footing:
            case Footing.KNOWN:
                return group.ordered
            case Footing.NEWBORN if self._answers:
                return self._answers.for_newborn(self._called(group), group.wrote)
            case Footing.FOUND if self._answers:
                return self._answers.for_found(self._called(group), str(group.theirs).encode())
            case _:
                return None

    def _let_go(self, group: SimulatedGroup) -> None:
        """Give a group what it would have without the hand, and guard it no more. What an order wrote stays, but for a
        pin by hand, also if that turns out to be another one.
        """
        pin = self._answers.pin_of(self._called(group)) if self._answers else b""
        is_outdated = bool(group.pin) and str(group.cpus).encode() == group.pin != pin
        if group.footing is Footing.KNOWN or is_outdated:
            group.footing, group.pin = Footing.RELEASED, pin
            group.cpus = parsed(pin) or group.cpus
        elif group.footing is not Footing.RELEASED:
            group.cpus = group.theirs

    def _enforce(self, group: SimulatedGroup) -> bool:
        """Bring a group to what is expected. Return whether it had other CPUs."""
        wanted = self._expected(group)
        if wanted is None or group.is_closed or str(group.cpus).encode() == wanted:
            return False
        group.cpus = parsed(wanted) or group.cpus
        return True
