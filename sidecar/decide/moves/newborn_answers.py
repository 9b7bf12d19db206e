"""Standing answers: what the hand writes into a newborn group before anything is known about it.

1. A container with a grant gets what it may be sent now (`birthplace`): at rest its whole grant, but for CPUs of
   another exclusive container's footprint. A grant of which only the State knows is answered in full, so that a
   restart of the daemon protects it at once; CPUs that are leaving are still those of the container that leaves them,
   as far as it may stay there, and no notice that it was given is taken back. One that was told to start alone, and
   lost its grant meanwhile, gets what it was told.
2. A container that is left alone gets nothing: one that is pinned by hand at once, since it counts where it is pinned;
   any other from the first look that shows it run. Until then it is born as all others are, so that no owner is told to
   be alone beside it; or on the CPUs that it had, which are its own until its engine is back. One that is displaced
   gets nothing only once it is back: until then it has the way there (`release`), so that no owner is told to be alone
   where a hand that lets go puts it.
3. All others get the vacated part of the shared pool, under the rules of a live container: they stay where the last
   answer put them, and enter what no exclusive footprint touches. Each container that is known has an entry for that.
   What is not known keeps the CPUs that its own runtime writes, but for owned ones: another engine's, a build's.
4. A container's group is below its parent, which never changes: the books have it of each container that the sidecar
   placed. What has its name elsewhere was asked for as a parent, and is a newborn like all others. Where parents are
   named at all, or one is found elsewhere, a container whose parent no look and no books show may be below any, and so
   may one in a pod. No parent is watched only because a glance found something of a container's name there.
5. Under the policy none, in a release, and with a shared group, no newborn gets anything.

One order is outstanding at a time. A container enters CPUs only once the hand holds answers without them: until then
the newborns are in its way (`HandState.newborns`). What differs by containers alone that are gone is told with the next
change.
"""

from __future__ import annotations

from collections.abc import Iterable

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.covering import is_answered, told_of_answers
from sidecar.decide.facts import ContainerView
from sidecar.decide.homes import home_of, keeps_defaults
from sidecar.decide.moves.plain import labels_tell
from sidecar.decide.moves.release import way_home
from sidecar.decide.moves.settled import desires
from sidecar.decide.moves.target import birthplace
from sidecar.decide.orders import Answers, HoldAnswers
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from sidecar.systemd_names import is_group_of_pod, outside_containers, parent_path
from state.cpuset import EMPTY, CPUSet
from state.key import ContainerKey
from state.model import Assignment, State

_LEFT_ALONE = (Standing.STRANGER, Standing.UNMANAGED)


def standing_answers(world: World) -> tuple[World, tuple[HoldAnswers, ...]]:
    """Return the world in which the hand is told the answers that it should hold, and the order for that; none if it
    holds them, or the last order is outstanding.
    """
    hand = world.hand
    if hand is None or hand.sent is not None:
        return world, ()
    answers = answers_of(world)
    named: set[str] = set()
    for each in world.containers.values():
        view = each.view
        if is_answered(world, each):
            parent = world.parent_of(each)
            named |= {parent or "", "" if not parent and _is_only_glanced_away(world, view) else view.found_below}
        elif view.cgroup_parent:
            # One inside another container's cgroup is confined with that, or with what only has such a name.
            named.add(outside_containers(view.cgroup_parent, view.pod))
    parents = tuple(sorted(named - {""}))
    order = HoldAnswers(world.numbers, answers, parents, home_of(hand), world.state.online)
    order = replace(order, labels_tell=labels_tell(world.settings), keeps_defaults=keeps_defaults(world, hand))
    if hand.held is not None and _is_held(hand.held, order):
        return world, ()
    own = _all_own(hand.held, answers)
    order = replace(order, resting=frozenset(key for key in own if _rests(world, key)))
    world = replace(world, hand=replace(hand, sent=order), numbers=world.numbers + 1)
    return told_of_answers(world), (order,)


def _rests(world: World, key: ContainerKey) -> bool:
    """Return whether a container is known to have no process, or to be gone."""
    container = world.containers.get(key)
    return not world.is_absent(key) if container is None else container.is_idle


def _is_held(held: HoldAnswers, order: HoldAnswers) -> bool:
    """Return whether what is held differs from this at most by containers that are gone, and had what all others have:
    an id never comes back, so they are left out with the next change.
    """
    answers, own = held.answers, held.answers.own
    gone = own.keys() - order.answers.own.keys()
    if gone and all(own[key] is not None and own[key] == answers.others for key in gone):
        answers = replace(
            answers,
            own={key: cpus for key, cpus in own.items() if key not in gone},
            named={key: parent for key, parent in answers.named.items() if key not in gone},
            unplaced=answers.unplaced - gone,
        )
    around = (held.parents, held.home, held.online, held.labels_tell, held.keeps_defaults)
    wanted = (order.parents, order.home, order.online, order.labels_tell, order.keeps_defaults)
    return answers == order.answers and around == wanted


def _all_own(held: HoldAnswers | None, answers: Answers) -> set[ContainerKey]:
    """Return the containers that the hand may have written: it has, or had, an answer for each."""
    return {*answers.own, *(held.answers.own if held else ())}


def answers_of(world: World) -> Answers:
    """Return the answers that the hand should hold now."""
    settings, state = world.settings, world.state
    if settings.policy is PolicyName.NONE or world.is_releasing or settings.shared_slice:
        # 5.
        return Answers(left=_configured(world, world.containers))
    reached, where = world.reach, desires(world)
    own: dict[ContainerKey, CPUSet | None] = {
        # 1. Known from the State alone.
        key: _from_the_state(state, assignment)
        for key, assignment in state.assignments.items()
        if key not in world.containers
    }
    for key, container in world.containers.items():
        if container.wish.standing in _LEFT_ALONE:
            # 2.
            if key not in state.assignments and (home := way_home(world, container)) is not None:
                own[key] = birthplace(world, container, home, reached)
            elif is_let_be(container):
                own[key] = None
            elif key in state.assignments:
                own[key] = birthplace(world, container, state.assignments[key].cpus, reached)
        elif key in state.assignments and (wanted := where(container)) is not None:
            # 1.
            own[key] = birthplace(world, container, wanted, reached)
        elif container.is_promised:
            # 1. What it was told holds until its start is over.
            own[key] = container.present & state.online or state.refuge
    # 3.
    held = world.hand.held if world.hand else None
    wanted_by_others = state.vacated.mask
    stays = held.answers.others.mask if held and held.answers.others is not None else 0
    entered = wanted_by_others & ~(reached.exclusive & ~state.reserved.mask)
    others = CPUSet.from_mask((wanted_by_others & stays) | entered) or state.refuge
    room = others | state.reserved
    unpinned = others & room or others
    own.update(
        (key, world.pool_for(each, others) & room or others if each.wish.pin else unpinned)
        for key, each in world.containers.items()
        if key not in own and is_answered(world, each)
    )
    left = _configured(world, (key for key, cpus in own.items() if cpus is None))
    answers = Answers(others=others, own=own, owned=(state.exclusive - state.lent) | state.leaving, left=left)
    # 4.
    places = {key: _place_of(world, key) for key in own}
    named = {key: place for key, place in places.items() if place}
    unplaced = frozenset(key for key, place in places.items() if place is None)
    is_named = bool(named) or any(each.view.cgroup_parent for each in world.containers.values())
    if not is_named and not any(_is_found_away(world, key) for key in unplaced):
        return answers
    return replace(answers, named=named, unplaced=unplaced)


def _from_the_state(state: State, grant: Assignment) -> CPUSet:
    """Return the answer for a grant of which only the State knows."""
    stays = grant.leaving.waiting if grant.leaving else EMPTY
    return ((grant.cpus - state.leaving) | stays) - state.lent or state.refuge


def _place_of(world: World, key: ContainerKey) -> str | None:
    """Return the cgroup parent below which a container is born; "" if it names none, and None if that is not known."""
    container = world.containers.get(key)
    if container is None:
        originals = world.state.originals.get(key)
        return originals.parent if originals is not None else None
    view, parent = container.view, world.parent_of(container)
    if view.pod:
        # The engine tells where one runs; the group of its pod comes and goes.
        return view.found_below if _is_in_its_pod(view) else None
    if not parent or not view.found_below:
        return parent
    # A glance shows no process: what it found may only be called like this container.
    is_it = not view.is_glance or view.found_below.endswith(parent_path(parent))
    return view.found_below if is_it else parent


def _is_only_glanced_away(world: World, view: ContainerView) -> bool:
    """Return whether only a glance found something of its name there, and no engine is known to put containers there.
    If it is an engine's default after all, and was watched before a look shows that, all that is there would be taken
    for strangers with such names.
    """
    return view.is_glance and (world.hand is None or view.found_below not in home_of(world.hand))


def _is_in_its_pod(view: ContainerView) -> bool:
    """Return whether a look shows it in the group of its own pod."""
    return not view.is_glance and is_group_of_pod(view.found_below, view.pod)


def _is_found_away(world: World, key: ContainerKey) -> bool:
    """Return whether something that has a container's name runs elsewhere than those that name no parent."""
    container, hand = world.containers.get(key), world.hand
    found = container.view.found_below if container else ""
    return bool(found) and (hand is None or found not in home_of(hand))


def is_let_be(container: Container) -> bool:
    """Return whether nothing is written into the next group of a container that is left alone."""
    is_pinned = container.wish.standing is Standing.STRANGER
    return not container.view.is_glance and (is_pinned or container.view.phase.is_live)


def _configured(world: World, keys: Iterable[ContainerKey]) -> dict[ContainerKey, CPUSet]:
    """Return what the engine has configured for these containers, without those for which it has nothing."""
    found = {key: world.containers[key] for key in keys}
    return {key: each.place.configured for key, each in found.items() if each.view.cpuset and not each.view.is_glance}
