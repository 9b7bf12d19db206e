"""The laws of several engines (decision 0069): each is lost by itself, and holds up nothing of the others. They hold
for units as well, before systemd told which of them ask (decision 0081).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sidecar.decide.books.policy import policy_named
from sidecar.decide.books.takes import held
from sidecar.decide.container.container import Standing
from sidecar.decide.facts import GiveUpRequested
from sidecar.decide.settings import PolicyName
from state.cpuset import EMPTY, CPUSet, union
from state.model import Assignment
from tests.decide.lawbook.takelaws import most_of
from tests.support.decide.partly_seen import PartlySeen
from tests.support.decide.reality import Reality
from tests.support.decide.two_by_hand import TwoByHand
from tests.support.decide.two_engines import ENGINES, TwoEngines
from tests.support.laws import Law, When


def orders_to_what_is_away(reality: Reality) -> Iterator[str]:
    """Yield orders to containers whose engine is not reached, so that none could be carried out, or was not looked at
    since, so that not all is known of it.
    """
    if not isinstance(reality, PartlySeen):
        return
    for order in (*reality.new_orders, *reality.new_moves):
        if reality.is_away(order.container):
            yield f"{order.container.short} of an engine that is away is ordered to {order.update.cpus}"


def books_of_what_is_away(reality: Reality) -> Iterator[str]:
    """Yield grants of an engine that was away before and after a burst, and that have changed, come or gone: not all is
    known of it. What a change of the machine or of the settings does to any grant is not its engine's matter, and what
    people release is released: a request reached the daemon before the news that its engine is away. While no engine is
    ready, what is above a ceiling that a late look lowered goes at once.
    """
    if not isinstance(reality, PartlySeen):
        return
    before, world = reality.planned_from, reality.world
    if (before.settings, before.topology, before.is_releasing) != (world.settings, world.topology, world.is_releasing):
        return
    was, now = before.state.assignments, world.state.assignments
    for key in sorted(was.keys() | now.keys()):
        if not reality.is_away(key) or not reality.was_away(key) or key not in reality.containers:
            continue
        if any(isinstance(fact, GiveUpRequested) and fact.container == key for fact in reality.bursts[-1]):
            continue
        had, has = (str(each[key].cpus) if key in each else "none" for each in (was, now))
        if had != has and not _sank_to_its_ceiling(reality, was.get(key), now.get(key)):
            yield f"{key.short} of an engine that is away had {had}, and has {has}"


def _sank_to_its_ceiling(reality: PartlySeen, had: Assignment | None, has: Assignment | None) -> bool:
    """Return whether a grant gave up what is above its ceiling, which the last burst lowered, and nothing else, while
    no engine is ready.
    """
    if reality.world.is_ready or had is None or has is None or had.demand.ceiling <= has.demand.ceiling:
        return False
    return has.cpus <= had.cpus and len(has.cpus) == most_of(reality, has, had.cpus)


def told_while_one_is_away(reality: Reality) -> Iterator[str]:
    """Yield containers that are told to be alone while one of two engines is away: it may be started again, with all of
    its containers, before the daemon knows. A hand answers their births where it watches.
    """
    if isinstance(reality, TwoByHand) and all(map(reality.answers_births_of, set(ENGINES) - reality.reached)):
        return
    if isinstance(reality, PartlySeen) and reality.is_apart:
        for key, cpus in reality.told_alone.items():
            yield f"{key.short} is told to be alone on {cpus}, and an engine is away"


def held_up(reality: Reality) -> Iterator[str]:
    """Yield containers of the engine that is reached which run elsewhere than they should, though no container of the
    other one is in their way. One that is not known yet is a newborn: it is in the way of owners where it is stuck. One
    whose start is held for CPUs of what is away may be elsewhere meanwhile, by an order of before.
    """
    world = reality.world
    if not isinstance(reality, TwoEngines) or world.is_releasing or world.settings.policy is PolicyName.NONE:
        return
    if not world.is_ready:
        yield "nothing is decided, and an engine is reached"
        return
    grants, policy = world.state.assignments, policy_named(world.settings.policy)
    away = {key: CPUSet.from_mask(each.footprint) for key, each in world.containers.items() if reality.is_away(key)}
    in_the_way = union(away.values()) | _stuck_unknown(reality)
    granted_away = union(
        each.cpus | away.get(key, EMPTY) | (each.leaving.cpus if each.leaving else EMPTY)
        for key, each in grants.items()
        if reality.is_away(key)
    )
    waits = (each for key, each in world.containers.items() if each.is_held and in_the_way & _granted(grants.get(key)))
    held_back = union(CPUSet.from_mask(each.footprint) for each in waits)
    for key, container in world.containers.items():
        real = reality.containers.get(key)
        if reality.is_away(key) or real is None or real.effective is None or container.is_idle or real.is_locked:
            continue
        if container.wish.standing is not Standing.MANAGED or container.view.in_shared_group or container.is_doubtful:
            continue
        if (grant := grants.get(key)) is None:
            wanted = (policy.desired(world, container) or EMPTY) - granted_away - world.state.leaving - held_back
            if wanted - real.effective:
                yield f"{real.name} should run on {wanted}, and runs on {real.effective}"
        elif not in_the_way & (grant.cpus | world.state.leaving | world.state.lent) and (
            real.effective != held(grant, container)
        ):
            yield f"{real.name} was granted {grant.cpus}, and runs on {real.effective}"


def _granted(grant: Assignment | None) -> CPUSet:
    return grant.cpus if grant else EMPTY


def _stuck_unknown(reality: TwoEngines) -> CPUSet:
    """Return where containers of an engine that is away run that are not known, and that the hand cannot write."""
    hand, known = reality.world.hand, reality.world.containers
    unknown = (real for key, real in reality.containers.items() if reality.is_away(key) and key not in known)
    return union(real.effective or EMPTY for real in unknown) & (hand.stuck if hand else EMPTY)


NOT_ORDERED: Final = Law("an engine that is away is ordered nothing", orders_to_what_is_away)
KEPT: Final = Law("what an engine has that is away stays granted to it", books_of_what_is_away)
NOT_TOLD: Final = Law("none is told to be alone while an engine is away", told_while_one_is_away)
NOT_HELD_UP: Final = Law("an engine that is away holds up nothing of another", held_up, When.APART)

LAWS: Final = (NOT_ORDERED, KEPT, NOT_TOLD, NOT_HELD_UP)
