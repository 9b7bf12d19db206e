"""step(world, facts): fold facts into the world, then decide once. The only entry point to all decisions.

1. Each fact changes what is known. An outcome that leaves a doubt also asks for a look, or for a read of the machine.
   The machine and the settings change last, and at once: so grants are fitted to what the whole burst tells, whatever
   came first in it.
2. The policy settles the State. While no engine is ready, grants only give up what is above their ceilings.
3. The plan gives the orders that are possible now.

All facts of a burst are folded before the decision, so that ten arrivals make one decision. The same world and facts
always give the same world and orders: a journal of bursts replays every decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import assert_never

from sidecar.decide.books.clashes import without_unaware_grants
from sidecar.decide.books.dynamic import within_ceilings
from sidecar.decide.books.give_up import after_giving_up
from sidecar.decide.books.lent import with_lent
from sidecar.decide.books.load_wish import with_loads, with_loads_of_grants
from sidecar.decide.books.policy import policy_named
from sidecar.decide.books.resize import after_resize
from sidecar.decide.books.resting import has_the_same_grants
from sidecar.decide.books.takes import after_acknowledgement, with_takes_at_rest_due, without_takes_of_what_only_came
from sidecar.decide.contacts import Away, Connected, Contact
from sidecar.decide.container import news
from sidecar.decide.container.container import Container
from sidecar.decide.container.machine import after, is_contradicted, waited_for_a_start
from sidecar.decide.container.place import cpus_of
from sidecar.decide.covering import (
    after_hand,
    after_writes,
    awaits_cover,
    coverable_since,
    covered,
    is_older_than_the_hand,
    told_of_answers,
)
from sidecar.decide.facts import (
    ContainerRemoved,
    ContainerSeen,
    ContainerView,
    CpusetApplied,
    CpusetFailed,
    DefragmentRequested,
    EngineConnected,
    EngineDisconnected,
    Fact,
    Failure,
    GiveUpRequested,
    InventoryTaken,
    LoadMeasured,
    OrderDelayed,
    ReleaseRequested,
    ResizeRequested,
    RetryDue,
    SettingsChanged,
    StartHeld,
    StartLetGo,
    StopFailed,
    TakeAcknowledged,
    TimerEnded,
    TopologyRead,
)
from sidecar.decide.hand_facts import (
    AnswersHeld,
    BornInside,
    CpusetWritten,
    GoneInside,
    HandLost,
    HandReady,
    Overwritten,
    Slipped,
    WriteFailed,
)
from sidecar.decide.insiders import looked_inside
from sidecar.decide.moves.plan import plan
from sidecar.decide.moves.release import start_releasing
from sidecar.decide.moves.signals import after_failed_stop
from sidecar.decide.moves.starts import after_hold, after_letting_go, answers_to_owners_in_pool
from sidecar.decide.moves.timers import after_timer, interrupted, with_rests_over
from sidecar.decide.orders import LookAgain, Order, ReadTopology
from sidecar.decide.reconcile import on_machine, with_settings
from sidecar.decide.settings import Settings
from sidecar.decide.sightings import (
    believed_until_a_look,
    counted,
    differs,
    moved_unseen,
    recognized,
    remembered,
    sighted,
    stranded,
    with_held_back,
    with_lapses,
)
from sidecar.decide.world import World, replace
from state.codec import convert
from state.key import ContainerKey
from state.model import State


def step(world: World, facts: Sequence[Fact]) -> tuple[World, tuple[Order, ...]]:
    """Return the world after a burst of facts, and the orders to carry out now."""
    # 1. What is known.
    before, doubts = world, list[Order]()
    for is_write, some in groupby(facts, lambda each: isinstance(each, CpusetWritten | WriteFailed)):
        if is_write:
            world, asked = after_writes(world, (each for each in some if isinstance(each, CpusetWritten | WriteFailed)))
            doubts += asked
            continue
        for fact in some:
            world, asked = _fold(world, fact)
            doubts += asked
    world, asked = _fitted(world, facts)
    doubts += asked
    doubts += [LookAgain(key) for key in moved_unseen(before, world)]
    doubts += coverable_since(before, world)
    world = with_loads_of_grants(with_held_back(before, with_lapses(with_rests_over(world))))
    world = told_of_answers(world)
    # 2. The State.
    is_answered = world.is_ready and not world.is_releasing
    if is_answered:
        state = _settled(world, before if before.is_answered else None)
        # Those of an engine that is not ready were not asked.
        is_answered = world.sees_all and has_the_same_grants(world.state, state)
        state = remembered(world, state)
        if state is not world.state or world.is_defragmenting:
            world = replace(world, state=state, is_defragmenting=False)
    elif (state := with_takes_at_rest_due(world, within_ceilings(world))) is not world.state:
        world = replace(world, state=state)
    if is_answered is not world.is_answered:
        world = replace(world, is_answered=is_answered)
    if before.state.leaving or before.state.lent:
        world = without_takes_of_what_only_came(before.state, world)
    world, shared = answers_to_owners_in_pool(world)
    world = with_lent(before.state, world)
    # 3. The orders.
    world, orders = plan(world)
    return world, (*orders, *shared, *dict.fromkeys(doubts))


def _settled(world: World, last: World | None) -> State:
    """Return the State as the policy wants it; all are asked again if a grant was undone."""
    policy = policy_named(world.settings.policy)
    settled = policy.settle(world, last)
    state = without_unaware_grants(world, settled)
    state = state if state is settled else policy.settle(replace(world, state=state))
    return replace(state, has_gaps=False) if state.has_gaps else state


def _fold(world: World, fact: Fact) -> tuple[World, tuple[Order, ...]]:
    match fact:
        case ContainerSeen():
            return _seen(world, fact.view, fact.began)
        case ContainerRemoved():
            world = looked_inside(world, fact.container, fact.began)
            container = world.containers.get(fact.container)
            if container is None or container.known < fact.began:
                return world.without_container(fact.container, fact.began), ()
            # Outdated, but an order may just have been answered after the removal, and no other fact would report it.
            return world.with_container(after(container, news.Disputed())), (LookAgain(fact.container),)
        case InventoryTaken():
            doubts: list[Order] = []
            for view in fact.seen:
                world, asked = _seen(world, view, fact.began)
                doubts += asked
                if view.key not in world.containers and world.is_absent(view.key):
                    # `_seen` has already asked for a look.
                    world = believed_until_a_look(world, view, fact.began)
            return counted(world, fact), tuple(doubts)
        case CpusetApplied():
            return _applied(world, fact)
        case CpusetFailed():
            return _failed(world, fact)
        case OrderDelayed():
            container = _outstanding(world, fact.container, fact.order)
            return world.with_container(after(container, news.AnswerOverdue())) if container else world, ()
        case RetryDue():
            container = world.containers.get(fact.container)
            return world.with_container(after(container, news.PauseEnded(fact.order))) if container else world, ()
        case TimerEnded():
            return after_timer(world, fact), ()
        case TakeAcknowledged():
            return after_acknowledgement(world, fact), ()
        case LoadMeasured():
            return with_loads(world, fact.loads), ()
        case ResizeRequested():
            return after_resize(world, fact), ()
        case GiveUpRequested():
            return after_giving_up(world, fact), ()
        case DefragmentRequested():
            return replace(world, is_defragmenting=world.is_ready), ()
        case StartHeld():
            return interrupted(after_hold(world, fact), fact.view.key), ()
        case StartLetGo():
            return after_letting_go(world, fact), (LookAgain(fact.container),)
        case StopFailed():
            return after_failed_stop(world, fact), ()
        case EngineConnected():
            named, name = world.named(fact.engine.name), fact.engine.name
            return named.with_contact(name, Contact(fact.engine, Connected(fact.began))), ()
        case EngineDisconnected():
            return _disconnected(world, fact), ()
        case TopologyRead() | SettingsChanged():
            # Once all else is known (`_fitted`).
            return world, ()
        case ReleaseRequested():
            return start_releasing(world), ()
        case (
            HandReady()
            | HandLost()
            | AnswersHeld()
            | CpusetWritten()
            | WriteFailed()
            | Overwritten()
            | Slipped()
            | BornInside()
            | GoneInside()
        ):
            return after_hand(world, fact)
    assert_never(fact)


def _fitted(world: World, facts: Sequence[Fact]) -> tuple[World, tuple[Order, ...]]:
    """Return the world on the machine and under the settings that were read last in a burst; all containers are looked
    at again if the machine was another meanwhile.
    """
    settings, moved = world.settings, world
    for fact in facts:
        if (
            isinstance(fact, TopologyRead)
            and replace(fact.topology, narrowed=moved.topology.narrowed) != moved.topology
        ):
            moved = on_machine(moved, fact.topology)
        elif isinstance(fact, SettingsChanged):
            settings = convert(fact.settings, Settings)
    is_moved = moved is not world
    if not is_moved and not any(isinstance(fact, SettingsChanged) for fact in facts):
        return world, ()
    return with_settings(moved, settings), tuple(map(LookAgain, moved.containers)) if is_moved else ()


def _disconnected(world: World, fact: EngineDisconnected) -> World:
    """Return the world without an engine, or without any if the news name none."""
    for name in [fact.engine] if fact.engine else list(world.contacts):
        known = world.contacts.get(name, Contact())
        world = world.with_contact(name, replace(known, readiness=Away(fact.reason)))
    return world


def _seen(world: World, view: ContainerView, began: int) -> tuple[World, tuple[Order, ...]]:
    """Return the world after a look, and an order to look again if it is outdated but shows a difference: it may be the
    only sign of a change (a start, while an order was being answered). So is one that is older than what the hand did.
    """
    world = world if view.is_glance else looked_inside(world, view.key, began)
    seen = sighted(world, view, began)
    if seen is world:
        return world, (LookAgain(view.key),) if differs(world, view) or awaits_cover(world, view) else ()
    seen = covered(interrupted(seen, view.key, world.containers.get(view.key)), view.key, began)
    is_due = awaits_cover(seen, view) or is_older_than_the_hand(seen, view.key, began)
    return seen, (LookAgain(view.key),) if is_due else ()


def _outstanding(world: World, key: ContainerKey, number: int) -> Container | None:
    """Return the container whose outstanding order has this number; None if there is none."""
    container = world.containers.get(key)
    return container if container and container.order and container.order.number == number else None


def _applied(world: World, fact: CpusetApplied) -> tuple[World, tuple[Order, ...]]:
    container = _outstanding(world, fact.container, fact.order)
    if container is None or container.order is None:
        return world, ()
    is_unsure = is_contradicted(container) or waited_for_a_start(container)
    originals, grant = world.state.originals.get(fact.container), world.state.assignments.get(fact.container)
    update = container.order.update
    if originals and update.nano_cpus == originals.nano_cpus:
        world = replace(world, state=world.state.put_back(fact.container))
    elif (grant is None or not grant.is_lifting) and (update.nano_cpus or update.cpu_quota):
        world = replace(world, state=world.state.shown(fact.container))
    made = stranded(after(container, news.OrderApplied(fact.effective, fact.ended)), world.topology.online)
    return world.with_container(recognized(world, made)), (LookAgain(fact.container),) if is_unsure else ()


def _failed(world: World, fact: CpusetFailed) -> tuple[World, tuple[Order, ...]]:
    container = _outstanding(world, fact.container, fact.order)
    if container is None:
        return world, ()
    look = LookAgain(fact.container)
    match fact.failure:
        case Failure.GONE:
            return world.without_container(fact.container, fact.ended), ()
        case Failure.REFUSED:
            heard: news.News = news.OrderRefused(fact.reason)
            asked: tuple[Order, ...] = (ReadTopology(), look)
        case Failure.FAILED:
            heard, asked = news.OrderFailed(fact.reason, fact.ended), (look,)
        case Failure.LOST:
            heard, asked = news.OrderLost(fact.reason), (look,)
        case Failure.INEFFECTIVE:
            # The outcome includes a look.
            seen = fact.effective or cpus_of(container.view.cpuset, world.state.online)
            heard, asked = news.OrderIneffective(seen, fact.effective, fact.reason, fact.ended), ()
        case _:
            assert_never(fact.failure)
    made = stranded(after(container, heard), world.topology.online)
    return world.with_container(recognized(world, made)), asked
