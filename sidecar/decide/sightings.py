"""Sightings: what looks and inventories show of containers, and which of it is news.

Tickets order looks and outcomes: a look that began before the newest outcome is outdated. An outdated look may still be
the only sign of another change (a start, while an order was being answered): then a fresh look is due.
"""

from __future__ import annotations

from sidecar.decide.contacts import Connected, Contact, Ready
from sidecar.decide.container.container import Container, Standing, Wish
from sidecar.decide.container.copied import copied
from sidecar.decide.container.line import Ends, Sent
from sidecar.decide.container.machine import after, first_seen, rests
from sidecar.decide.container.news import Came, CpusWent, Disputed, HeldBack, Lapsed, Looked, Recognized
from sidecar.decide.container.originals import cpu_limit, originals_of
from sidecar.decide.container.place import cpus_of, place_of
from sidecar.decide.container.wish import wish_of
from sidecar.decide.facts import ContainerView, InventoryTaken, Phase
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from state.cpuset import EMPTY, CPUSet
from state.key import ContainerKey
from state.model import IN_BUNDLE, State
from state.renaming import with_name


def sighted(world: World, view: ContainerView, began: int) -> World:
    """Return the world after a look at one container; the same world if the look is outdated, or a mere glance at a
    known container. A look that is older than a removal does not prove that a container of disputed existence is there.

    The first engine to show a container claims the records that name no engine.
    """
    if world.engine is None:
        world = world.named(view.engine)
    before = world.containers.get(view.key)
    if before is None:
        newest = world.horizon
    else:
        newest = max(before.known, world.horizon) if before.is_disputed else before.known
    if began <= newest or (before and view.is_glance):
        return world
    place = place_of(view, world.state.online)
    world = world if view.is_glance else renamed(world, view)
    if world.settings.policy is not PolicyName.NONE and (own := copied(world.state, before, view)):
        world = replace(world, state=world.state.remembering(view.key, own))
    if before is None:
        made = first_seen(view, place, _wish(world, view), world.numbers, began, left_in_engine(world, view))
        if not view.is_glance and not world.is_absent(view.key):
            made = after(made, Came())
        if _has_lapsed(world.state, view):
            made = after(made, Lapsed())
        if (text := _held_back(world.state, made)) is not None:
            made = after(made, HeldBack(text))
        made = stranded(made, world.topology.online)
        world = with_terms(world, view, made.wish)
        return replace(world.with_container(made), numbers=world.numbers + 1)
    wish = before.wish if _shows_the_same_wish(before.view, view) else _wish(world, view)
    looked = after(before, Looked(view=view, place=place, wish=wish, began=began))
    return with_terms(world, view, wish).with_container(stranded(looked, world.topology.online))


def as_the_kernel_shows(view: ContainerView, effective: CPUSet | None) -> ContainerView:
    """Return what the engine shows of a container, with where the kernel lets it run; None if it shows no run. The
    kernel decides whether it runs: the engine may still be starting it, or have lost it.
    """
    is_running = effective is not None and view.phase.may_begin
    return replace(view, effective=effective, phase=Phase.RUNNING if is_running else view.phase)


def left_in_engine(world: World, view: ContainerView) -> CPUSet:
    """Return where an order that an earlier run of the sidecar left in the engine may put a container that is seen
    first: anywhere, as no books have it; empty if there is none.

    The engine does one thing at a time for a container, so a look waits until such an order is carried out. A glance
    waits for nothing. And none is ordered before the books have its originals.
    """
    return world.state.online if view.is_glance and view.key in world.state.originals else EMPTY


def with_terms(world: World, view: ContainerView, wish: Wish) -> World:
    """Return the world in which a grant has the terms for which its container asks now: its ceiling, its notice, its
    weight. They may have been granted by a glance, which shows no limits; or the owner of the host changed a rule, or
    what tenants may. The number and the floor, for which it was chosen, stay until the container asks again, and no
    ceiling is below them.
    """
    grant, asked = world.state.assignments.get(view.key), wish.demand
    if view.is_glance or grant is None or asked is None or asked == grant.demand:
        return world
    had = grant.demand
    if (asked.cpus, asked.floor) != (had.cpus, had.floor):
        most = asked.max_cpus if asked.max_cpus is None else max(asked.max_cpus, had.cpus)
        asked = replace(asked, cpus=had.cpus, min_cpus=had.min_cpus, max_cpus=most)
    return world if asked == had else replace(world, state=world.state.holding(replace(grant, demand=asked)))


def stranded(container: Container, online: CPUSet) -> Container:
    """Return the container, in doubt if it runs and was last seen on none of the CPUs that are online: its own went
    since, and the kernel runs it elsewhere. The same container if it is not.
    """
    return after(container, CpusWent(online)) if not container.is_idle and not container.present & online else container


def led_astray(container: Container, online: CPUSet) -> Container:
    """Return the container, in doubt if an order that may still be carried out leads to none of the CPUs that are
    online: the kernel then runs it elsewhere. The same container if none does.
    """
    line = container.line
    ways = [line.order.update.cpus] if isinstance(line, Sent) else []
    ways += [doubt.cpus for doubt in container.doubts if doubt.ends is Ends.ORDER]
    is_lost = any(not cpus & online for cpus in ways)
    return after(container, CpusWent(online, Ends.ORDER)) if is_lost else container


def with_bundle(world: World, known: Container, bundle: ContainerView) -> ContainerView:
    """Return what is shown of a container whose runtime asks: what was known, and by its bundle what a look would show.

    1. Nothing but glances showed it: the bundle shows more.
    2. The sidecar does not place it, and its bundle has another cpuset than was looked at: its owner pinned it since,
       or ended its pin. The bundle of one that the sidecar places has what the sidecar wrote; another cpuset is drift.
    3. Its engine forgets updates. It shows the limit in the bundle of the last start, as the runtime left it; this
       bundle has the limit with which it was created.
    """
    if known.view.is_glance:
        return bundle
    view = known.view
    if forgets_updates(world, view.key):
        view = replace(view, nano_cpus=bundle.nano_cpus, cpu_quota=bundle.cpu_quota, cpu_period=bundle.cpu_period)
    is_placed = known.wish.standing in (Standing.MANAGED, Standing.MEMBER) or bundle.key in world.state.originals
    if is_placed or cpus_of(bundle.cpuset, EMPTY) == cpus_of(known.view.cpuset, EMPTY):
        return known.view if view == known.view else view
    return replace(view, cpuset=bundle.cpuset, mems=bundle.mems)


def forgets_updates(world: World, key: ContainerKey) -> bool:
    """Return whether the engine of this container starts it with the limits with which it was created, whatever an
    update set.
    """
    info = world.info_of(key.engine)
    return info is not None and not info.traits.keeps_updates


def recognized(world: World, container: Container) -> Container:
    """Return the container as what its view shows now. Call it after news other than a look that changed its view: an
    order, or a start that is held. What a container is does not depend on how the sidecar came to know of it.
    """
    wish = _wish(world, container.view)
    return container if wish == container.wish else after(container, Recognized(wish))


def renamed(world: World, view: ContainerView) -> World:
    """Return the world in which the records of a container have its present name, and those of others that name it."""
    state, key = world.state, view.key
    grant, refused = state.assignments.get(key), state.refusals.get(key)
    known, recorded = world.containers.get(key), grant or refused
    # Its own records have the name of the last look; a glance may have shown the new one since.
    was = recorded.name if recorded else known.view.name if known else view.name
    # A name that another one has now may be either's in the records.
    if was != view.name and not any(each.view.name == was for each in world.containers.values() if each is not known):
        state = with_name(state, was, view.name)
        notes = tuple(replace(each, name=view.name) if each.name == was else each for each in world.notes)
        world = replace(world, notes=notes)
        grant, refused = state.assignments.get(key), state.refusals.get(key)
    if grant and grant.name != view.name:
        grant = replace(grant, demand=replace(grant.demand, name=view.name))
        state = replace(state, assignments={**state.assignments, key: grant})
    if refused and refused.name != view.name:
        demand = refused.demand and replace(refused.demand, name=view.name)
        state = replace(state, refusals={**state.refusals, key: replace(refused, name=view.name, demand=demand)})
    return world if state is world.state else replace(world, state=state)


def believed(world: World, view: ContainerView, began: int) -> World:
    """Return the world with a container from a look that may be older than a removal, even of this container.

    It is assumed to exist until a fresh look: a container that exists but is not known would lose its records, and its
    footprint would not count.
    """
    return replace(sighted(replace(world, horizon=began - 1), view, began), horizon=world.horizon)


def believed_until_a_look(world: World, view: ContainerView, began: int) -> World:
    """Return the world with such a container, which gets no order before that look: it may have been removed."""
    world = believed(world, view, began)
    return world.with_container(after(world.containers[view.key], Disputed()))


def differs(world: World, view: ContainerView) -> bool:
    """Return whether a look shows anything that the world does not contain yet, or another could end a doubt."""
    known = world.containers.get(view.key)
    if known is not None and view.is_glance:
        return False
    return known is None or known.view != view or known.is_doubtful or bool(known.pulled)


def moved_unseen(before: World, world: World) -> tuple[ContainerKey, ...]:
    """Return the members of the shared group that may have moved since their last look, because the group moved and no
    event reports that. `before` is the world before the burst.

    1. The group has moved if an order to it ended, or if it was seen elsewhere.
    2. A look that is reported only now may be older than that.
    3. A container without its own cpuset runs wherever the group does, unless it is held back, or news of it may show
       that: it needs no look.
    """
    was, group = before.group, world.group
    if group is None:
        return ()
    # 1. The group.
    has_moved = was is not None and (was.place != group.place or was.order not in (None, group.order))
    found = []
    for key, each in world.containers.items():
        if not each.view.in_shared_group or each.is_idle or each.known >= group.known:
            continue
        # 2. News of it.
        told = before.containers.get(key)
        is_news = told is None or told.known != each.known
        # 3. Its own cpuset.
        is_pinned = each.wish.standing is not Standing.MEMBER or each.view.forgets_updates or each.is_held_back
        if (is_pinned and (has_moved or is_news)) or (is_news and _lacks(group, each)):
            found.append(key)
    return tuple(found)


def counted(world: World, fact: InventoryTaken) -> World:
    """Return the world after an inventory: containers that are not in it, and not newer than it, no longer exist. It
    makes its engine ready if it began after that was reached. Records of units stay where none was looked at: these are
    confined as before. So do those of other engines. One without a list ends nothing, and shows of no source that all
    of its units were looked at.
    """
    began = fact.began
    if not fact.has_list:
        return world
    for key in fact.gone:
        container = world.containers.get(key)
        if container is None or container.known < began:
            world = world.without_container(key, began)
    booked = {*world.state.assignments, *world.state.refusals, *world.state.originals}
    for key in sorted(booked - set(world.containers)):
        if key.engine in fact.lacks:
            continue
        world = world.without_container(key, began)
    for name in [fact.engine] if fact.engine else list(world.contacts):
        contact = world.contacts.get(name, Contact())
        if isinstance(contact.readiness, Connected) and began > contact.readiness.since:
            world = world.with_contact(name, replace(contact, readiness=Ready(contact.readiness.since)))
    return replace(world, horizon=max(world.horizon, began), sources=world.sources.after(fact.lacks))


def shows_news(world: World, fact: InventoryTaken) -> bool:
    """Return whether an inventory shows anything but that it was taken."""
    if fact.seen or fact.gone:
        return True
    return not is_same(world, counted(world, fact))


def is_same(before: World, world: World) -> bool:
    """Return whether two worlds differ in nothing but the newest inventory."""
    return before is world or before == replace(world, horizon=before.horizon)


def remembered(world: World, state: State) -> State:
    """Return the State that remembers the originals of each container that the sidecar places, as first seen: from then
    on, a change by another tool is drift, also after a restart. A glance does not show them. Books of an earlier
    version lack the cgroup parent. It also remembers which limits a runtime that asks may lift. Under the policy none
    nothing is remembered: the sidecar places no container.
    """
    if world.settings.policy is PolicyName.NONE:
        return state
    for key, before in state.originals.items():
        looked_at = world.containers.get(key)
        if before.parent is None and looked_at is not None and not looked_at.view.is_glance:
            state = state.naming_parent(key, looked_at.view.cgroup_parent)
    for key in sorted(world.containers.keys() - state.originals.keys()):
        container = world.containers[key]
        if container.wish.standing in (Standing.MANAGED, Standing.MEMBER) and not container.view.is_glance:
            state = state.remembering(key, originals_of(container.view))
    for key, grant in state.assignments.items():
        known, originals = world.containers.get(key), state.originals.get(key)
        has_limit = originals is None or cpu_limit(originals) > 0
        if grant.is_lifting and has_limit and known is not None and known.is_strict:
            state = state.lifting(key, IN_BUNDLE)
    return state


def with_lapses(world: World) -> World:
    """Return the world whose State remembers which containers have never run, and rested too long to keep CPUs; and of
    each grant, whether its container rested too long after a run. Time goes on while the engine is away. What was not
    looked at since the start of the sidecar stays recorded.
    """
    if world.settings.policy is PolicyName.NONE:
        return world
    state = world.state
    unknown = tuple(key for key in state.lapsed if key not in world.containers)
    known = tuple(key for key, each in world.containers.items() if each.is_lapsed and _has_never_run(each.view))
    if state.lapsed != (*unknown, *known):
        state = replace(state, lapsed=(*unknown, *known))
    for key, grant in world.state.assignments.items():
        if (container := world.containers.get(key)) is None:
            continue
        ended = container.view.started_at or None if container.is_lapsed else None
        if grant.ended != ended:
            state = state.holding(replace(grant, ended=ended))
    return world if state is world.state else replace(world, state=state)


def with_held_back(before: World, world: World) -> World:
    """Return the world whose State remembers which members of the shared group are held back. No order follows that
    would show it again. `before` is the world before the burst, which may have shown it, or its end, by a look.
    """
    world, recorded = _shown_by_looks(before, world), world.state.held_back
    known = {key: text for key, text in recorded.items() if key not in world.containers}
    for key, each in world.containers.items():
        if each.is_held_back and each.fault and each.wish.standing is Standing.MEMBER:
            known[key] = each.fault.text
    return world if known == recorded else replace(world, state=replace(world.state, held_back=known))


def _shown_by_looks(before: World, world: World) -> World:
    """Return the world in which a member of the shared group is held back if a look since shows fewer CPUs than it and
    its group have, and is not if it shows all, or the end of its run. A look that is older than the news of the group
    shows nothing of a run.
    """
    group = world.group
    if group is None:
        return world
    changed = {}
    for key, each in world.containers.items():
        was = before.containers.get(key)
        is_news = each.looked == each.known and (was is None or was.looked != each.looked)
        if each.wish.standing is not Standing.MEMBER or not is_news or each.view.is_glance:
            continue
        is_conclusive = each.view.effective is not None and each.looked >= group.known
        has_all = group.order is None and group.place.seen & each.place.configured <= each.place.seen
        if each.is_held_back and (each.is_idle or (is_conclusive and has_all)):
            changed[key] = after(each, HeldBack(None))
        elif is_conclusive and not each.is_held_back and _lacks(group, each):
            changed[key] = after(each, HeldBack(""))
    return replace(world, containers={**world.containers, **changed}) if changed else world


def _lacks(group: Container, member: Container) -> CPUSet:
    """Return the CPUs that a member of the shared group was not seen on, though it and its group surely have them."""
    return (group.sure & member.place.configured) - member.place.seen


def _held_back(state: State, container: Container) -> str | None:
    """Return what held back a container that is seen first, as the State remembers; None if nothing does, or did."""
    is_seen = not container.view.is_glance and container.place.seen != container.place.configured
    is_member = container.wish.standing is Standing.MEMBER
    return state.held_back.get(container.view.key) if is_seen and is_member else None


def _has_lapsed(state: State, view: ContainerView) -> bool:
    """Return whether the State remembers that a container rested too long, in the rest in which it is seen first."""
    if view.key in state.lapsed and _has_never_run(view):
        return True
    grant = state.assignments.get(view.key)
    return grant is not None and rests(view) and not view.is_glance and grant.ended == view.started_at


def _has_never_run(view: ContainerView) -> bool:
    """Return whether a container rests since its creation: it is created, or it went wrong before its first start."""
    return view.phase is Phase.CREATED or (rests(view) and not view.is_glance and not view.started_at)


def wish_in(world: World, container: Container) -> Wish:
    """Return what a container is and asks for under the settings and on the machine of this world."""
    return _wish(world, container.view)


def _shows_the_same_wish(before: ContainerView, view: ContainerView) -> bool:
    """Return whether two looks agree in everything from which a wish is read. Orders change the cpuset that is known,
    which matters only in the shared group.
    """
    return not (before.in_shared_group or view.in_shared_group) and _sources(before) == _sources(view)


def _sources(view: ContainerView) -> tuple[object, ...]:
    limits = (view.cpuset, view.nano_cpus, view.cpu_quota, view.cpu_period, view.memory, view.memory_reservation)
    pod = (view.pod_cpuset, view.pod_limit)
    return (view.name, view.labels, view.set_aside, view.is_glance, view.phase.is_live, *limits, *pod)


def _wish(world: World, view: ContainerView) -> Wish:
    """Return its wish, from what it shows now and from what the State remembers: the same before and after a restart.

    The sidecar remembers the originals of each container that it places, and changes nothing before. So without any,
    whatever a container has is its own, and a cpuset is a pin.
    """
    before = world.state.originals.get(view.key)
    return wish_of(
        view,
        world.settings,
        before or originals_of(view),
        world.state.online,
        world.topology.devices,
        is_placed=before is not None and world.settings.policy is not PolicyName.NONE,
    )
