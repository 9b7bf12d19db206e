"""The task that keeps every workload's projection true: the latest World to directories, as it changes.

The allocator withdraws what an order takes before the order leaves, and announces what begins a grace period or goes
with a signal; everything else is written here, after the kernel confirmed it. A container whose record, grant and
surroundings have not changed is skipped, so a pass over five hundred of them costs little when one changed. There is no
waiting between reading the world and writing a directory.

A container that asks for nothing and has no name below `by-name` gets its directory once it has lasted a second: it
cannot have mounted that, and most containers that are started by the dozen are gone by then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import trio

from sidecar.beat import next_beat
from sidecar.board import Board
from sidecar.crashes import Crashes
from sidecar.decide.books.give_up import refused_now
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.mounts import mounted_name
from sidecar.decide.container.role import role_of
from sidecar.decide.facts import ContainerView
from sidecar.decide.moves.alone import is_alone
from sidecar.decide.moves.settled import is_settled
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from sidecar.log import Log
from sidecar.projection.belongings import short_of
from sidecar.projection.projection_of import has_projection, may_be_told, names_of, projection_of
from sidecar.projection.projections import Projections
from sidecar.words.name_claims import name_claims_text
from sidecar.words.neighbours import company
from sidecar.words.reasons import reason_of
from state.cpuset import EMPTY, CPUSet
from state.errors import ProjectionError
from state.key import ContainerKey
from state.model import Assignment, Refused

_MOST_REASONS: Final = 5
"""Different reasons that a problem names."""

PAUSE: Final = 0.001
"""Seconds before writing, so that the orders of the same decision leave first: writing directories takes as long."""

BRIEF_SECONDS: Final = 1.0
"""How long a container may wait for its first projection if it cannot have mounted it."""

CHECK_SECONDS: Final = 5.0
"""How long what workloads do to their files may stay unnoticed, once there is anything to tell."""

SILENT_SECONDS: Final = 10.0
"""Between two looks at the files while there is nothing to tell."""

CHECKED_AT_ONCE: Final = 16
"""Containers whose files are read before anything else has its turn: half a millisecond."""

_Known = tuple[Container, Container, Assignment | None, CPUSet, bool, bool, str, Refused | None]
"""All that a projection depends on: the container, its grant with what leaves it and why, the shared pool, whether it
is settled, and alone or beside which others, and why it was refused. Of one pinned by hand, its whole reason."""

_GRANT: Final = 2
"""Where in that its grant is."""

_SETTLED: Final = 4
"""Where in that it is told whether it is settled."""

_ALONE: Final = 5
"""Where in that it is told whether it is alone."""


class Teller:
    """Writes projections, one container at a time, yielding between them."""

    def __init__(
        self,
        board: Board,
        projections: Projections,
        report: Callable[[str, str | None], None],
        log: Log,
        brief_seconds: float = BRIEF_SECONDS,
    ) -> None:
        self._board = board
        self._crashes = Crashes(board, log)
        self._projections = projections
        self._report = report
        self._known: dict[ContainerKey, _Known | None] = {}
        """What was last written for each container; None if it could never be written in full, but may have
        directories.
        """
        self._brief_seconds = brief_seconds
        self._due: dict[ContainerKey, float] = {}
        """When each container without a projection that can wait for it gets it, by trio's clock."""
        self._checked_at = -math.inf
        self._has_swept = False
        self._rounds = 0
        self._told: World | None = None
        """The world that was last told in full."""

    def sign(self) -> int | None:
        """Return how many worlds were told, as a sign of life; None if the latest one is."""
        return None if self._told is self._board.latest else self._rounds

    async def run(self) -> None:
        """Write projections until cancelled."""
        count = 0
        while True:
            due = min(self._due.values(), default=math.inf)
            with trio.move_on_at(min(due, next_beat(trio.current_time(), SILENT_SECONDS))) as silence:
                count = await self._board.changed_since(count)
            if silence.cancelled_caught and trio.current_time() < due and await self._is_intact():
                continue
            await self._tell_settled()
            await trio.sleep(PAUSE)
            world = self._board.latest
            if world.is_ready or self._has_swept:
                await self._tell_or_withdraw(world)
            self._told = world
            self._rounds += 1

    async def _is_intact(self) -> bool:
        """Return whether nothing was done to what is written, as far as it is kept now."""
        errors: list[str] = []
        return not self._board.latest.is_ready or not (await self._forget_lost(errors) or errors)

    async def _tell_or_withdraw(self, world: World) -> None:
        if world.settings.policy is not PolicyName.NONE:
            await self.tell(world)
        elif self._known or not self._has_swept:
            # The projections are no longer kept current, and those of an earlier run never were.
            self._has_swept = True
            self._known.clear()
            errors: list[str] = []
            self._attempt(errors, partial(self._projections.retain, ()))
            self._report("projections", "; ".join(errors) or None)

    async def tell(self, world: World) -> None:
        """Write the projections of this world."""
        errors: list[str] = []
        self._due = {key: due for key, due in self._due.items() if key in world.containers}
        if not self._has_swept and (world.sees_all or not world.is_ready):
            # What another engine has is known once it was looked at.
            self._has_swept = True
            self._attempt(errors, partial(self._projections.retain, _bearers(world)))
        await self._tell_each((), errors)
        for key in [key for key in self._known if not _is_told(world, key)]:
            if self._attempt(errors, partial(self._projections.remove, key.handle)):
                del self._known[key]
        # The older container claims a name first, if both are new here.
        by_age = sorted(world.containers, key=lambda key: (key not in self._known, world.containers[key].view.age))
        await self._tell_each(by_age, errors)
        # What nobody waits for comes last.
        lost = await self._forget_lost(errors)
        await self._tell_each(filter(lost.__contains__, by_age), errors)
        self._attempt(errors, partial(self._projections.remove_spare_names, partial(_mounted, world)))
        said = (_summary(errors), name_claims_text(self._refused_claims(world)))
        self._report("projections", "; ".join(filter(None, said)) or None)

    async def _tell_settled(self) -> None:
        """Tell owners that they are settled, which is what they wait for: before the pause. What fails is tried again,
        and reported, after it.
        """
        world = self._board.latest
        if not (world.is_ready and self._has_swept) or world.settings.policy is PolicyName.NONE:
            return
        if any(is_settled(world, world.containers[key]) for key in self._waiting_owners()):
            await self._tell_each((), [])

    def _waiting_owners(self) -> list[ContainerKey]:
        """Return the containers with CPUs of their own that were not told to be settled, and claim no name now.
        They wait for that word: how many others share what changed, and how many are gone, must not delay it.
        """
        world = self._board.latest
        grants = world.state.assignments
        untold = [key for key in grants if (told := self._known.get(key)) is None or not told[_SETTLED]]
        return [
            key
            for key in sorted(untold)
            if (container := world.containers.get(key)) and (key in self._known or not names_of(world, container))
        ]

    async def _tell_each(self, keys: Iterable[ContainerKey], errors: list[str]) -> None:
        """Tell these, and before each of them the owners that wait at that instant."""
        seen: World | None = None
        for key in (None, *keys):
            if seen is not self._board.latest:
                seen = self._board.latest
                for owner in self._waiting_owners():
                    with self._crashes.contained(owner, "projection"):
                        self._tell_one(owner, errors)
            if key is not None:
                with self._crashes.contained(key, "projection"):
                    self._tell_one(key, errors)
            await trio.lowlevel.checkpoint()

    def _refused_claims(self, world: World) -> list[tuple[str, str, tuple[str, ...]]]:
        """Return each name that several containers claim, the container that has it, and the others. Those of the same
        service as the first share its name as replicas do, and do not count.
        """
        if not (shared := self._projections.claims.shared()):
            return []
        views = {short_of(key.id): each.view for key, each in world.containers.items() if not key.is_unit}
        found = []
        for name, claims in sorted(shared.items()):
            known = [views[short] for short in claims if short in views]
            others = tuple(each.name for each in known[1:] if not _is_replica(known[0], each))
            if others:
                found.append((name, known[0].name, others))
        return found

    def _tell_one(self, key: ContainerKey, errors: list[str]) -> None:
        """Write one container's projection of the *latest* world: withdrawn CPUs must not appear again."""
        world = self._board.latest
        container = world.containers.get(key)
        if container is None or not has_projection(world, container):
            return
        if not may_be_told(world, key, told=self._told_alone(key)):
            return
        known = _known(world, key, container)
        if _is_same(self._known.get(key), known) or self._can_wait(world, container):
            return
        projection, names = projection_of(world, container), names_of(world, container)
        self._known.setdefault(key, None)
        if self._attempt(errors, partial(self._projections.write, key.handle, names, projection)):
            self._known[key] = known

    def _told_alone(self, key: ContainerKey) -> CPUSet | None:
        """Return where a container was told to be alone: nowhere if it was not; None if it was told to own nothing."""
        told = self._known.get(key)
        if told is None or told[_GRANT] is None:
            return None
        return CPUSet.from_mask(told[0].footprint) if told[_ALONE] else EMPTY

    def _can_wait(self, world: World, container: Container) -> bool:
        """Return whether it gets its first projection later."""
        key = container.view.key
        asks = (
            container.wish.demand is not None or key in world.state.assignments or refused_now(world, key) is not None
        )
        # A strict start mounts the directory, and waits for it.
        is_brief = not (asks or container.is_strict or key in self._known or names_of(world, container))
        if is_brief and trio.current_time() < self._due.setdefault(key, trio.current_time() + self._brief_seconds):
            return True
        self._due.pop(key, None)
        return False

    async def _forget_lost(self, errors: list[str]) -> set[ContainerKey]:
        """Forget containers whose directories are gone, and return them: a remounted volume is empty, and people clean
        up. Now and then, forget also those in whose directories something else is than was written; these are read some
        at a time, and owners that wait are told in between.
        """
        reads_files = trio.current_time() >= self._checked_at + CHECK_SECONDS
        if reads_files:
            self._checked_at = trio.current_time()
        handles, lost = [key.handle for key in self._known], set[str]()

        def look(some: list[str]) -> None:
            lost.update(self._projections.lost(some, reads_files=reads_files))

        most = CHECKED_AT_ONCE if reads_files else len(handles)
        for first in range(0, len(handles), most or 1):
            self._attempt(errors, partial(look, handles[first : first + most]))
            await self._tell_each((), errors)
        # What could never be written is tried again with the next world.
        found = {key for key, known in self._known.items() if known is not None and key.handle in lost}
        for key in found:
            del self._known[key]
        return found

    def _attempt(self, errors: list[str], write: Callable[[], None]) -> bool:
        try:
            write()
        except ProjectionError as error:
            errors += map(str, error.args)
            return False
        return True


def _is_replica(first: ContainerView, other: ContainerView) -> bool:
    """Return whether both are containers of one service."""
    role, another = (role_of(each).rstrip("0123456789") for each in (first, other))
    return bool(role) and role == another


def _bearers(world: World) -> list[str]:
    """Return what may have projections: what is known, and units that are not looked at yet."""
    unknown = (key for key in world.state.assignments if key.is_unit and key not in world.containers)
    return [key.handle for key in (*(key for key in world.containers if _is_told(world, key)), *unknown)]


def _is_told(world: World, key: ContainerKey) -> bool:
    container = world.containers.get(key)
    return container is not None and has_projection(world, container)


def _mounted(world: World) -> frozenset[str]:
    """Return the names whose directories containers have mounted."""
    found = (mounted_name(view, world.settings) for view in (each.view for each in world.containers.values()))
    return frozenset(name for name in found if name)


def _summary(errors: list[str]) -> str:
    """Return errors as one sentence, each reason once: what one container causes many times hides no other's."""
    by_reason: dict[str, list[str]] = {}
    for error in errors:
        place, _, reason = error.partition(": ")
        by_reason.setdefault(reason, []).append(place)
    told = [
        f"{places[0]}: {reason}{f' (and {len(places) - 1} more)' if len(places) > 1 else ''}"
        for reason, places in list(by_reason.items())[:_MOST_REASONS]
    ]
    return "; ".join(told)


def _known(world: World, key: ContainerKey, container: Container) -> _Known:
    assignment = world.state.assignments.get(key)
    settled = assignment is not None and is_settled(world, container)
    alone = settled and is_alone(world, container)
    beside = company(world, container) if settled and not alone else ""
    if container.wish.pin or container.wish.standing is Standing.STRANGER:
        # Which others have its CPUs is known nowhere else.
        beside = reason_of(world, container)
    confined = world.group if container.view.in_shared_group and world.group else container
    return container, confined, assignment, world.state.shared, settled, alone, beside, refused_now(world, key)


def _is_same(before: _Known | None, now: _Known) -> bool:
    return (
        before is not None and all(a is b for a, b in zip(before[:3], now[:3], strict=True)) and before[3:] == now[3:]
    )
