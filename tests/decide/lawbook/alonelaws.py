"""The laws of *settled* and *alone*: what the projection says of a container with a grant is true of the host."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.decide.books.takes import held
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.machine import rests
from sidecar.decide.facts import Phase
from sidecar.decide.insiders import insiders_of
from sidecar.decide.orders import AnswerStart
from sidecar.projection.projection_of import projection_of
from state.cpuset import EMPTY, CPUSet
from state.projection import Sharing
from tests.support.decide.glances import may_start_unanswered
from tests.support.decide.handreality import HandReality
from tests.support.decide.real import Real
from tests.support.decide.reality import Reality


def not_in_force(reality: Reality) -> list[str]:
    """Return containers that are called settled and do not run on their grant, or are throttled there though their
    limit is to be lifted, or with another there that the sidecar places and looked at. Nobody waits for one that rests
    and was only glanced at, and that no hand answers: `not_alone` is about these too.
    """
    found = []
    for container, real, granted in _owners(reality):
        if not projection_of(reality.world, container).settled:
            continue
        if real.effective is not None and real.effective != granted:
            found.append(f"{real.name} is settled on {granted} and runs on {real.effective}")
        if _is_throttled(reality, container, real):
            found.append(f"{real.name} is settled on {granted} and has the limits {real.limits}")
        found += [
            f"{real.name} is settled on {granted}, and {other.name} runs on {other.reaches(reality.online)}"
            for other in accounted(reality)
            if other is not real
            and _is_placed(reality, other)
            and not may_start_unanswered(reality, other)
            and not (other.is_member and other.effective is None)
            and not other.reaches(reality.online).isdisjoint(granted)
        ]
    return found


def not_alone(reality: Reality) -> list[str]:
    """Return containers that are called alone and are not settled, or with another there that was looked at, whether
    the sidecar places it or not. One that is kept out of management counts from the first look after its start; one
    that the sidecar places, and that rests, where it would start now.
    """
    found = []
    for container, real, granted in _owners(reality):
        told = projection_of(reality.world, container)
        if told.alone and not (told.settled and told.sharing is Sharing.EXCLUSIVE):
            found.append(f"{real.name} is alone on {granted}, and not settled there")
        if told.alone:
            found += [
                f"{real.name} is alone on {granted}, and {other.name} runs on {other.effective}"
                for other in reality.containers.values()
                if other is not real
                and other.key in reality.world.containers
                and not is_unseen(reality, other)
                and not _was_started_unseen(reality.world.containers[other.key])
                and not (other.effective or EMPTY).isdisjoint(granted)
            ]
            found += [
                f"{real.name} is alone on {granted}, and {other.name} starts on {where}, unanswered"
                for other in reality.containers.values()
                if other is not real and may_start_unanswered(reality, other)
                if (where := other.reaches(reality.online) & granted)
            ]
    return found


def told_while_unseen(reality: Reality) -> list[str]:
    """Return containers that are told to be alone while the engine is away, and others start without it: nothing shows
    these, and no hand answers their births.
    """
    if reality.needs_service or reality.is_reached or reality.is_blind:
        return []
    if isinstance(reality, HandReality) and reality.hand and reality.carried:
        return []
    return [f"{key.short} is told to be alone on {cpus}" for key, cpus in reality.told_alone.items()]


def told_beside_others(reality: Reality) -> list[str]:
    """Return containers that are told to be alone, also since before their engine went away, where others may run for
    all that is known: what the kernel shows goes on while an engine is away. Nobody reads what was told to a container
    that is gone, or half removed.
    """
    world, found = reality.world, list[str]()
    for key, cpus in reality.told_alone.items():
        if key not in world.containers or world.containers[key].view.phase is Phase.DEAD:
            continue
        beside = world.newborns
        for other, each in world.containers.items():
            beside |= world.may_run(each) if other != key else 0
        if both := cpus & CPUSet.from_mask(beside):
            found.append(f"{key.short} is told to be alone on {cpus}, and others may run on {both}")
        if inside := insiders_of(world, key):
            found.append(f"{key.short} is told to be alone, and {len(inside)} were born inside it")
    return found


def _was_started_unseen(known: Container) -> bool:
    """Return whether the last look at a container that runs, and that the sidecar leaves alone, shows it at rest."""
    return known.wish.standing is Standing.UNMANAGED and rests(known.view)


def granted_though_never(reality: Reality) -> list[str]:
    """Return containers that the last step granted CPUs although it was said before that this would never be so,
    while neither they nor the settings nor the machine changed: what waits for that gave up. A start that is held asks.
    """
    before, world = reality.planned_from, reality.world
    if (before.settings, before.topology, before.state.online) != (world.settings, world.topology, world.state.online):
        return []
    found = []
    answered = {order.container for order in reality.last_orders if isinstance(order, AnswerStart)}
    for key in world.state.assignments.keys() - before.state.assignments.keys() - answered:
        was, now = before.containers.get(key), world.containers.get(key)
        is_same = was and now and _asks(was) == _asks(now)
        if was and is_same and projection_of(before, was).never_alone:
            found.append(f"{was.view.name} was never to be granted CPUs, and is")
    return found


def _asks(container: Container) -> tuple[object, ...]:
    return container.wish, container.view.started_at, container.is_idle, type(container.start)


def _owners(reality: Reality) -> Iterator[tuple[Container, Real, CPUSet]]:
    """Yield each live container with a grant to which nothing unseen happened, and where it may run."""
    for key, assignment in reality.world.state.assignments.items():
        container, real = reality.world.containers.get(key), reality.containers.get(key)
        if container and real and real.phase.is_live and not is_unseen(reality, real):
            yield container, real, held(assignment, container)


def _is_throttled(reality: Reality, container: Container, real: Real) -> bool:
    """Return whether a limit is in force that its grant lifts. A runtime that asks lifts it by itself."""
    if container.is_strict or not reality.world.state.assignments[real.key].is_lifting:
        return False
    # A CPU that came online, and that no reading has shown yet, makes a limit that was lifted none.
    online = min(len(reality.online), len(reality.world.topology.online))
    return 0 < real.nano_cpus < online * 10**9 or real.cpu_quota > 0


def _is_placed(reality: Reality, real: Real) -> bool:
    """Return whether the sidecar decides where it runs, itself or by its group."""
    standing = reality.world.containers[real.key].wish.standing
    return standing in (Standing.MANAGED, Standing.MEMBER)


def accounted(reality: Reality) -> list[Real]:
    """Return the managed containers to which nothing unseen happened."""
    return [
        real
        for real in reality.containers.values()
        if not is_unseen(reality, real)
        and real.key in reality.world.containers
        and reality.world.containers[real.key].wish.standing is not Standing.UNMANAGED
    ]


def is_unseen(reality: Reality, real: Real) -> bool:
    """Return whether something happened to it, or to its group, that is not reported yet."""
    group = reality.group if real.is_member else None
    return (
        real.is_unseen
        or real.is_led_astray
        or reality.is_blind
        or reality.is_unheard(real.key)
        or reality.is_being_looked_at(real.key)
        or (group is not None and group.is_unseen)
    )
