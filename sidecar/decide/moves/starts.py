"""Strict start: the answers to runtimes that hold a start, and when they are given.

A runtime that asks (`StartHeld`) starts nothing until it is answered, and then on exactly the CPUs of the answer. So:

1. A container whose runtime asks cannot start unseen: while it is idle, its configured CPUs are not part of its
   footprint (`Container.footprint`).
2. A container with a grant is answered when no other container may be on its CPUs, and the shared pool keeps none of
   them as yet: it has all of them, from the first instruction.
3. A container of the shared pool is answered at once, with the pool except CPUs that exclusive containers have not left
   yet.
4. A refused container does not start, whatever its label asks for on a shortage. To let it share, choose another
   runtime. One that did not choose this runtime, which stands before the engine's own (`Held.is_usual`), starts in the
   shared pool, unless it asks to be stopped; and so does one of whose CPUs a stranger has some.
5. The start of a container that the sidecar does not place goes on unchanged.
6. From its answer until a look or an order, the container is in doubt: its start may be still to come, or may have
   failed. The engine does one thing at a time for a container, so either of them comes after the start (`machine`).
   An answer cannot be called back. So CPUs that it was told are its own are kept free of all others until then, also if
   its grant ends meanwhile (`Container.is_promised`).
7. An order may wait in the engine behind a held start: one that is outstanding, one that was lost, or one that an
   earlier run of the sidecar left there, which may lead anywhere. It takes effect after the start, and counts from now
   until a look, so no other start is answered where it may lead. Starts that are *followed* so do not wait for each
   other: nothing of these orders can happen before their own answers.
8. An engine that tells every limit in CPUs (Podman) shows of a container that has started what the runtime wrote into
   the bundle, a lifted limit as none, and does so when it has stopped, too. What people asked for is in the question
   alone. So that is remembered before the answer. Others show the limit that was asked for, which the bundle does not
   tell apart from a quota.

While a start is held, the engine answers neither looks at the container nor orders to it, so none are given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import UNSET

from sidecar.decide.books.give_up import refused_now
from sidecar.decide.books.policy import policy_named
from sidecar.decide.container import news
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.machine import after
from sidecar.decide.container.originals import NANO, limited_in_cpus, originals_of
from sidecar.decide.container.place import place_of
from sidecar.decide.container.start import Held
from sidecar.decide.facts import ContainerView, StartHeld, StartLetGo
from sidecar.decide.following import before_what_follows
from sidecar.decide.moves.limits import update_to
from sidecar.decide.orders import AnswerStart, Update
from sidecar.decide.settings import PolicyName
from sidecar.decide.sightings import believed, forgets_updates, recognized, with_bundle
from sidecar.decide.world import World, replace
from sidecar.natural_order import natural
from state.cpuset import EMPTY, CPUSet
from state.demand import Demand, QuotaRule, Shortage
from state.key import ContainerKey
from state.refusal import Refusal, RefusalCode, Taken

_PERIOD: Final = 100_000
"""Microseconds. The period of CPU limits that are set in CPUs."""


def after_hold(world: World, fact: StartHeld) -> World:
    """Return the world after a runtime asked about a start: no earlier process of the container runs any more, and
    older looks at it are outdated. Its bundle shows what no look has shown: the container may be pinned by hand.
    """
    key, bundle = fact.view.key, fact.view
    if tells_in_cpus := _tells_in_cpus(world, key):
        bundle = limited_in_cpus(bundle)
    if key not in world.containers:
        world = believed(world, bundle, fact.began)
    known, told = world.containers[key], news.HoldBegan(fact.number, fact.began, is_usual=fact.is_usual)
    if (view := with_bundle(world, known, bundle)) is not known.view:
        place = place_of(view, world.state.online)
        told = news.HoldBegan(fact.number, fact.began, view, place, is_usual=fact.is_usual)
    world = world.with_container(recognized(world, after(known, told)))
    return _with_own_limit(world, bundle) if tells_in_cpus else world


def _tells_in_cpus(world: World, key: ContainerKey) -> bool:
    info = world.info_of(key.engine)
    return info is not None and info.traits.limits_one_way


def _with_own_limit(world: World, bundle: ContainerView) -> World:
    """Return the world whose State has the limit that people asked for, from the bundle of a held start (8).

    An engine that forgets updates makes each bundle as the container was created. Another one may have put into it what
    the sidecar set: there the bundle counts only of a container that no look has shown.
    """
    key, state = bundle.key, world.state
    container, had = world.containers[key], state.originals.get(key)
    if world.settings.policy is PolicyName.NONE or container.wish.standing is not Standing.MANAGED:
        return world
    if had is None:
        if not container.view.is_glance:
            return world
        # The parent is in no bundle: the first look tells it.
        own = replace(originals_of(bundle), cgroup_parent=UNSET)
    elif forgets_updates(world, key):
        own = replace(had, nano_cpus=bundle.nano_cpus, cpu_quota=bundle.cpu_quota, cpu_period=bundle.cpu_period)
    else:
        return world
    return world if own == had else replace(world, state=replace(state, originals={**state.originals, key: own}))


def after_letting_go(world: World, fact: StartLetGo) -> World:
    """Return the world after the runtime gave up a held start, which did not happen."""
    container = world.containers.get(fact.container)
    if container is None or not isinstance(container.start, Held) or container.start.number != fact.number:
        return world
    return world.with_container(after(container, news.HoldGivenUp()))


def answers(world: World) -> tuple[World, tuple[AnswerStart, ...]]:
    """Return the world in which all possible answers to held starts are given, and these answers."""
    return _given(world, lambda _: True)


def answers_to_owners_in_pool(world: World) -> tuple[World, tuple[AnswerStart, ...]]:
    """Return the world in which owners that start in the shared pool (4) are told so, and these answers. Where they
    start is closed to the others of the pool from now on: that is known before it is counted what the pool keeps as yet
    (`books/lent`).
    """
    owners = world.state.assignments
    return _given(world, lambda each: each.container in owners and each.update is not None and not each.exclusive)


def _given(world: World, accept: Callable[[AnswerStart], bool]) -> tuple[World, tuple[AnswerStart, ...]]:
    given: list[AnswerStart] = []
    held = [each for each in world.containers.values() if each.is_held]
    # 7. Others wait for these.
    for container in sorted(held, key=lambda each: not each.is_followed):
        assert isinstance(container.start, Held)
        answer = answer_to(world, container, container.start.number)
        if answer is None or not accept(answer):
            continue
        given.append(answer)
        # 6. It starts, or has started, or will not.
        told = news.HoldAnswered(answer.update, answer.refusal is not None, answer.exclusive)
        world = world.with_container(after(container, told))
    return world, tuple(given)


def answer_to(world: World, container: Container, number: int) -> AnswerStart | None:
    """Return the answer to the held start of this number; None if it has to wait."""
    key, settings = container.view.key, world.settings
    is_ours = container.wish.standing is Standing.MANAGED and settings.policy is not PolicyName.NONE
    if world.is_releasing or (not is_ours and container.wish.refusal is None):
        # 5. Not placed by the sidecar.
        return AnswerStart(key, number)
    is_usual = isinstance(container.start, Held) and container.start.is_usual
    if settings.policy is not PolicyName.NONE and container.wish.standing is Standing.UNMANAGED:
        # 4. Inside another container.
        return AnswerStart(key, number, refusal=None if is_usual else container.wish.refusal)
    if world.is_absent(key):
        return None
    refused = refused_now(world, key)
    if refused and not (is_usual and may_share(refused.demand)):
        # 4. Refused.
        return AnswerStart(key, number, refusal=refused.refusal)
    wanted = policy_named(settings.policy).desired(world, container)
    if wanted is None:
        return AnswerStart(key, number)
    reserved, reached, own = world.state.reserved.mask, world.reach, container.footprint
    if container.is_followed:
        # 7. Not what waits behind this start, or behind others like it.
        reached, own = before_what_follows(world), container.coming_by_hand
    is_exclusive = key in world.state.assignments
    taken = wanted & world.strangers if is_exclusive else EMPTY
    if taken and is_usual:
        is_exclusive, wanted = False, world.pool_for(container, world.state.shared)
    if is_exclusive:
        # 2. All of it, and alone.
        if taken:
            return AnswerStart(key, number, refusal=Refusal(RefusalCode.TAKEN_BY_STRANGER, Taken(taken)))
        if (reached.others(own) | world.state.lent.mask) & wanted.mask & ~reserved:
            return None
        if any(answer != wanted for answer in container.answers):
            # The hand would write something else at its birth.
            return None
        cpus = wanted
    elif container.wish.demand is not None and not (refused or taken):
        # Not decided yet.
        return None
    else:
        # 3. The pool.
        cpus = CPUSet.from_mask(wanted.mask & ~(reached.exclusive & ~reserved) or world.state.refuge.mask)
    return AnswerStart(key, number, update=bundle_of(world, container, cpus), exclusive=is_exclusive)


def awaited(world: World, key: ContainerKey) -> tuple[Container, ...]:
    """Return the containers for which the start of one with a grant waits (2), by name; none without a grant. Newborns
    that are not known yet are not among them.
    """
    assignment = world.state.assignments.get(key)
    if assignment is None:
        return ()
    others = (each for at, each in world.containers.items() if at != key)
    found = [each for each in others if world.counted(each) & assignment.cpus.mask & ~world.state.reserved.mask]
    return tuple(sorted(found, key=lambda each: (natural(each.view.name), each.view.id)))


def may_share(demand: Demand | None) -> bool:
    """Return whether a container starts in the shared pool where its demand, None if it cannot be read, is refused."""
    return demand is None or demand.shortage is not Shortage.STOP


def bundle_of(world: World, container: Container, cpus: CPUSet) -> Update:
    """Return the update of the runtime's bundle. A bundle has limits only as quotas: one set in CPUs becomes a quota of
    the usual period.
    """
    update = update_to(world, container, cpus)
    assignment = world.state.assignments.get(container.view.key)
    view = container.view
    quota = update.cpu_quota
    if assignment is not None and assignment.demand.quota is QuotaRule.LIFT and (view.nano_cpus or view.cpu_quota):
        quota = -1
    elif update.nano_cpus is not None:
        quota = update.nano_cpus * _PERIOD // NANO
    return Update(cpus=cpus, mems=update.mems, cpu_quota=quota)
