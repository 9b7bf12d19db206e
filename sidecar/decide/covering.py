"""Which containers the hand covers: it answers each of their births, so none of them starts where it is configured.

1. The hand covers containers that the sidecar places, below a parent that it watches, once it holds an answer of their
   own. A group that existed before the hand answered births may be anywhere, so cover begins after a later look.
2. Cover ends when the hand is lost, does not answer any more, or does not watch the parent any more. A parent that it
   was told to leave, because nothing named it, is none that it watches.
3. A container that is left alone gets back what it would have without the hand. It is looked at again when the hand
   holds that. If all are let go, any may have started unseen, and may not be written back yet: until a look it may be
   where its birth was answered.
4. With a shared group there is no cover: the group confines newborns already.
5. A container that runs, and that the hand does not find, has a parent that is not watched, whatever its name: if it is
   seen elsewhere, or nowhere and no other of this parent is seen where the hand watches. One that is ending has no
   cgroup while the engine still tells that it runs. What is seen below a watched parent shows that it is watched, and
   the hand writes it again.
6. Containers that name no parent have the engine's default, which Docker does not tell. It is known from the
   configuration, or from the first one that runs: until then none of them is covered. Podman's default is a fixed one.
   It is known of each engine by itself.
7. A parent that another hand watches is not watched, and the engine alone moves the containers there.
8. A group that existed before the hand is moved by the answer for all others, and left to its first write once its
   container has an answer of its own. Until then, or until a look, it may be where the former put it. If its container
   rests there is no first write: it gets what a newborn would.
9. A container that was only glanced at, because another program holds its lock in the engine, is covered if it is
   known where it is born: the kernel shows below which parent it runs, or the books have the parent that it names. Any
   other may start below a parent that is not watched, and is not covered (`World.reach`, 2).
10. What holds the lock may be a start: until that is over the engine calls the container created or exited, and its
   group may be older than the hand. So a glance alone does not show that it rests. The kernel does: with each glance it
   is looked for below every parent where it could be covered (`birthplaces`), and runs if it has a group there. What
   had none once the hand answered is born later. The outcome of an order is no glance.
11. A guarded cpuset that another program writes more often than any engine can is *wrested*, and so is one where what
   it writes stands for a part of the time that counts: equal events become one, so the number alone shows little of a
   program that is fast, or of a hand that waits (`wresting`).
12. What the hand does not know keeps what other programs write into its group, but for owned CPUs. If these are fewer
   in new answers, they may put it there again. So until a later look, a live container that was seen after these
   answers were sent is sure of nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.grip import Closed, Loose, Writing
from sidecar.decide.container.machine import after
from sidecar.decide.container.news import AnswersTold, LetGo, WriteDone, WriteUndone
from sidecar.decide.facts import ContainerView, ViewKind
from sidecar.decide.hand_facts import (
    AnswersHeld,
    BornInside,
    CpusetWritten,
    GoneInside,
    HandFact,
    HandLost,
    HandReady,
    Overwritten,
    Slipped,
    WriteFailed,
)
from sidecar.decide.hand_state import HandState, may_mean
from sidecar.decide.homes import has_set_home, home_of, with_home_shown
from sidecar.decide.insiders import after_birth_inside, after_end_inside
from sidecar.decide.orders import HoldAnswers, LookAgain, Order
from sidecar.decide.world import World, replace
from sidecar.decide.wresting import after_overwriting, after_slip, looked_after_slip
from sidecar.systemd_names import parent_path
from state.cpuset import EMPTY, CPUSet, union
from state.key import ContainerKey


def after_hand(world: World, fact: HandFact) -> tuple[World, tuple[Order, ...]]:
    """Return the world after news of the hand, and looks for what that leaves open."""
    match fact:
        case HandReady():
            return _ready(world, fact)
        case HandLost():
            return _lost(world, fact)
        case AnswersHeld():
            return _held(world, fact)
        case CpusetWritten() | WriteFailed():
            return after_writes(world, (fact,))
        case Overwritten():
            return after_overwriting(world, fact), ()
        case Slipped():
            return after_slip(world, fact)
        case BornInside():
            return after_birth_inside(world, fact)
        case GoneInside():
            return after_end_inside(world, fact), ()


def told_of_answers(world: World) -> World:
    """Return the world in which each container has the answers that its next birth may get."""
    hand = world.hand
    changed = {}
    watched: dict[tuple[str, str, str], bool] = {}
    """Of looks that show the same, one is asked."""
    for key, container in world.containers.items():
        view, is_single = container.view, is_answered(world, container)
        # One that asks for nothing any more has its answer until the hand is told.
        is_told = is_single or (container.is_idle and hand is not None and hand.has_own_answer(key))
        answers = _answers_to(hand, container) if hand and is_told else ()
        # 10. With a glance, the kernel shows where its group is.
        was_seen = hand is not None and container.looked > hand.since
        is_covered = is_single and (container.is_covered or was_seen)
        if is_covered and (hand is None or view.is_glance):
            is_covered = may_cover(world, container)
        elif is_covered and hand is not None:
            alike = (view.engine, view.cgroup_parent, view.found_below)
            if alike not in watched:
                watched[alike] = _is_watched(world, hand, container)
            is_covered = watched[alike] and hand.surely_answers(key)
        if is_covered != container.is_covered or answers != container.answers:
            changed[key] = after(container, AnswersTold(answers, is_covered))
    return replace(world, containers={**world.containers, **changed}) if changed else world


def _answers_to(hand: HandState, container: Container) -> tuple[CPUSet, ...]:
    """Return what the hand may write for a container: at its birth, and when it lets it go, what the engine has."""
    answers, back = hand.answers_for(container.view.key), container.place.configured
    return (*answers, back) if hand.lets_go(container.view.key) and back not in answers else answers


def covered(world: World, key: ContainerKey, began: int) -> World:
    """Return the world after a look at this container: the hand covers it from now on, if it can (1)."""
    world = looked_after_slip(world, key, began)
    container = world.containers.get(key)
    if world.hand is None or container is None:
        return world
    # 6.
    hand = with_home_shown(world, world.hand, container.view)
    world = replace(world, hand=hand)
    unwatched = _unwatched_after(world, hand, container)
    if unwatched != hand.unwatched:
        hand = replace(hand, unwatched=unwatched)
        world = replace(world, hand=hand)
        if container.view.cgroup_parent in unwatched:
            return world
    if _is_missing(container) and container.view.found_below in hand.parents:
        container = after(container, LetGo(EMPTY, began))
        world = world.with_container(container)
    if container.is_covered or began <= hand.since or not may_cover(world, container):
        return world
    return world.with_container(after(container, AnswersTold(hand.answers_for(key), is_covered=True)))


def _unwatched_after(world: World, hand: HandState, container: Container) -> tuple[str, ...]:
    """Return the parents that are not watched, for all that is known after a look at this container (5)."""
    view, found = container.view, container.view.found_below
    if view.is_glance or container.is_idle:
        return hand.unwatched
    if found in hand.parents:
        return tuple(each for each in hand.unwatched if each != view.cgroup_parent)
    if not _is_missing(container):
        return hand.unwatched
    if not found and any(_shows_watched(hand, each.view, view) for each in world.containers.values()):
        return hand.unwatched
    return tuple(sorted({*hand.unwatched, view.cgroup_parent}))


def _is_missing(container: Container) -> bool:
    """Return whether the hand did not find its cgroup in this run."""
    return isinstance(container.grip, Closed) and container.grip.is_missing


def _shows_watched(hand: HandState, other: ContainerView, view: ContainerView) -> bool:
    """Return whether another container names the same parent, and is seen below one that the hand watches."""
    is_alike = (other.engine, other.cgroup_parent) == (view.engine, view.cgroup_parent)
    return is_alike and not other.is_glance and other.found_below in hand.parents


def awaits_cover(world: World, view: ContainerView) -> bool:
    """Return whether a fresh look at a container that this look shows would cover it."""
    container = world.containers.get(view.key)
    if container is None or container.is_covered or view.is_glance:
        return False
    return may_cover(world, container)


def is_older_than_the_hand(world: World, key: ContainerKey, began: int) -> bool:
    """Return whether a look began before the hand let this container go, was lost, or failed to write it: where it is
    since that look does not show.
    """
    container = world.containers.get(key)
    return container is not None and isinstance(container.grip, Loose | Closed) and began < container.grip.since


def may_cover(world: World, container: Container) -> bool:
    """Return whether the hand answers the births of this container, for all that is known."""
    hand = world.hand
    return hand is not None and hand.surely_answers(container.view.key) and _is_watched(world, hand, container)


def will_cover(world: World, container: Container) -> bool:
    """Return whether the hand answers the births of this container as soon as it holds what it was sent, or the answers
    after that: there may be an entry of its own only then.
    """
    hand = world.hand
    if hand is None or hand.sent is None:
        return False
    answers = hand.sent.answers
    if answers.own.get(container.view.key, answers.others) is None:
        return False
    return _is_watched(world, hand, container)


def is_heard(world: World, container: Container) -> bool:
    """Return whether the hand hears the birth of this container, for all that is known, whatever it answers."""
    return world.hand is not None and _is_watched(world, world.hand, container)


def _is_watched(world: World, hand: HandState, container: Container) -> bool:
    """Return whether this container is born below a parent that the hand watches, for all that is known."""
    if not is_answered(world, container):
        return False
    if container.view.is_glance and (container.view.found_below or not container.is_idle):
        # 9.
        return hand.surely_watches(container.view.found_below, world.contacts)
    parent = world.parent_of(container)
    if parent is None or parent in hand.unwatched:
        return False
    name = container.view.engine
    if not parent_path(parent):
        # 6.
        return hand.watches_home(name) if has_set_home(world, name) else not hand.taken
    places = (container.view.found_below, *_watched_as(world, hand, name, parent))
    return any(hand.surely_watches(each, world.contacts) for each in places)


def birthplaces(world: World, key: ContainerKey) -> tuple[str, ...]:
    """Return the watched parents, as paths, below which a container is born, by the parent that the books have of it;
    none if they have none.
    """
    hand, originals = world.hand, world.state.originals.get(key)
    if hand is None or originals is None or originals.parent is None:
        return ()
    if parent_path(originals.parent):
        return _watched_as(world, hand, key.engine, originals.parent)
    # All that no container names are some engine's default.
    newest = hand.sent or hand.held
    defaults = set(hand.parents) - set(newest.parents if newest else ())
    return tuple(sorted({*hand.home, *hand.homes.get(key.engine, ()), *defaults}))


def _watched_as(world: World, hand: HandState, engine: str, parent: str) -> tuple[str, ...]:
    """Return the watched parents that a container of this engine may mean by this one, which it names."""
    return tuple(each for each in hand.parents if may_mean(parent, each, world.info_of(engine)))


def is_answered(world: World, container: Container) -> bool:
    """Return whether the sidecar places a container itself, and not by the group that it is in, or puts it back."""
    view, is_placed = container.view, container.wish.standing is Standing.MANAGED or world.is_displaced(container)
    return is_placed and view.kind is ViewKind.CONTAINER and not view.in_shared_group


def _ready(world: World, fact: HandReady) -> tuple[World, tuple[Order, ...]]:
    before = world.hand or HandState()
    hand = replace(_watching(before, fact.parents, fact.began), taken=fact.taken)
    hand = replace(hand, home=tuple(sorted({*hand.home, *fact.home})))
    for container in world.containers.values():
        hand = with_home_shown(world, hand, container.view)
    world = replace(world, hand=hand, handless="")
    return world, _to_be_covered(world) if hand != before else ()


def _watching(hand: HandState, parents: tuple[str, ...], ticket: int) -> HandState:
    """Return the hand that watches these parents: births below new ones are answered from now on."""
    met = tuple(sorted({*hand.met, *parents}))
    if not set(parents) - set(hand.parents):
        return replace(hand, parents=parents, met=met)
    return replace(hand, parents=parents, met=met, since=ticket, unwatched=())


def _held(world: World, fact: AnswersHeld) -> tuple[World, tuple[Order, ...]]:
    """Return the world in which the hand holds the answers that were sent, or that it held already."""
    before = world.hand
    if before is None:
        return world, ()
    newest = before.sent or before.held
    if newest is None or newest.number != fact.number:
        return world, ()
    hand = replace(_watching(before, fact.parents, fact.ended), held=newest, sent=None, stuck=fact.stuck)
    if _answers_more(before, newest):
        hand = replace(hand, since=fact.ended)
    world = told_of_answers(replace(world, hand=hand))
    looks = list(_to_be_covered(world)) if hand.since != before.since or _covers_more(before, newest) else []
    # 3. Given back. An older look at it is outdated, also if it is not known that it runs, or that it exists.
    is_over = before.held is not None and before.held.answers.others is not None and newest.answers.others is None
    if is_over:
        world = replace(world, horizon=max(world.horizon, fact.ended))
    for key, container in list(world.containers.items()):
        if before.lets_go(key):
            # It may have been born since it was seen, and be where the hand cannot give it back what it had.
            back = fact.stuck if container.is_idle else container.place.configured
            back |= union(before.answers_for(key)) if is_over else EMPTY
            world = world.with_container(after(container, LetGo(back, fact.ended)))
            looks += [] if container.is_idle and not back else [LookAgain(key)]
    # 8. Left to its first write. 12. Moved as what is not known.
    for key, put in (_left_where_put(before, newest) | _moved_as_unknown(world, before, fact.ended)).items():
        known = world.containers.get(key)
        if known is not None and not known.is_idle and isinstance(known.grip, Loose | Writing):
            world = world.with_container(after(known, LetGo(put, fact.ended)))
            looks += [] if known.is_covered else [LookAgain(key)]
    return world, tuple(looks)


def _left_where_put(before: HandState, newest: HoldAnswers) -> dict[ContainerKey, CPUSet]:
    """Return the containers that have an answer of their own from now on, and where the answer for all others put them,
    if their groups are older than the hand.
    """
    others = before.held.answers.others if before.held else None
    if before.held is None or others is None:
        return {}
    own = newest.answers.own
    return {key: others for key in own.keys() - before.held.answers.own.keys() if own[key] is not None}


def _moved_as_unknown(world: World, before: HandState, ended: int) -> dict[ContainerKey, CPUSet]:
    """Return the containers that no look has shown since the hand moved them as unknown, and where it may have (12)."""
    seen_before = [key for key, each in world.containers.items() if each.looked < ended and is_answered(world, each)]
    return {key: cpus for key in seen_before if (cpus := before.returned_to(key))}


def _answers_more(before: HandState, newest: HoldAnswers) -> bool:
    """Return whether births are answered from now on that were not before."""
    if before.held is None or before.held.answers.others is None:
        return newest.answers.others is not None
    own = newest.answers.own
    return any(
        answer is None and own.get(key, newest.answers.others) is not None
        for key, answer in before.held.answers.own.items()
    )


def _covers_more(before: HandState, newest: HoldAnswers) -> bool:
    """Return whether containers may be covered from now on that could not be before."""
    held = before.held
    return held is None or held.home != newest.home or bool(newest.answers.own.keys() - held.answers.own.keys())


def coverable_since(before: World, world: World) -> tuple[LookAgain, ...]:
    """Return looks at what may be covered since another look showed where its engine puts containers. They are asked
    for here if the hand is told nothing new, because another engine puts its own there as well.
    """
    was, now = before.hand, world.hand
    is_shown = was is not None and now is not None and was.homes != now.homes and home_of(was) == home_of(now)
    return _to_be_covered(world) if is_shown else ()


def _to_be_covered(world: World) -> tuple[LookAgain, ...]:
    return tuple(LookAgain(key) for key, each in world.containers.items() if awaits_cover(world, each.view))


def _lost(world: World, fact: HandLost) -> tuple[World, tuple[Order, ...]]:
    """Return the world without a hand. Until a look, a container may be where the hand would answer its birth. An older
    first look is outdated, as one that is older than a removal: it may show it before the hand moved it.
    """
    hand = world.hand
    if hand is None:
        return replace(world, handless=fact.reason), ()
    answered = {key: union((*hand.answers_for(key), hand.returned_to(key))) for key in world.containers}
    moved = {key for key, each in world.containers.items() if answered[key] or not each.is_idle}
    found = {
        key: after(each, LetGo(answered[key], fact.ended)) if key in moved else each
        for key, each in world.containers.items()
    }
    looks = tuple(LookAgain(key) for key in found if key in moved)
    horizon = max(world.horizon, fact.ended)
    return replace(world, hand=None, handless=fact.reason, containers=found, horizon=horizon), looks


def after_writes(world: World, facts: Iterable[CpusetWritten | WriteFailed]) -> tuple[World, tuple[Order, ...]]:
    """Return the world after these outcomes of writes in turn, and looks for what they leave open. All that an arrival
    moves are one burst: what each would make of the world is made once.
    """
    containers, looks = dict(world.containers), list[Order]()
    is_news = False
    for fact in facts:
        container = containers.get(fact.container)
        grip = container.grip if container else None
        if container is None or not isinstance(grip, Writing) or grip.order.number != fact.order:
            continue
        if isinstance(fact, WriteFailed):
            made = after(container, WriteUndone(fact.reason, fact.is_gone, fact.ended))
        else:
            made = after(container, WriteDone(fact.effective, fact.ended))
        containers[fact.container], is_news = made, True
        if isinstance(fact, WriteFailed) or made.pulled:
            looks.append(LookAgain(fact.container))
    return (replace(world, containers=containers) if is_news else world), tuple(looks)
