"""One CPU: its purpose, the container that it is granted to, and those that may run there. Pure: Status to view."""

from __future__ import annotations

import enum
from collections.abc import Iterator

import msgspec

from sidecar.decide.facts import Phase, ViewKind
from sidecar.decide.settings import PolicyName
from sidecar.natural_order import natural
from sidecar.status.document import ContainerStatus, SharingStatus, Status
from sidecar.words.counts import agree, named
from state.cpuset import EMPTY, CPUSet


class CPUKind(enum.StrEnum):
    """What a CPU is for."""

    EXCLUSIVE = "exclusive"
    """It is granted to one container."""
    RESERVED = "reserved"
    """It is never granted."""
    SHARED = "shared"
    """It is in the shared pool, and can be granted."""
    STRANGER = "stranger"
    """A container that is pinned by hand is there: it is not granted to others."""
    UNUSED = "unused"
    """It is neither shared nor granted."""
    UNMANAGED = "unmanaged"
    """The policy is none: no CPU has a purpose."""
    OFFLINE = "offline"


class Resident(msgspec.Struct, frozen=True, kw_only=True):
    """A container, or a unit of the host, that may run on the CPU."""

    name: str
    sharing: SharingStatus
    kind: ViewKind = ViewKind.CONTAINER


class CPUView(msgspec.Struct, frozen=True, kw_only=True):
    """One CPU. `owner` is the container that it is granted to, "" if there is none; `residents` may run there now.

    `siblings` are the other online CPUs of its core. `is_leaving`: a container still has to leave it.
    """

    cpu: int
    kind: CPUKind
    owner: str = ""
    residents: tuple[Resident, ...] = ()
    is_leaving: bool = False
    is_isolated: bool = False
    siblings: CPUSet = EMPTY
    explanation: tuple[str, ...] = ()


def cpu_view(status: Status, cpu: int) -> CPUView | None:
    """Return what is known of a CPU; None if the machine has no such CPU."""
    if cpu not in status.machine.online | status.machine.offline:
        return None
    owner = next((each for each in status.rows if cpu in each.granted), None)
    made = CPUView(
        cpu=cpu,
        kind=_kind(status, cpu, owner),
        owner=owner.name if owner else "",
        residents=_residents(status, cpu, owner),
        is_leaving=any(each.leaving and cpu in each.leaving.cpus for each in status.rows),
        is_isolated=cpu in status.machine.isolated,
        siblings=_siblings(status, cpu),
    )
    return msgspec.structs.replace(made, explanation=tuple(_sentences(status, made)))


def _kind(status: Status, cpu: int, owner: ContainerStatus | None) -> CPUKind:
    if cpu in status.machine.offline:
        return CPUKind.OFFLINE
    if owner:
        return CPUKind.EXCLUSIVE
    if status.policy == PolicyName.NONE:
        return CPUKind.UNMANAGED
    if cpu in status.reserved:
        return CPUKind.RESERVED
    if any(cpu in each.pinned for each in status.rows):
        return CPUKind.STRANGER
    return CPUKind.SHARED if cpu in status.shared else CPUKind.UNUSED


def _residents(status: Status, cpu: int, owner: ContainerStatus | None) -> tuple[Resident, ...]:
    # What may still run on an owner's CPUs is known better than where it was last seen.
    besides = {each.name for each in owner.neighbours if cpu in each.cpus} if owner else set()
    there = (
        each
        for each in status.rows
        if (Phase(each.phase).is_live and cpu in each.cpus | each.pending) or each.name in besides
    )
    return tuple(
        Resident(name=each.name, sharing=each.sharing, kind=each.kind)
        for each in sorted(there, key=lambda each: (each is not owner, natural(each.name)))
    )


def _siblings(status: Status, cpu: int) -> CPUSet:
    cores = (
        core.cpus
        for package in status.machine.packages
        for node in package.nodes
        for cache in node.caches
        for core in cache.cores
    )
    return next((cpus - CPUSet.of(cpu) for cpus in cores if cpu in cpus), EMPTY)


def _sentences(status: Status, view: CPUView) -> Iterator[str]:
    yield _purpose(view)
    for each in status.rows:
        if each.leaving and view.cpu in each.leaving.cpus:
            yield f"It is being taken from {each.name} (take {each.leaving.number}): {each.leaving.reason}."
    if view.kind is CPUKind.OFFLINE:
        return
    containers = [each for each in view.residents if each.kind is not ViewKind.UNIT]
    names = [each.name if each.name == view.owner else f"{each.name} ({each.sharing})" for each in containers]
    yield f"Containers that may run there: {', '.join(names)}." if names else "No known container may run there now."
    if units := [each.name for each in view.residents if each.kind is ViewKind.UNIT]:
        yield f"Units of the host that may run there: {', '.join(units)}."
    if view.is_isolated:
        yield "The kernel isolates it (isolcpus): it balances no load there."
    if view.siblings:
        are = agree(len(view.siblings), "is", "are")
        yield f"{named(view.siblings)} {are} on the same core: {_uses(status, view.siblings)}."
    if status.host and status.host.is_confining:
        yield "Others may run there too: kernel threads, and units that are not confined."
    else:
        yield "Processes outside containers may run there too: the sidecar does not see them."


def _purpose(view: CPUView) -> str:
    match view.kind:
        case CPUKind.OFFLINE:
            return "It is offline" + (f"; {view.owner} held it." if view.owner else ".")
        case CPUKind.EXCLUSIVE:
            return f"It is granted to {view.owner}."
        case CPUKind.RESERVED:
            return "It is reserved: it is never granted."
        case CPUKind.STRANGER:
            pinned = (each for each in view.residents if each.sharing is SharingStatus.STRANGER)
            if any(each.kind is ViewKind.UNIT for each in pinned):
                return "A unit of the host with CPUs of its own is there: it is not granted."
            return "A container that is pinned by hand is there: it is not granted."
        case CPUKind.SHARED:
            return "It is in the shared pool, and can be granted."
        case CPUKind.UNUSED:
            return "It is neither in the shared pool nor granted."
        case CPUKind.UNMANAGED:
            return "The policy is none: the sidecar changes no container."


def _uses(status: Status, siblings: CPUSet) -> str:
    """Return what each of these CPUs is for."""
    parts = []
    for cpu in siblings:
        owner = next((each for each in status.rows if cpu in each.granted), None)
        use = f"granted to {owner.name}" if owner else _kind(status, cpu, None).value
        parts.append(f"{cpu} {use}" if len(siblings) > 1 else use)
    return ", ".join(parts)
