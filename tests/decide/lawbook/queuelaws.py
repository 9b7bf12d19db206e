"""The laws of waiting and giving: a successor takes over, no container is overtaken, each start is asked again."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.decide.books.grants import ask_of, bounds, place
from sidecar.decide.container.askers import is_coming
from sidecar.decide.container.container import Container
from sidecar.decide.container.swarm_task import is_over
from sidecar.decide.placement.choose import choose
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from state.cause import ForOthers, Together
from state.cpuset import CPUSet
from state.demand import Demand, Shortage
from state.model import Assignment, State
from state.refusal import Asked, RefusalCode
from tests.support.decide.reality import Reality

_PROMISED = (RefusalCode.CPUS_LOST, RefusalCode.AWAITS_PLACE)
"""Refusals of a container that had CPUs, or for which a predecessor's are kept: it is asked as soon as it can be."""


def not_handed_on(reality: Reality) -> Iterator[str]:
    """Yield successors that did not get the CPUs of a container that is gone, though they ask for the same. Of several
    that are gone, one gets those of the newest grant.
    """
    before, world = reality.planned_from, reality.world
    if not _decides(world) or before.topology != world.topology or before.settings != world.settings:
        return
    gone = list(_left(before, world))
    for left in gone:
        newer = [each for each in gone if each.since > left.since and each.demand.role == left.demand.role]
        heirs = [
            each
            for key, each in world.containers.items()
            if not world.is_absent(key) and key.engine == left.container.engine and _is_heir(before, each, left)
            if not any(_is_heir(before, each, other) and _has_taken_over(world, each, other) for other in newer)
        ]
        if heirs and not any(_has_taken_over(world, heir, left) for heir in heirs) and not _is_handed_on(world, left):
            now = [world.state.assignments.get(each.view.key) for each in heirs]
            held = [str(each.cpus) if each else "nothing" for each in now]
            yield f"{left.name} left {left.cpus}, and its successors have {', '.join(held)}"


def _left(before: World, world: World) -> Iterator[Assignment]:
    """Yield the grants of containers that are gone, by role: those that ended now, and those that were vacant. Left out
    are those on CPUs that the rules of these settings do not allow any more.
    """
    vacant = [each for key, each in before.state.vacancies.items() if key not in world.state.vacancies]
    for key, each in before.state.assignments.items():
        container = world.containers.get(key)
        if key not in world.state.assignments and (container is None or is_over(container.view)):
            vacant.append(each)
    for each in vacant:
        is_free = each.cpus <= world.state.online - world.strangers - world.state.reserved
        if each.demand.role and is_free and _is_by_the_rules(world, each):
            yield each


def _is_by_the_rules(world: World, left: Assignment) -> bool:
    """Return whether these CPUs could be granted today: a grant that was made under other settings may have others."""
    return choose(world.topology, left.cpus, ask_of(world, left.demand, len(left.cpus))) == left.cpus


def _is_heir(before: World, container: Container, left: Assignment) -> bool:
    """Return whether it asks for just what a container had that is gone, has its role, and had no CPUs before. What was
    refused in this run waits for nothing until its next start, if it chose to share and nothing was promised to it, or
    if it was told that the machine could never serve it, also if other settings could since. What people released
    waits for its next start. A glance does not show which start it is.
    """
    demand, key = container.wish.demand, container.view.key
    refused = before.state.refusals.get(key)
    view = container.view
    is_of_this_run = refused is not None and (view.is_glance or refused.started_at == view.started_at)
    if refused and is_of_this_run and refused.refusal.code is RefusalCode.GIVEN_UP:
        return False
    if refused and is_of_this_run and not container.is_idle:
        detail, chose = refused.refusal.detail, demand.shortage if demand else None
        is_promised = refused.refusal.code in _PROMISED or (isinstance(detail, Asked) and bool(detail.offline))
        if (isinstance(detail, Asked) and detail.is_final) or (chose is not Shortage.WAIT and not is_promised):
            return False
    if demand is None or not is_coming(container) or key in before.state.assignments or key == left.container:
        return False
    return replace(demand, container=left.container, name=left.name) == left.demand


def _is_handed_on(world: World, left: Assignment) -> bool:
    """Return whether another successor has CPUs of a container that is gone: the queue chose it."""
    grants = world.state.assignments.values()
    return any(each.demand.succeeds(left.demand) and each.cpus & left.cpus for each in grants)


def _has_taken_over(world: World, heir: Container, left: Assignment) -> bool:
    grant = world.state.assignments.get(heir.view.key)
    if grant is None:
        return False
    if world.settings.policy is PolicyName.STATIC:
        return grant.cpus == left.cpus
    return len(_before_exchanges(grant) & left.cpus) >= min(grant.demand.floor, len(left.cpus))


def _before_exchanges(grant: Assignment) -> CPUSet:
    """Return the CPUs of a new grant without its exchanges for better ones, which its label allows when CPUs were
    released: docs/dynamic.md, "Defragmentation". A predecessor that is gone has released its CPUs.
    """
    cpus = grant.cpus
    for move in reversed(grant.moves):
        if grant.demand.move and isinstance(move.cause, Together | ForOthers):
            cpus = (cpus - move.gained) | move.lost
    return cpus


def put_behind(reality: Reality) -> Iterator[str]:
    """Yield containers that lost their CPUs in the last burst, and their place in the queue with them."""
    for key, refused in reality.world.state.refusals.items():
        held = reality.recorded.assignments.get(key)
        if held is not None and refused.demand is not None and refused.asked != held.asked:
            yield f"{refused.name} asked as number {held.asked}, lost {held.cpus}, and waits as number {refused.asked}"


def overtaken(reality: Reality) -> Iterator[str]:
    """Yield containers that wait, and would have fit where a later one was granted CPUs in the last burst."""
    before, world = reality.planned_from, reality.world
    if not _decides(world):
        return
    made = [each for key, each in world.state.assignments.items() if key not in before.state.assignments]
    for key in before.queue if made else ():
        refused = world.state.refusals.get(key)
        if refused is None or refused.demand is None or refused.asked is None or key not in world.queue:
            continue
        if world.is_absent(key):
            # Nothing could be ordered for it.
            continue
        first = (-refused.demand.priority, refused.asked)
        later = [
            each for each in made if (-each.demand.priority, each.asked) > first and not _is_exempt(before, world, each)
        ]
        freed = world.state
        for each in later:
            freed = freed.released(each.container)
        if later and _fits(world, freed, refused.demand):
            yield f"{refused.name} waits, and would fit where {', '.join(each.name for each in later)} was put"


def _is_exempt(before: World, world: World, granted: Assignment) -> bool:
    """Return whether a grant was not from the queue: of a successor, or of a container that kept its own CPUs."""
    left = [*before.state.vacancies.values(), *before.state.assignments.values()]
    roles = {each.demand.role for each in left} - {""}
    container, originals = world.containers[granted.container], before.state.originals.get(granted.container)
    own = container.view.cpuset
    keeps_its_own = bool(own) and (originals is None or originals.cpuset == own)
    return granted.demand.role in roles or keeps_its_own


def not_asked_again(reality: Reality) -> Iterator[str]:
    """Yield refusals of another start than the present one, which a glance does not show, and containers in the queue
    that would fit now.
    """
    world = reality.world
    if not _decides(world):
        return
    for key, refused in world.state.refusals.items():
        container = world.containers.get(key)
        if world.is_absent(key):
            continue
        if container is None or not is_coming(container) or (container.view.is_glance and not container.is_held):
            continue
        if refused.started_at not in (None, container.view.started_at):
            yield f"{refused.name} was refused at {refused.started_at}, and started at {container.view.started_at}"
    for key in world.queue:
        demand = world.state.refusals[key].demand
        if demand and not world.is_absent(key) and _fits(world, world.state, demand):
            yield f"{demand.name} waits, and would fit"


def _fits(world: World, state: State, demand: Demand) -> bool:
    return isinstance(place(world, state, demand, bounds(world, demand)[0]), CPUSet)


def _decides(world: World) -> bool:
    return world.is_ready and not world.is_releasing and world.settings.policy is not PolicyName.NONE
