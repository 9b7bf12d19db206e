"""The status document: the World for people to read. Pure: World in, document out.

It shows for each container where it runs, where it should run, whether it is alone there, what it waits for and why it
has its CPUs, in whole sentences. It contains the machine, so that a reader can draw it without access to the host.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from sidecar.decide.books.clashes import clashes_of
from sidecar.decide.books.queue import turn_of
from sidecar.decide.books.room import capacity, free
from sidecar.decide.container.askers import is_standing
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.facts import EngineInfo, Load, ViewKind
from sidecar.decide.moves.alone import is_alone, neighbours
from sidecar.decide.moves.settled import awaits_answer, desired, is_left_alone, is_quota_lifted, is_where_it_should_be
from sidecar.decide.moves.timers import grace_of
from sidecar.decide.settings import IsolatedRule, PolicyName
from sidecar.decide.world import World
from sidecar.natural_order import natural
from sidecar.status.engine_status import EngineStatus, engine_of, engines_of
from sidecar.status.machine_map import MachineMap, machine_of
from sidecar.words.causes import why
from sidecar.words.explanations import explanation, trouble, waits_for
from sidecar.words.hands import births_told
from sidecar.words.neighbours import clash_text
from sidecar.words.refusals import sentence, warnings
from sidecar.words.repairs import noted
from sidecar.words.units import PINNED, UNDER_NONE, HostConfinement, confined_told, not_confined_told
from state.cpuset import EMPTY, CPUSet
from state.demand import Demand, NumaRule
from state.key import ContainerKey
from state.model import Assignment

VERSION: Final = 1

Deadlines = Mapping[tuple[ContainerKey, int], str]
"""Until when each take waits at most (RFC 3339, UTC), by container and number."""


class SharingStatus(enum.StrEnum):
    """With what a container shares its CPUs, in the status document."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"
    STRANGER = "stranger"
    """Pinned by hand, and never moved."""
    UNMANAGED = "unmanaged"


class NeighbourStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Another container that may run on the CPUs of an exclusive one, and on which of them."""

    name: str
    sharing: SharingStatus
    cpus: CPUSet


class LeavingStatus(msgspec.Struct, frozen=True, kw_only=True):
    """CPUs that are being taken from a container: it may stay on them until it acknowledges `number`, for
    `notice_seconds`, which end at `until` (RFC 3339, UTC; "" where that is not known). Then the take `is_due`.
    """

    cpus: CPUSet
    number: int
    reason: str = ""
    is_due: bool = False
    notice_seconds: float = 0.0
    until: str = ""


class MoveStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a grant, and why it was made, as a sentence."""

    gained: CPUSet = EMPTY
    lost: CPUSet = EMPTY
    reason: str


class LoadStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The last measured load that mattered: `use` and `peak` in CPUs, `pressure` in percent."""

    use: float
    peak: float
    pressure: float = 0.0
    is_throttled: bool = False


class ContainerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One container, or one unit of the host, as `kind` tells. `asked` is the number of exclusive CPUs it asks for, 0
    for none.

    `cpus` is where it was last seen, `desired` where it should be (empty if the sidecar does not decide that),
    `pending` where it is being moved (empty if it is not). `is_settled`: what was decided is in force. `is_alone`: it
    is also exclusive, and no other container that the sidecar can see may run on its CPUs. If it is exclusive,
    `neighbours` are those that may. `since` numbers grants in their order, -1 without.

    `granted` are its recorded CPUs. It has between `floor` and `ceiling` CPUs, as `scale` and `weight` determine; 0 and
    "" unless the policy is dynamic. `ordered` is the size ordered by `resize`. `leaving` is what is being taken,
    `forced` counts takes without its acknowledgement, and `moves` are the last changes of its grant with their reasons.
    `clash` tells which containers are pinned by hand to its CPUs. `pinned` are the CPUs that no other container is
    granted now because this one is pinned there by hand.
    """

    id: str
    name: str
    engine: str = ""
    """That it is a container of, where there are several."""
    kind: ViewKind = ViewKind.CONTAINER
    phase: str
    sharing: SharingStatus
    asked: int = 0
    cpus: CPUSet = EMPTY
    desired: CPUSet = EMPTY
    granted: CPUSet = EMPTY
    original: CPUSet = EMPTY
    pending: CPUSet = EMPTY
    is_settled: bool = False
    is_alone: bool = False
    neighbours: tuple[NeighbourStatus, ...] = ()
    is_quota_lifted: bool = False
    since: int = -1
    floor: int = 0
    ceiling: int = 0
    scale: str = ""
    weight: int = 0
    ordered: int | None = None
    leaving: LeavingStatus | None = None
    forced: int = 0
    load: LoadStatus | None = None
    moves: tuple[MoveStatus, ...] = ()
    waits_for: str = ""
    clash: str = ""
    pinned: CPUSet = EMPTY
    refusal: str = ""
    turn: int = 0
    """Its place in the queue for exclusive CPUs, from 1; 0 if it is not in the queue."""
    trouble: str = ""
    warnings: tuple[str, ...] = ()
    explanation: tuple[str, ...] = ()


class HandStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The hand on the cgroups. It answers births below these `parents`, paths below the hierarchy's root; another one
    answers those below `taken`. Newborn groups that it cannot write may be on the CPUs `stuck`. `text` says all of that
    as a clause, or why there is none.
    """

    is_answering: bool
    parents: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    stuck: CPUSet = EMPTY
    text: str


class HoleStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A unit of the host that is not confined, and why."""

    name: str
    reason: str


class HostStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the host's own processes are confined, and what is not; `text` says that as a clause."""

    is_confining: bool
    holes: tuple[HoleStatus, ...] = ()
    text: str


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The whole document. `updated_at` is RFC 3339, UTC. `problems` are the daemon's own: what it cannot do now."""

    version: int = VERSION
    program: str = ""
    updated_at: str = ""
    policy: str = "none"
    options: tuple[str, ...] = ()
    numa: NumaRule = NumaRule.NONE
    isolated: IsolatedRule = IsolatedRule.IGNORE
    shared_min: int = 0
    engine: EngineInfo | None = None
    engines: tuple[EngineStatus, ...] = ()
    is_ready: bool = False
    is_releasing: bool = False
    reserved: CPUSet = EMPTY
    shared: CPUSet = EMPTY
    exclusive: CPUSet = EMPTY
    capacity: int = 0
    """How many CPUs can be exclusive here at once."""
    free: int = 0
    """How many of these are free."""
    waiting: int = 0
    """How many containers wait for exclusive CPUs."""
    forced: int = 0
    """Takes whose grace period ended before the workload acknowledged, in total."""
    acknowledged: int = 0
    """Takes that the workload acknowledged in time, in total."""
    hand: HandStatus | None = None
    """None while it is not known whether there is one."""
    host: HostStatus | None = None
    """None if the host's own processes are not to be confined."""
    machine: MachineMap
    containers: tuple[ContainerStatus, ...] = ()
    units: tuple[ContainerStatus, ...] = ()
    """The units of the host that the sidecar sees."""
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[ContainerStatus, ...]:
        """All containers, then all units of the host."""
        return (*self.containers, *self.units)


def status_of(
    world: World,
    *,
    program: str = "",
    updated_at: str = "",
    problems: tuple[str, ...] = (),
    deadlines: Deadlines | None = None,
    host: HostConfinement | None = None,
) -> Status:
    """Return the document that describes this World. Containers are in the order of their names, live ones first, and
    so are units.
    """
    ordered = sorted(world.containers.values(), key=lambda c: (c.is_idle, natural(c.view.name), c.view.id))
    tenants = tuple(container_status(world, each, deadlines or {}) for each in ordered)
    units = tuple(each for each in tenants if each.kind is ViewKind.UNIT)
    return Status(
        program=program,
        updated_at=updated_at,
        policy=world.settings.policy.value,
        options=world.settings.options,
        numa=world.settings.numa,
        isolated=world.settings.isolated,
        shared_min=world.settings.shared_min,
        engine=world.engine,
        engines=engines_of(world),
        is_ready=world.is_ready,
        is_releasing=world.is_releasing,
        reserved=world.state.reserved,
        shared=world.state.shared,
        exclusive=world.state.exclusive,
        capacity=capacity(world),
        free=free(world),
        waiting=0 if world.settings.policy is PolicyName.NONE else len(world.queue),
        forced=world.state.forced,
        acknowledged=world.state.acknowledged,
        hand=hand_status(world),
        host=_host_status(world, host, units) if host else None,
        machine=machine_of(world.topology),
        containers=tuple(each for each in tenants if each.kind is not ViewKind.UNIT),
        units=units,
        notes=tuple(map(noted, world.notes)),
        problems=problems,
    )


def hand_status(world: World) -> HandStatus | None:
    """Return the part of the document about the hand; None while it is not known whether there is one."""
    text, hand = births_told(world), world.hand
    if not text:
        return None
    if hand is None:
        return HandStatus(is_answering=False, text=text)
    is_answering = hand.is_answering and bool(hand.parents)
    return HandStatus(is_answering=is_answering, parents=hand.parents, taken=hand.taken, stuck=hand.stuck, text=text)


def _host_status(world: World, host: HostConfinement, units: tuple[ContainerStatus, ...]) -> HostStatus:
    why = UNDER_NONE if host.is_confining and world.settings.policy is PolicyName.NONE else host.why_not
    if why:
        return HostStatus(is_confining=False, text=not_confined_told(why))
    holes = {**host.holes, **{each.name: PINNED for each in units if each.sharing is SharingStatus.STRANGER}}
    shown = tuple(HoleStatus(name=name, reason=reason) for name, reason in sorted(holes.items()))
    confined = sum(1 for each in units if each.sharing is SharingStatus.SHARED)
    return HostStatus(is_confining=True, holes=shown, text=confined_told(confined, holes))


def container_status(world: World, container: Container, deadlines: Deadlines) -> ContainerStatus:
    """Return the part of the document that describes one container."""
    key = container.view.key
    assignment = world.state.assignments.get(key)
    # Under the policy none the recorded refusals and the queue wait for another policy: nothing is refused now.
    refused = None if world.settings.policy is PolicyName.NONE else world.state.refusals.get(key)
    wanted = None if is_left_alone(world, container) else desired(world, container)
    demand = assignment.demand if assignment else container.wish.demand
    made = ContainerStatus(
        id=key.id,
        name=container.view.name,
        engine=engine_of(world, key),
        kind=container.view.kind,
        phase=container.view.phase.value,
        sharing=sharing_of(world, container),
        asked=demand.cpus if demand else 0,
        cpus=_cpus(world, container, wanted),
        desired=wanted or EMPTY,
        pending=container.order.update.cpus if container.order else EMPTY,
        is_settled=is_where_it_should_be(world, container, assignment, wanted),
        is_alone=is_alone(world, container),
        neighbours=_neighbours(world, container),
        is_quota_lifted=is_quota_lifted(world, container, assignment),
        load=_load(world.loads.get(container.view.key)),
        waits_for=waits_for(world, container, assignment, wanted),
        pinned=CPUSet.from_mask(world.kept_by_pin(container)) & world.state.online,
        refusal=sentence(refused.refusal) if refused and is_standing(container, refused) else "",
        turn=turn_of(world, key) if refused else 0,
        trouble=trouble(container),
        warnings=warnings(container.wish),
        explanation=explanation(world, container, assignment, refused, wanted),
    )
    if demand and world.settings.policy is PolicyName.DYNAMIC:
        made = _with_range(made, demand)
    return _with_grant(made, world, assignment, deadlines) if assignment else made


def _cpus(world: World, container: Container, wanted: CPUSet | None) -> CPUSet:
    """Return where a container was last seen. A member of the shared group that is not held back is where its group is,
    and one whose runtime asks will be where the answer says.
    """
    if wanted is not None and awaits_answer(world, container):
        return wanted
    is_as_its_group = container.wish.standing is Standing.MEMBER and not container.is_held_back
    if not is_as_its_group or world.group is None or container.is_idle:
        return container.place.seen
    return (world.group.place.seen & container.place.configured) or container.place.seen


def _with_range(made: ContainerStatus, demand: Demand) -> ContainerStatus:
    return msgspec.structs.replace(
        made, floor=demand.floor, ceiling=demand.ceiling, scale=demand.scale.value, weight=demand.weight
    )


def _with_grant(made: ContainerStatus, world: World, grant: Assignment, deadlines: Deadlines) -> ContainerStatus:
    return msgspec.structs.replace(
        made,
        granted=grant.cpus,
        original=grant.original,
        since=grant.since,
        ordered=grant.ordered,
        leaving=_leaving(world, grant, deadlines),
        forced=grant.forced,
        clash=clash_text(clashes_of(world, grant)),
        moves=tuple(MoveStatus(gained=m.gained, lost=m.lost, reason=why(m.cause)) for m in grant.moves),
    )


def sharing_of(world: World, container: Container) -> SharingStatus:
    """Return how a container shares its CPUs."""
    if container.view.key in world.state.assignments:
        return SharingStatus.EXCLUSIVE
    if container.wish.standing is Standing.STRANGER:
        return SharingStatus.STRANGER
    if container.wish.standing is Standing.MEMBER and world.settings.policy is not PolicyName.NONE:
        # Its group is moved, not it.
        return SharingStatus.SHARED
    return SharingStatus.UNMANAGED if is_left_alone(world, container) else SharingStatus.SHARED


def _neighbours(world: World, container: Container) -> tuple[NeighbourStatus, ...]:
    return tuple(
        NeighbourStatus(
            name=each.view.name,
            sharing=sharing_of(world, each),
            cpus=CPUSet.from_mask(world.may_run(each) & container.footprint),
        )
        for each in neighbours(world, container)
    )


def _leaving(world: World, assignment: Assignment, deadlines: Deadlines) -> LeavingStatus | None:
    leaving = assignment.leaving
    if leaving is None:
        return None
    return LeavingStatus(
        cpus=leaving.cpus,
        number=leaving.number,
        reason=why(leaving.cause),
        is_due=leaving.is_due,
        notice_seconds=grace_of(world, assignment),
        until=deadlines.get((assignment.container, leaving.number), ""),
    )


def _load(load: Load | None) -> LoadStatus | None:
    if load is None:
        return None
    return LoadStatus(use=load.use, peak=load.peak, pressure=load.pressure, is_throttled=load.is_throttled)
