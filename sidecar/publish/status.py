"""The status document: the World as people want to read it. Pure: World in, document out.

It says for each container where it runs, where it should, whether it is alone there, what it waits for and why it has
what it has, in whole sentences; and it carries the machine, so that a reader can draw it without looking at the host.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from sidecar.decide.demand import cpu_limit
from sidecar.decide.facts import EngineInfo, Phase
from sidecar.decide.plan import desired, is_settled
from sidecar.decide.world import Container, IsolatedRule, PolicyName, Standing, World
from state.cpuset import EMPTY, CPUSet
from state.model import Assignment, NumaRule, Refusal, Shortage
from state.topology import Topology

VERSION: Final = 1

_GOING: Final = (Phase.REMOVING, Phase.DEAD)

_SHOWN_NAMES: Final = 5
"""Names in one sentence; of more, their number."""


class Sharing(enum.StrEnum):
    """With whom a container shares its CPUs, as the status tells it."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"
    STRANGER = "stranger"
    """Pinned by hand, and respected."""
    UNMANAGED = "unmanaged"


class Core(msgspec.Struct, frozen=True):
    """A core, or the part of it that is in the surrounding cache, and its online CPUs."""

    id: int
    cpus: CPUSet


class Cache(msgspec.Struct, frozen=True):
    """A last-level cache, or the part of it that is in the surrounding node."""

    id: int
    cores: tuple[Core, ...]


class Node(msgspec.Struct, frozen=True):
    """A NUMA node, or the part of it that is in the surrounding package."""

    id: int
    caches: tuple[Cache, ...]


class Package(msgspec.Struct, frozen=True):
    """A socket."""

    id: int
    nodes: tuple[Node, ...]


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine as a map. `notes` say what it did not tell and what was assumed."""

    online: CPUSet
    offline: CPUSet = EMPTY
    isolated: CPUSet = EMPTY
    packages: tuple[Package, ...] = ()
    notes: tuple[str, ...] = ()


class ContainerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One container. `asked` is how many CPUs of its own it asks for, 0 for none.

    `cpus` is where it was last seen, `desired` where it should be (empty where that is not for the sidecar to say),
    `pending` where it is being sent now (empty for nowhere). `is_settled`: it is where it should be, nothing is on its
    way, and, if it is exclusive, nobody else may still be there. `since` numbers grants in their order, -1 without.
    """

    id: str
    name: str
    phase: str
    sharing: Sharing
    asked: int = 0
    cpus: CPUSet = EMPTY
    desired: CPUSet = EMPTY
    original: CPUSet = EMPTY
    pending: CPUSet = EMPTY
    is_settled: bool = False
    is_quota_lifted: bool = False
    since: int = -1
    waits_for: str = ""
    refusal: str = ""
    trouble: str = ""
    warnings: tuple[str, ...] = ()
    explanation: tuple[str, ...] = ()


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
    is_ready: bool = False
    is_releasing: bool = False
    reserved: CPUSet = EMPTY
    shared: CPUSet = EMPTY
    exclusive: CPUSet = EMPTY
    machine: Machine
    containers: tuple[ContainerStatus, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def status_of(world: World, *, program: str = "", updated_at: str = "", problems: tuple[str, ...] = ()) -> Status:
    """The document that describes this World. Containers stand in the order of their names, live ones first."""
    containers = sorted(world.containers.values(), key=lambda each: (each.is_idle, each.view.name, each.view.id))
    return Status(
        program=program,
        updated_at=updated_at,
        policy=world.settings.policy.value,
        options=world.settings.options,
        numa=world.settings.numa,
        isolated=world.settings.isolated,
        shared_min=world.settings.shared_min,
        engine=world.engine,
        is_ready=world.is_ready,
        is_releasing=world.is_releasing,
        reserved=world.state.reserved,
        shared=world.state.shared,
        exclusive=world.state.exclusive,
        machine=machine_of(world.topology),
        containers=tuple(_container(world, each) for each in containers),
        notes=world.notes,
        problems=problems,
    )


def machine_of(topology: Topology) -> Machine:
    """The map of a machine. What spans two groups of a higher level appears in both, with its part of the CPUs."""

    def cores(within: CPUSet) -> tuple[Core, ...]:
        return tuple(Core(g.id, g.cpus & within) for g in topology.cores if g.cpus.mask & within.mask)

    def caches(within: CPUSet) -> tuple[Cache, ...]:
        return tuple(Cache(g.id, cores(g.cpus & within)) for g in topology.caches if g.cpus.mask & within.mask)

    def nodes(within: CPUSet) -> tuple[Node, ...]:
        return tuple(Node(g.id, caches(g.cpus & within)) for g in topology.nodes if g.cpus.mask & within.mask)

    return Machine(
        online=topology.online,
        offline=topology.offline,
        isolated=topology.isolated,
        packages=tuple(Package(g.id, nodes(g.cpus)) for g in topology.packages),
        notes=topology.notes,
    )


def _container(world: World, container: Container) -> ContainerStatus:
    id = container.view.id
    assignment = world.state.assignments.get(id)
    refusal = world.state.refusals.get(id)
    wanted = None if _is_left_alone(world, container) else desired(world, container)
    demand = container.wish.demand
    return ContainerStatus(
        id=id,
        name=container.view.name,
        phase=container.view.phase.value,
        sharing=_sharing(world, container, assignment),
        asked=demand.cpus if demand else 0,
        cpus=container.seen,
        desired=wanted or EMPTY,
        original=assignment.original if assignment else EMPTY,
        pending=container.pending.update.cpus if container.pending else EMPTY,
        is_settled=_is_settled(world, container, assignment, wanted),
        is_quota_lifted=_is_quota_lifted(world, container, assignment),
        since=assignment.since if assignment else -1,
        waits_for=_waits_for(world, container, assignment, wanted),
        refusal=refusal.reason if refusal else "",
        trouble=container.trouble,
        warnings=container.wish.warnings,
        explanation=_explanation(world, container, assignment, refusal, wanted),
    )


def _is_left_alone(world: World, container: Container) -> bool:
    nobody_decides = world.settings.policy is PolicyName.NONE and not world.is_releasing
    return nobody_decides or container.wish.standing is not Standing.MANAGED


def _sharing(world: World, container: Container, assignment: Assignment | None) -> Sharing:
    if assignment:
        return Sharing.EXCLUSIVE
    if container.wish.standing is Standing.STRANGER:
        return Sharing.STRANGER
    return Sharing.UNMANAGED if _is_left_alone(world, container) else Sharing.SHARED


def _is_settled(world: World, container: Container, assignment: Assignment | None, wanted: CPUSet | None) -> bool:
    if assignment and not container.is_idle:
        return is_settled(world, container)
    if container.view.phase in _GOING:
        # It will never run again, and cannot be moved either.
        return True
    return wanted is None or (container.seen == container.configured == wanted and container.pending is None)


def _is_quota_lifted(world: World, container: Container, assignment: Assignment | None) -> bool:
    before = world.state.originals.get(container.view.id)
    now = container.view
    return bool(assignment and before and (now.nano_cpus, now.cpu_quota) != (before.nano_cpus, before.cpu_quota))


def _waits_for(world: World, container: Container, assignment: Assignment | None, wanted: CPUSet | None) -> str:
    """What stands between a container and where it should be, as the end of "it waits for"; "" where nothing does."""
    if wanted is None or not world.is_ready:
        return "" if wanted is None else "the engine to be reached"
    if container.pending:
        return f"the engine to move it to {container.pending.update.cpus}"
    if container.waits:
        return "another try, after a pause"
    if container.is_idle:
        return ""
    # An exclusive container waits for anybody else on its CPUs; one of the shared pool only for exclusive ones.
    missing = wanted if assignment else wanted - container.seen
    candidates = world.containers if assignment else world.state.assignments
    others = sorted(
        other.view.name
        for id in (candidates if missing and not _is_settled(world, container, assignment, wanted) else ())
        if (other := world.containers.get(id))
        and id != container.view.id
        and other.wish.standing is not Standing.UNMANAGED
        and other.footprint & missing.mask
    )
    return f"{_some(others)} to leave {missing}" if others else ""


def _explanation(
    world: World, container: Container, assignment: Assignment | None, refusal: Refusal | None, wanted: CPUSet | None
) -> tuple[str, ...]:
    said = [*_why(world, container, assignment, refusal)]
    if wanted is not None:
        said += _where(world, container, assignment, wanted)
    if assignment and _is_quota_lifted(world, container, assignment):
        limit = cpu_limit(world.state.originals[container.view.id])
        said.append(
            f"Its limit of {limit:g} CPUs is lifted while it has CPUs of its own, and put back when it leaves them."
        )
    if container.trouble:
        said.append(f"The last order failed: {container.trouble}")
    said += (f"Warning: {warning}" for warning in container.wish.warnings if not refusal or warning != refusal.reason)
    return tuple(said)


def _why(world: World, container: Container, assignment: Assignment | None, refusal: Refusal | None) -> list[str]:
    wish = container.wish
    if world.is_releasing:
        return ["Everything is being given back: its original settings are restored."]
    if wish.standing is Standing.STRANGER:
        respected = "which is respected: it is never moved, and nobody gets these CPUs"
        return [f"It is pinned by hand to {container.seen}, {respected}."]
    if wish.standing is Standing.UNMANAGED:
        return [f"It is not managed: {wish.reason or 'left alone, as asked'}."]
    if world.settings.policy is PolicyName.NONE:
        return ["The policy is none: no container is touched."]
    if assignment:
        return [f"It asked for {_count(assignment.demand.cpus)} and was granted {assignment.cpus}."]
    if refusal:
        return [f"It was refused: {refusal.reason}.", _prospect(container, refusal)]
    if wish.demand:
        return [f"It asks for {_count(wish.demand.cpus)} of its own when it starts."]
    return [f"It asks for no CPUs of its own, so it runs in the shared pool, {world.state.shared}."]


def _prospect(container: Container, refusal: Refusal) -> str:
    if refusal.demand and refusal.demand.shortage is Shortage.WAIT:
        return "It runs in the shared pool until they are to be had."
    if refusal.demand and refusal.demand.shortage is Shortage.STOP and not container.is_idle:
        return "It is being stopped, as its label asks."
    return "It runs in the shared pool, and asks again when it is started anew."


def _where(world: World, container: Container, assignment: Assignment | None, wanted: CPUSet) -> list[str]:
    if container.is_idle:
        if assignment and container.view.phase not in (Phase.CREATED, Phase.RESTARTING):
            return [f"It does not run ({container.view.phase}); its CPUs wait for it to come back, for a while."]
        return [f"It does not run ({container.view.phase}); it would start on {container.configured}."]
    if _is_settled(world, container, assignment, wanted):
        return [f"It runs on exactly these{', and nobody else does' if assignment else ''}."]
    waits = _waits_for(world, container, assignment, wanted)
    return [
        f"It runs on {container.seen} now and should run on {wanted}" + (f"; it waits for {waits}." if waits else ".")
    ]


def _count(cpus: int) -> str:
    return "1 exclusive CPU" if cpus == 1 else f"{cpus} exclusive CPUs"


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN_NAMES])
    return shown if len(names) <= _SHOWN_NAMES else f"{shown} and {len(names) - _SHOWN_NAMES} more"
