"""Which files are no longer true once the orders of a decision leave, though no withdrawal narrows them. Pure.

Within a policy a container leaves CPUs by an order of its own, which withdraws them first, and other containers wait
for its footprint. A grant that ends, or of which CPUs become reserved, opens them in the same decision, without such
an order. So the allocator rewrites what is told of them before it sends any order of that decision. What is gone gets
no order either: it is withdrawn before then.

A container is born into the answer that the hand holds, also while its engine is away or has another order for it. So
what new answers take is withdrawn before the hand is told of them. So is all of a container that the hand lets go by
them: it gets back what only the hand knows. That may be an owner's CPUs, and so may those of a container that starts as
it is, or is put back to its pin while it rests: the owner stops being told that it is alone before any of them goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sidecar.decide.container.container import Standing
from sidecar.decide.orders import Answers, AnswerStart, ApplyCpuset, HoldAnswers, Order, WriteCpuset
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from state.cpuset import EMPTY, CPUSet
from state.key import ContainerKey
from state.model import Assignment


def losers(before: World, world: World) -> Iterator[ContainerKey]:
    """Yield the containers that may run, or might before this decision, on CPUs which were theirs, and which it opens
    to other containers: what ended may be told to be alone still.
    """
    were, are = before.state.assignments, world.state.assignments
    is_same = before.settings.policy is world.settings.policy
    if were is are and is_same:
        return
    for key, grant in were.items():
        known, was = world.containers.get(key), before.containers.get(key)
        if known is None or (is_same and are.get(key) is grant):
            continue
        might_run = known.footprint | (was.footprint if was else 0)
        if (_kept(before, grant) - _kept(world, are.get(key))).mask & might_run:
            yield key


def gone(before: World, world: World) -> Iterator[ContainerKey]:
    """Yield the containers that are not there any more and whose grants this decision ends: removed as they ran, or
    while no daemon did. Their files may say that they are alone, and a lease of the daemon before still counts.
    """
    were, are = before.state.assignments, world.state.assignments
    if were is not are:
        yield from (key for key in were if key not in are and key not in world.containers)


def joined(world: World, orders: Sequence[Order]) -> Iterator[ContainerKey]:
    """Yield the owners beside which these orders may let a container that is left alone, or put one back that rests."""
    mask = 0
    for order in orders:
        match order:
            case HoldAnswers(answers=answers):
                left = (world.containers.get(key) for key, cpus in answers.own.items() if cpus is None)
                for container in left:
                    if container is not None and world.is_let_go(container):
                        mask |= world.may_run(container)
            case AnswerStart(container=key, update=None, refusal=None) if key in world.containers:
                mask |= world.containers[key].footprint
            case ApplyCpuset(container=key, update=update, live=False) if _is_pinned(world, key):
                mask |= update.cpus.mask
            case _:
                pass
    if mask:
        for key in world.state.assignments:
            known = world.containers.get(key)
            if known is not None and known.footprint & mask:
                yield key


def _is_pinned(world: World, key: ContainerKey) -> bool:
    """Return whether a known container is pinned by hand: others count with it also while it rests (`may_run`, 3)."""
    return key in world.containers and world.containers[key].wish.standing is Standing.STRANGER


def gainers(world: World, orders: Sequence[Order]) -> Iterator[ContainerKey]:
    """Yield the owners that these orders give CPUs which they do not have for sure."""
    for order in orders:
        if isinstance(order, ApplyCpuset | WriteCpuset) and order.container in world.state.assignments:
            known = world.containers.get(order.container)
            if known is not None and not order.update.cpus <= known.sure:
                yield order.container


def taken(world: World, order: Order) -> Iterator[tuple[ContainerKey, CPUSet]]:
    """Yield the containers from which an order takes CPUs, or may at their next birth, and those that each keeps."""
    match order:
        case ApplyCpuset() | WriteCpuset():
            for key in world.confined_by(order.container):
                yield key, order.update.cpus
        case HoldAnswers():
            yield from taken_at_birth(world, order)
        case _:
            pass


def taken_at_birth(world: World, order: HoldAnswers) -> Iterator[tuple[ContainerKey, CPUSet]]:
    """Yield each container whose next birth may give it fewer CPUs by this order than by the answers that are held, and
    the CPUs of its new answer; and each that the order lets go, which keeps none for sure.
    """
    held = world.hand.held.answers if world.hand and world.hand.held else Answers()
    for key, cpus in order.answers.own.items():
        before = held.own.get(key, held.others)
        known = world.containers.get(key)
        if cpus is not None and (before is None or not before <= cpus):
            yield key, cpus
        elif cpus is None and known is not None and world.is_let_go(known):
            yield key, EMPTY


def _kept(world: World, grant: Assignment | None) -> CPUSet:
    """Return the CPUs that this grant keeps from all other containers."""
    if grant is None or world.settings.policy is PolicyName.NONE:
        return EMPTY
    return grant.cpus | grant.leaving.cpus if grant.leaving else grant.cpus
