"""The laws of the hand: births are answered before they are known, and the kernel comes first."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.machine import after
from sidecar.decide.container.news import AnswersTold
from sidecar.decide.facts import Phase
from sidecar.decide.orders import Answers, ApplyCpuset, WriteCpuset
from sidecar.projection.projection_of import projection_of
from state.cpuset import EMPTY, CPUSet, union
from state.key import ContainerKey
from tests.support.decide.glances import is_still_newborn, waited_for
from tests.support.decide.handreality import HandReality
from tests.support.decide.real import Real
from tests.support.decide.reality import Reality
from tests.support.decide.strictstarts import is_later
from tests.support.laws import Law, When


def _unknown(reality: Reality) -> Iterator[Real]:
    """Yield each container that runs below a parent that is watched for all that the daemon has heard, and that it does
    not know yet. A group whose CPUs are all offline has those of its parent, until the machine is read.
    """
    is_read = reality.online == reality.world.state.online
    if is_read and isinstance(reality, HandReality) and reality.hand and not reality.is_blind:
        watched = {*reality.hand.parents} & {*(reality.world.hand.parents if reality.world.hand else ())}
        for real in reality.containers.values():
            if real.key not in reality.world.containers and f"/{real.home}" in watched:
                yield real


def may_be_as_newborn(reality: Reality, container: Container) -> int:
    """Return where a known container may be as a newborn, as a mask: what the sidecar leaves alone is one until the
    hand lets it go, and then anywhere until a look; any other where it is stuck.
    """
    hand = reality.world.hand
    if container.wish.standing not in (Standing.MANAGED, Standing.MEMBER) and container.pulled:
        return reality.online.mask
    if hand is None:
        return 0
    if container.wish.standing in (Standing.MANAGED, Standing.MEMBER):
        return (hand.stuck | (reality.newly_stuck if isinstance(reality, HandReality) else EMPTY)).mask
    is_let_go = not hand.is_answering or hand.lets_go(container.view.key)
    return reality.online.mask if is_let_go else reality.world.newborns


def newborns_elsewhere(reality: Reality) -> list[str]:
    """Return newborns outside their footprint. One that is stuck gets what comes online, and that is not told until the
    hand has tried again.
    """
    hand = reality.world.hand
    if hand is None or not hand.is_answering or not isinstance(reality, HandReality):
        return []
    came = reality.online - reality.tried_on if hand.stuck else EMPTY
    newborns = CPUSet.from_mask(reality.world.newborns) | came
    return [
        f"{real.name} is a newborn on {outside}, and newborns may be on {newborns}"
        for real in _unknown(reality)
        if (outside := (real.effective or EMPTY) & reality.world.state.online - newborns - as_another(reality, real))
        # The grant of a container that is not known yet is its own.
        and real.key not in reality.world.state.assignments
        and not reality.is_unheard(real.key)
        and not _is_left_to_its_first_write(reality, real)
    ]


def as_another(reality: Reality, real: Real) -> CPUSet:
    """Return where a newborn may be because its group is taken for that of a container of which nothing but a glance
    is known, or nothing but its grant, and which may be below any parent: it counts as that one.
    """
    if not isinstance(reality, HandReality) or reality.hand is None or real.id not in reality.called:
        return EMPTY
    key = reality.hand.key_of(real.id, f"/{real.home}")
    if key is None or key == real.key:
        return EMPTY
    known, hand = reality.world.containers.get(key), reality.world.hand
    if known is None:
        return union(hand.answers_for(key)) if hand and key in reality.world.state.assignments else EMPTY
    if not known.view.is_glance:
        return EMPTY
    # What existed when the hand began is left to its first write, as that one's.
    return CPUSet.from_mask(known.footprint if reality.hand.is_owner_found(real.id) else known.coming)


def alike_elsewhere(reality: Reality) -> Iterator[str]:
    """Yield groups that are called like a container which is born elsewhere, and that are not where newborns may be,
    once the hand holds what it was sent: they stand for no container. One that was only glanced at may be below any
    parent, unless the books have its own.
    """
    world, hand = reality.world, reality.world.hand
    if not isinstance(reality, HandReality) or hand is None or not hand.is_answering or reality.is_blind:
        return
    if reality.hand is None or hand.sent is not None or reality.online != world.state.online:
        return
    watched, may = {*reality.hand.parents} & {*hand.parents}, CPUSet.from_mask(world.newborns)
    for real in reality.containers.values():
        if real.id not in reality.called:
            continue
        key = ContainerKey(real.key.engine, reality.called[real.id])
        known, originals = world.containers.get(key), world.state.originals.get(key)
        is_placed = (known is not None and not known.view.is_glance) or (originals and originals.parent is not None)
        if not is_placed or f"/{real.home}" not in watched:
            continue
        if outside := (real.effective or EMPTY) & world.state.online - may:
            yield f"{real.name} is called like another, and runs on {outside}"


def _is_left_to_its_first_write(reality: Reality, real: Real) -> bool:
    """Return whether an owner was found running, and nothing was ordered yet: not all of its engine was looked at. What
    is only called like one that may be below any parent counts as that one.
    """
    hand = reality.hand if isinstance(reality, HandReality) else None
    if hand is None or not hand.is_owner_found(real.id):
        return False
    return reality.world.is_absent(hand.key_of(real.id, f"/{real.home}") or real.key)


def alone_beside_newborns(reality: Reality) -> Iterator[str]:
    """Yield containers that are called alone where a newborn runs."""
    hand = reality.world.hand
    if hand is None or not hand.is_answering:
        return
    unknown = list(_unknown(reality))
    for key, granted in reality.world.state.assignments.items():
        container = reality.world.containers.get(key)
        if container is None or not projection_of(reality.world, container).alone:
            continue
        for real in unknown:
            if both := (real.effective or EMPTY) & granted.cpus:
                yield f"{container.view.name} is alone on {granted.cpus}, and {real.name} was born on {both}"


def entered_beside_newborns(reality: Reality) -> Iterator[str]:
    """Yield orders that put a live container with a grant where a newborn may be."""
    world = reality.planned_from if reality.planned_from.hand is None else reality.world
    if world.hand is None:
        return
    for order in reality.new_moves:
        container = reality.world.containers[order.container]
        if not order.live or order.container not in reality.world.state.assignments:
            continue
        entered = order.update.cpus - reality.world.state.reserved - container.place.seen
        if both := entered & CPUSet.from_mask(world.hand.newborns(world.state.online)):
            yield f"{container.view.name} was sent to {both}, where newborns may be"


def _may_be_before(reality: Reality, key: ContainerKey, answers: Answers) -> CPUSet:
    """Return where others wait for a container with a grant before these answers: one that has no answer of its own
    among them is born as others are. One that was only glanced at, and has its first among them, keeps until then what
    its runtime writes, as others do, and leaves that with these.
    """
    known = reality.world.containers[key]
    may_be = CPUSet.from_mask(waited_for(reality, key, by_owner=False))
    if key in answers.own and is_still_newborn(reality.world, key):
        return CPUSet.from_mask(known.coming)
    if key in answers.own or answers.others is None or not known.is_idle:
        return may_be
    elsewhere = after(known, AnswersTold(known.answers[:-1], is_covered=known.is_covered))
    return may_be - (answers.others - CPUSet.from_mask(elsewhere.footprint))


def answered_wrongly(reality: Reality) -> Iterator[str]:
    """Yield answers to births with CPUs that belong to others, or that an exclusive container may still be on."""
    if not isinstance(reality, HandReality):
        return
    world = reality.world
    for order in reality.new_answers_told:
        held = world.hand.held.answers if world.hand and world.hand.held else None
        answers, reserved = order.answers, world.state.reserved
        if answers.others is not None:
            if both := answers.others & world.state.exclusive - reserved - world.state.lent:
                yield f"others are born on {both}, which is exclusive"
            entered = answers.others - (held.others or EMPTY if held else EMPTY) - reserved
            for key in world.state.assignments.keys() & world.containers.keys():
                if both := entered & _may_be_before(reality, key, answers):
                    yield f"others are born on {both}, where {world.containers[key].view.name} may be"
        for key, cpus in answers.own.items():
            granted = world.state.assignments.get(key)
            if cpus is None or granted is None:
                continue
            mine = granted.cpus | (granted.leaving.cpus if granted.leaving else EMPTY) | reserved
            if not cpus <= mine:
                yield f"{granted.name} is born on {cpus}, and its grant is {granted.cpus}"
            theirs = union(each.cpus for other, each in world.state.assignments.items() if other != key)
            if both := cpus & theirs - mine:
                yield f"{granted.name} is born on {both}, granted to others"
            container = world.containers.get(key)
            if container is None:
                continue
            had = (held.own.get(key, held.others) if held else None) or EMPTY
            # One whose start was answered counts as live on the CPUs of the answer.
            is_to_come = container.is_idle and not container.is_starting
            there = container.place.configured if is_to_come else container.present
            entered = cpus - had - reserved - (EMPTY if is_to_come and container.is_covered else there)
            for other in world.state.assignments.keys() & world.containers.keys() - {key}:
                may_be = CPUSet.from_mask(waited_for(reality, other, at_rest=is_to_come))
                if container.is_held and is_later(container, world.containers[other]):
                    # It is born after its own answer, and before what waits behind either start.
                    may_be &= CPUSet.from_mask(world.containers[other].coming_by_hand)
                if both := entered & may_be:
                    yield f"{granted.name} is born on {both}, where {world.containers[other].view.name} may be"


def unprotected(reality: Reality) -> Iterator[str]:
    """Yield exclusive CPUs that the hand is not told of: what it finds there would stay."""
    if isinstance(reality, HandReality):
        owned = reality.world.state.exclusive - reality.world.state.lent
        for order in reality.new_answers_told:
            if order.answers.others is not None and (left := owned - order.answers.owned):
                yield f"the hand is not told that {left} are exclusive"


def written_twice(reality: Reality) -> list[str]:
    """Return containers with two writes outstanding."""
    busy = [order.container for order in reality.pulls if isinstance(order, WriteCpuset)]
    return [f"{key.id[-4:]} has two writes outstanding" for key in {*busy} if busy.count(key) > 1]


def recorded_too_early(reality: Reality) -> list[str]:
    """Return orders to the engine for CPUs that the hand was not seen to write."""
    world = reality.world
    return [
        f"{world.containers[order.container].view.name} was recorded on {order.update.cpus} before it was written"
        for order in reality.last_orders
        if isinstance(order, ApplyCpuset) and world.containers[order.container].is_by_hand
        if order.update.cpus != getattr(world.containers[order.container].grip, "cpus", None)
    ]


def never_covered(reality: Reality) -> list[str]:
    """Return containers that the hand could cover, and does not at rest: it knows where they are born."""
    if not isinstance(reality, HandReality) or reality.hand is None:
        return []
    world = reality.world
    if world.hand is None or not world.hand.is_answering:
        return []
    homes = world.hand.homes
    return [
        f"{container.view.name} is not covered"
        for container in world.containers.values()
        if container.wish.standing is Standing.MANAGED
        and container.view.phase is not Phase.DEAD
        and not container.view.in_shared_group
        and not container.view.cgroup_parent
        and (world.hand.home or homes.get(container.view.engine))
        and not container.is_covered
    ]


def without_its_pin(reality: Reality) -> Iterator[str]:
    """Yield containers that are pinned by hand and run elsewhere, since the hand did not give back what it took. What
    is older than the hand stays where an earlier one may have moved it, and so does what starts where a daemon that was
    killed meanwhile, or had other settings, had told it to ("an answer to a start cannot be called back", 0049), what
    the kernel lets nobody write, and what wrote its own group ("is left alone too", 0049).
    """
    held = reality.world.hand.held if reality.world.hand else None
    if not isinstance(reality, HandReality) or reality.hand is None or held is None or held.answers.others is None:
        return
    for key, container in reality.world.containers.items():
        real = reality.containers.get(key)
        if real is None or not real.phase.is_live or container.is_idle or container.view.is_glance:
            continue
        if container.wish.standing is not Standing.STRANGER or not reality.hand.saw_born(real.id):
            continue
        if real.started_at in (real.told_before, real.wrote_itself):
            continue
        if real.id in {*reality.hand.closed, *reality.hand.denied} or reality.kernel.is_shut(real.id):
            continue
        pinned, has = CPUSet.parse(real.limits.cpuset), reality.kernel.own(real.id)
        if pinned and has != pinned:
            yield f"{real.name} is pinned to {pinned}, and has {has}"


NEWBORNS = Law("a newborn runs where newborns may be", newborns_elsewhere)
ALIKE = Law("what is only called like a container is a newborn", alike_elsewhere)
APART_FROM_NEWBORNS = Law("a CPU is entered once no newborn gets it", entered_beside_newborns)
BIRTHS = Law("no birth is answered with CPUs of others", answered_wrongly)
PROTECTED = Law("the hand knows all exclusive CPUs", unprotected)
ALONE_AT_BIRTHS = Law("alone means without newborns", alone_beside_newborns)
ONE_WRITE = Law("a container has one write at a time", written_twice)
KERNEL_FIRST = Law("the kernel first", recorded_too_early)
COVERED = Law("at rest the hand covers what it can", never_covered, When.REST)
GIVEN_BACK = Law("at rest a pin by hand is in force", without_its_pin, When.REST)

LAWS = (
    *(NEWBORNS, ALIKE, APART_FROM_NEWBORNS, BIRTHS, PROTECTED, ALONE_AT_BIRTHS, ONE_WRITE, KERNEL_FIRST),
    *(COVERED, GIVEN_BACK),
)
"""All of them."""
