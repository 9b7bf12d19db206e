"""The World as the status document. Pure: World in, document out.

Only a daemon, and what stands in for one, makes documents: readers of one import none of the decisions (`document`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from sidecar.decide.books.clashes import clashes_of
from sidecar.decide.books.give_up import refused_now
from sidecar.decide.books.queue import turn_of
from sidecar.decide.books.room import capacity, free
from sidecar.decide.container.askers import is_standing
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.facts import Load, ViewKind
from sidecar.decide.moves.alone import common, is_alone, neighbours, unknown_insiders
from sidecar.decide.moves.exec_cpus import exec_cpus
from sidecar.decide.moves.settled import awaits_answer, desired, is_left_alone, is_quota_lifted, is_where_it_should_be
from sidecar.decide.moves.timers import longest_notice
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from sidecar.natural_order import natural
from sidecar.status.document import (
    AroundStatus,
    ContainerStatus,
    HandStatus,
    HoleStatus,
    HostStatus,
    LeavingStatus,
    LoadStatus,
    MoveStatus,
    NeighbourStatus,
    SharingStatus,
    Status,
)
from sidecar.status.engine_status import engine_of, engines_of
from sidecar.status.machine_map import MachineMap, machine_of
from sidecar.status.projects import project_of
from sidecar.words.around import around_told
from sidecar.words.causes import why, why_leaving
from sidecar.words.explanations import explanation, trouble, waits_for
from sidecar.words.hands import births_told
from sidecar.words.neighbours import clash_text
from sidecar.words.pod_names import named_none
from sidecar.words.refusals import warnings
from sidecar.words.refused_text import why_refused
from sidecar.words.repairs import noted
from sidecar.words.units import PINNED, UNDER_NONE, HostConfinement, confined_told, not_confined_told
from sidecar.words.where import without_offline
from state.cpuset import EMPTY, CPUSet
from state.demand import Demand
from state.key import ContainerKey
from state.model import Assignment

MOST_NEIGHBOURS: Final = 16
"""Of a container in the document: 600 that arrive at once are more than 100,000 pairs, of 7 MB and a second's work."""

Deadlines = Mapping[tuple[ContainerKey, int], str]
"""Until when each take waits at most (RFC 3339, UTC), by container and number."""


def status_of(
    world: World,
    *,
    program: str = "",
    updated_at: str = "",
    problems: tuple[str, ...] = (),
    deadlines: Deadlines | None = None,
    host: HostConfinement | None = None,
    machine: MachineMap | None = None,
    around: Mapping[str, int] | None = None,
    passing: Collection[tuple[str, str]] = (),
) -> Status:
    """Return the document that describes this World. Containers are in the order of their names, live ones first, and
    so are units. `machine` is the map of its machine; None if it has to be made.
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
        around=AroundStatus(starts=around or {}, text=told) if (told := around_told(around, passing)) else None,
        machine=machine or machine_of(world.topology),
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
    refused = None if world.settings.policy is PolicyName.NONE else refused_now(world, key)
    wanted = None if is_left_alone(world, container) else desired(world, container)
    demand = assignment.demand if assignment else container.wish.demand
    beside, unknown = neighbours(world, container), unknown_insiders(world, container)
    made = ContainerStatus(
        id=key.id,
        name=container.view.name,
        engine=engine_of(world, key),
        project=project_of(container.view),
        kind=container.view.kind,
        phase=container.view.phase.value,
        sharing=sharing_of(world, container),
        asked=demand.cpus if demand else 0,
        cpus=_cpus(world, container, wanted),
        desired=wanted or EMPTY,
        pending=container.order.update.cpus if container.order else EMPTY,
        is_settled=is_where_it_should_be(world, container, assignment, wanted),
        is_alone=is_alone(world, container),
        neighbours=(*_born_inside(world, container, unknown), *_shown(world, container, beside))[:MOST_NEIGHBOURS],
        neighbour_count=len(unknown) + len(beside),
        is_quota_lifted=is_quota_lifted(world, container, assignment),
        exec_cpus=exec_cpus(world, container),
        load=_load(world.loads.get(container.view.key)),
        waits_for=waits_for(world, container, assignment, wanted),
        pinned=CPUSet.from_mask(world.kept_by_pin(container)) & world.state.online,
        refusal=why_refused(world, refused) if refused and is_standing(container, refused) else "",
        turn=turn_of(world, key) if refused else 0,
        trouble=trouble(world, container),
        warnings=(*warnings(container.wish), *named_none(world, container)),
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
        return without_offline(world, container.place.seen)
    return without_offline(world, (world.group.place.seen & container.place.configured) or container.place.seen)


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


def _shown(world: World, container: Container, beside: Sequence[Container]) -> tuple[NeighbourStatus, ...]:
    return tuple(
        NeighbourStatus(
            name=each.view.name,
            sharing=sharing_of(world, each),
            cpus=common(world, container, each),
        )
        for each in beside[:MOST_NEIGHBOURS]
    )


def _born_inside(world: World, container: Container, unknown: Sequence[ContainerKey]) -> list[NeighbourStatus]:
    """Return what was born inside a container's group and is not known yet: it has at most the same CPUs."""
    cpus = CPUSet.from_mask(container.footprint) & world.state.online
    return [NeighbourStatus(name=each.short, sharing=SharingStatus.UNMANAGED, cpus=cpus) for each in unknown]


def _leaving(world: World, assignment: Assignment, deadlines: Deadlines) -> LeavingStatus | None:
    leaving = assignment.leaving
    if leaving is None:
        return None
    return LeavingStatus(
        cpus=leaving.cpus,
        number=leaving.number,
        reason=why_leaving(assignment),
        is_due=leaving.is_due,
        notice_seconds=longest_notice(world, assignment, leaving.cpus),
        until=deadlines.get((assignment.container, leaving.number), ""),
    )


def _load(load: Load | None) -> LoadStatus | None:
    if load is None:
        return None
    return LoadStatus(use=load.use, peak=load.peak, pressure=load.pressure, is_throttled=load.is_throttled)
