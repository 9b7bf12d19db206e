"""The laws that hold over every history, as values: what is checked of the real containers, and when."""

from __future__ import annotations

from collections import Counter
from typing import Final

from sidecar.decide.books.takes import held
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.line import Sent
from sidecar.decide.container.start import Answered
from sidecar.decide.container.swarm_task import is_over
from sidecar.decide.facts import Phase
from sidecar.decide.moves.plan import SLOTS
from sidecar.decide.moves.release import released_to
from sidecar.decide.orders import ApplyCpuset
from sidecar.decide.world import World, replace
from state.cpuset import EMPTY, CPUSet
from state.key import ContainerKey
from tests.decide.lawbook import (
    alonelaws,
    corelaws,
    enginelaws,
    grantlaws,
    handlaws,
    listlaws,
    offlinelaws,
    pinlaws,
    placelaws,
    poollaws,
    queuelaws,
    reasonlaws,
    refitlaws,
    reservelaws,
    restlaws,
    rulelaws,
    sliplaws,
    takelaws,
    toldlaws,
    unitlaws,
    waitlaws,
)
from tests.decide.lawbook.alonelaws import is_unseen
from tests.decide.lawbook.roomlaws import held_without_room, isolated_and_shared
from tests.support.decide.glances import waited_for
from tests.support.decide.reality import Reality
from tests.support.decide.strictstarts import answered_wrongly, let_in_while_it_starts, ordered_while_held
from tests.support.laws import Law, When

_GOING: Final = (Phase.REMOVING, Phase.DEAD)


def _footprints_are_honest(reality: Reality) -> list[str]:
    """Check that a container runs only in its footprint, unless something happened without a look since."""
    found = []
    for id, container in reality.world.containers.items():
        real = reality.containers.get(id)
        if real is None or is_unseen(reality, real):
            continue
        confined = reality.world.group if real.is_member and reality.world.group else container
        known = confined.footprint | handlaws.may_be_as_newborn(reality, container)
        known |= handlaws.as_another(reality, real).mask
        reached = real.effective or EMPTY if real.is_member else real.reaches(reality.online)
        outside = reached - CPUSet.from_mask(known)
        if outside & reality.world.state.online:
            found.append(f"{real.name} runs on {outside}, outside its footprint")
    return found


def _what_waits_behind_a_start_is_expected(reality: Reality) -> list[str]:
    """Check that no order of a killed daemon sent a container out of its footprint, though no look tells of it yet."""
    return [f"an order that waited behind a start led to {reality.behind.astray}"] if reality.behind.astray else []


def _orders_can_be_obeyed(reality: Reality) -> list[str]:
    found = []
    for order in (*reality.new_orders, *reality.new_moves):
        name, cpus = reality.world.containers[order.container].view.name, order.update.cpus
        if not cpus:
            found.append(f"{name} was ordered onto no CPU")
        if not cpus <= reality.world.state.online:
            found.append(f"{name} was ordered onto {cpus}, not all online")
    return found


def _every_container_is_known(reality: Reality) -> list[str]:
    """Check that no order is given before a look at all containers that existed when the engine was reached."""
    if not reality.new_orders and not reality.new_moves:
        return []
    ordered = {order.container.engine for order in (*reality.new_orders, *reality.new_moves)}
    there = {key for key in reality.there_when_reached if key.engine in ordered}
    unknown = (there & set(reality.containers)) - set(reality.world.containers)
    return [f"{reality.containers[id].name} was not looked at, and orders are given" for id in sorted(unknown)]


def _grants_are_not_left(reality: Reality) -> list[str]:
    world = reality.world
    return [
        f"{world.containers[order.container].view.name} was moved off {lost}, which it is granted"
        for order in reality.new_moves
        if order.live
        and (
            lost := (world.containers[order.container].place.seen & _holds(world, order.container))
            - world.state.leaving  # another container's until it has left
            - order.update.cpus
        )
    ]


def _entered_when_vacated(reality: Reality) -> list[str]:
    world = reality.world
    return [words for each in reality.new_moves for words in _conflicts(reality, each, _holds(world, each.container))]


def _holds(world: World, key: ContainerKey) -> CPUSet:
    return _granted(world, key) - world.state.lent


def _granted(world: World, key: ContainerKey) -> CPUSet:
    granted = world.state.assignments.get(key)
    return granted.cpus if granted else EMPTY


def _leaves(world: World, key: ContainerKey) -> CPUSet:
    granted = world.state.assignments.get(key)
    return granted.leaving.cpus if granted and granted.leaving else EMPTY


def _conflicts(reality: Reality, order: ApplyCpuset, holds: CPUSet) -> list[str]:
    """Return the other containers that may be on the CPUs that this order enters."""
    world, container = reality.world, reality.world.containers[order.container]
    if container.wish.is_kept_out and not order.live:
        return []  # It goes back to what it had, and counts there.
    entered = order.update.cpus - world.state.reserved
    # The kernel put one whose CPUs all went offline among all others: it enters nothing but what is exclusive.
    is_among_all = order.live and not container.place.seen & world.state.online
    at_rest = container.is_idle and not container.is_starting
    if order.live:
        entered = entered - container.place.seen
    elif isinstance(container.start, Answered):
        # It is there already, if it runs.
        entered = entered - container.start.cpus
    elif container.place.configured <= _granted(world, order.container) | _leaves(world, order.container):
        # It was written there when it could be: staying is not entering. On what is lent it does not stay.
        entered = entered - (container.place.configured - world.state.lent)
    found = []
    for id, other in world.containers.items():
        is_exclusive = id in world.state.assignments
        if id == order.container or not (other.wish.standing is Standing.MANAGED or world.is_displaced(other)):
            continue
        conflict = is_exclusive or (bool(holds) and order.live and not is_among_all)
        if not order.live and not holds:
            conflict = is_exclusive and bool(entered & world.state.assignments[id].cpus)
        may_be = waited_for(reality, id, by_owner=bool(holds), at_rest=at_rest) if conflict else 0
        if (both := entered & CPUSet.from_mask(may_be)) and not _is_newcomer_of_pool(order, holds):
            found.append(f"{container.view.name} was ordered onto {both}, where {other.view.name} may be")
        granted = held(world.state.assignments[id], other) - world.state.lent if is_exclusive else EMPTY
        if both := entered & granted:
            found.append(f"{container.view.name} was ordered onto {both}, granted to {other.view.name}")
    return found


def _is_newcomer_of_pool(order: ApplyCpuset, holds: CPUSet) -> bool:
    return not order.live and not holds


def _one_order_each(reality: Reality) -> list[str]:
    busy = [order.container for order in reality.flight if order.container in reality.containers]
    return [f"{id.id[-4:]} has two orders outstanding" for id in set(busy) if busy.count(id) > 1]


def _few_orders_at_once(reality: Reality) -> list[str]:
    """Check the kinds of which the last orders are: those that may wait long, and all others. One that turns out to be
    of the other kind takes its place along.
    """
    known = reality.world.containers
    prompt = [each for each in known.values() if isinstance(each.line, Sent) and not each.line.is_late]
    counts = Counter(_may_wait_long(each) for each in prompt)
    given = {_may_wait_long(known[order.container]) for order in reality.new_orders}
    return [f"{counts[kind]} orders are outstanding at once" for kind in given if counts[kind] > SLOTS]


def _may_wait_long(container: Container) -> bool:
    return container.is_slow or (container.is_strict and container.is_idle)


def _originals_are_remembered(reality: Reality) -> list[str]:
    """Check that the State keeps what the engine forgets at the first update, for as long as the container exists, or
    until it is restored: by a release, or as it is pinned by hand, and asks for no CPUs any more.
    """
    before, now = reality.planned_from.state.originals, reality.world.state.originals
    forgotten = before.keys() - now.keys() - {real.key for real in reality.given_back}
    found = [f"the originals of {key.id[-4:]} were forgotten" for key in forgotten if key in reality.containers]
    for real in reality.containers.values():
        known = now.get(real.key)
        if not real.is_ours or real in reality.given_back:
            continue
        if known is None or (known.nano_cpus, known.cpu_quota) != (real.had.nano_cpus, real.had.cpu_quota):
            found.append(f"{real.name} had limits {real.had}, and the books say {known}")
        elif known.cpuset != real.had.cpuset and not real.was_tampered and real is not reality.group:
            found.append(f"{real.name} had CPUs {real.had.cpuset!r}, and the books say {known.cpuset!r}")
    return found


def _given_back_before_forgotten(reality: Reality) -> list[str]:
    """Check that no container is forgotten before all its settings are restored."""
    found, world = [], reality.world
    knowing = replace(world, state=replace(world.state, originals=reality.planned_from.state.originals))
    for real in reality.given_back:
        container = world.containers.get(real.key)
        if container is None or real.phase in _GOING or real.is_tampered:
            continue
        had = released_to(knowing, container)
        if real.configured(world.state.online) != had:
            found.append(f"{real.name} is configured for {real.cpuset}, and had {had}")
        if not restlaws.has_its_limits(real, world.state.online):
            found.append(f"{real.name} had limits {real.had}, and has {real.limits}")
        if wrong := restlaws.wrong_memory(world, container, real):
            found.append(wrong)
    return found


def _tasks_that_ended_hold_nothing(reality: Reality) -> list[str]:
    """Check that a task that was seen to end holds no CPUs: Swarm never starts it again."""
    world = reality.world
    if not world.is_ready:
        return []
    over = [c.view for c in world.containers.values() if is_over(c.view) and c.is_idle]
    known = world.state.assignments.keys() - {key for key in world.containers if world.is_absent(key)}
    return [f"{view.name} is a task that ended, and holds CPUs" for view in over if view.key in known]


BOOKS = Law("the books are lawful", grantlaws.books_are_lawful)
POOL = Law("grants leave a shared pool", poollaws.cut_by_grants)
ROOM: Law[Reality] = Law("nobody holds what a grant would be refused", lambda reality: held_without_room(reality.world))
FOOTPRINTS = Law("a container runs in its footprint", _footprints_are_honest)
BEHIND = Law("what waited behind a start lands in the footprint", _what_waits_behind_a_start_is_expected)
POSSIBLE = Law("an order can be obeyed", _orders_can_be_obeyed)
KEPT = Law("no order takes what is granted", _grants_are_not_left)
ISOLATED = Law("isolated CPUs are not shared", isolated_and_shared)
KNOWN = Law("nothing is ordered before everything was looked at", _every_container_is_known)
VACATED = Law("a CPU is vacated before it is entered", _entered_when_vacated)
IN_FORCE = Law("settled means in force", alonelaws.not_in_force)
ALONE = Law("alone means alone", alonelaws.not_alone)
UNSEEN = Law("where others start unseen, none is told to be alone", alonelaws.told_while_unseen)
STILL_ALONE = Law("who is told to be alone is so for all that is known", alonelaws.told_beside_others)
NEVER_ALONE = Law("what is never alone is granted nothing", alonelaws.granted_though_never)
TOLD = Law("no CPU is told that is not there", toldlaws.ahead_of_the_truth)
TOLD_FIRST = Law("CPUs are withdrawn before others are let in", toldlaws.let_in_early)
TOLD_BEFORE_IT_GROWS = Law("what is given more CPUs is not told to be settled", toldlaws.settled_as_it_grows)
NOTICES = Law("a notice is not taken back before its time", toldlaws.notices_taken_back)
ONE_ORDER = Law("a container has one order at a time", _one_order_each)
FEW_ORDERS = Law("few orders are outstanding at once", _few_orders_at_once)
ORIGINALS = Law("originals are remembered", _originals_are_remembered)
GIVEN_BACK = Law("what is forgotten was given back", _given_back_before_forgotten)
TASKS = Law("a task that ended holds nothing", _tasks_that_ended_hold_nothing)
NOTICE = Law("a take has notice", takelaws.taken_without_notice)
ORIGINAL_SETS = Law("an original set stays", takelaws.lost_of_original_sets)
HELD = Law("nothing is ordered while a start is held", ordered_while_held)
ANSWERS = Law("a start is answered rightly", answered_wrongly)
STARTS_ALONE = Law("what was told to start alone does", let_in_while_it_starts)
UNPINNED = Law("nothing is granted where another is pinned by hand", pinlaws.granted_where_pinned)
OWN = Law("what a container is leaving is its own", grantlaws.sent_where_another_is_leaving)
AS_ASKED = Law("a new grant is as it was asked for", grantlaws.granted_otherwise)
NEVER_HAD = Law("what was never in force is not left", grantlaws.leaving_at_once)
WHOLE = Law("whole cores stay whole", corelaws.cut_cores)
NEEDLESS = Law("nothing is taken in vain", corelaws.taken_in_vain)
SPARE = Law("no CPU is idle that could be used", corelaws.idle_though_wanted, When.REST)
FLOOR = Law("a floor that fits is kept", refitlaws.floors_lost)
ORIGINAL = Law("what is lawful of an original set stays", refitlaws.originals_lost)
NUMA = Law("no grant comes onto more nodes than its rule allows", refitlaws.on_more_nodes)
REGRANTED = Law("what was lost is granted again", refitlaws.never_granted_again, When.REST)

GONE = Law("what is gone is not ordered", waitlaws.ordered_though_gone)
PAUSES = Law("a failed order is not repeated before its pause is over", waitlaws.ordered_in_a_pause)
MEMORY_AGAIN = Law("CPUs do not fail again for memory", waitlaws.memory_again)
TIMED = Law("a rest is timed", waitlaws.untimed)

COMES_TO_REST = Law("everything comes to rest", restlaws.still_moving, When.REST)
SAME_CONTAINERS = Law("the world knows who exists", restlaws.unknown, When.REST)
ANSWERED = Law("every start is answered", restlaws.unanswered, When.REST)
RETRIED = Law("every failed order is tried again", restlaws.never_retried, When.REST)
IDLE = Law("what does not run gives its CPUs back", restlaws.kept_for_nothing, When.REST)
ARRIVED = Law("a container runs where it should", restlaws.elsewhere, When.REST)
SETTLED = Law("every grant settles", restlaws.never_settled, When.REST)
KEPT_FOR_A_PIN = Law("nothing but its pin is kept for what is pinned by hand", pinlaws.kept_for_no_pin, When.REST)
ASIDE = Law("a grant moves away from a pin", pinlaws.beside_the_pinned, When.REST)
APART = Law("nobody else runs on exclusive CPUs", restlaws.among_the_exclusive, When.REST)
TOLD_ALL = Law("a member is told where it runs", restlaws.told_too_little, When.REST)
LIMITS = Law("limits are put back", restlaws.lifted_for_nothing, When.REST)
MEMORY = Law("memory follows, or is as it was", restlaws.with_wrong_memory, When.REST)
RELEASED = Law("everything is given back", restlaws.not_given_back, When.REST)
FAIR: Law[Reality] = Law("sizes are fair", lambda reality: takelaws.unfair(reality.world), When.REST)
RICHEST = Law("a floor takes from the richest", takelaws.taken_from_the_poorer)
USED = Law("a load is the reason only where it decided", takelaws.wrongly_said_used)
REASONS = Law("a reason is the cause", reasonlaws.untrue)
NO_TIMERS = Law("nothing is waited for at rest", waitlaws.waited_for_nothing, When.REST)
STAYS_AT_REST = Law("what is at rest stays so", restlaws.moved_again, When.REST)
REPLAYS = Law("the journal replays", restlaws.replayed_otherwise, When.REST)
RESERVED = Law("what is reserved is what was chosen, while it is online", reservelaws.reserved_otherwise)
STAND_INS = Law("no original CPU stands in for a reserved one while another could", reservelaws.originals_reserved)
HANDED_ON = Law("a successor takes over the CPUs of its predecessor", queuelaws.not_handed_on)
KEEPS_ITS_PLACE = Law("a container that loses its CPUs keeps its place in the queue", queuelaws.put_behind)
NO_OVERTAKING = Law("no container is granted CPUs before one that waits longer and fits", queuelaws.overtaken)
ASKED_AGAIN = Law("each start is decided, and what waits and fits is granted", queuelaws.not_asked_again)

LAWS: tuple[Law[Reality], ...] = (
    *(
        BOOKS,
        POOL,
        ROOM,
        FOOTPRINTS,
        BEHIND,
        POSSIBLE,
        KNOWN,
        KEPT,
        ISOLATED,
        VACATED,
        IN_FORCE,
        ALONE,
        UNSEEN,
        STILL_ALONE,
        NEVER_ALONE,
        TOLD,
        TOLD_FIRST,
        TOLD_BEFORE_IT_GROWS,
        NOTICES,
        ONE_ORDER,
        FEW_ORDERS,
    ),
    *(
        ORIGINALS,
        GIVEN_BACK,
        TASKS,
        NOTICE,
        *takelaws.LAWS,
        ORIGINAL_SETS,
        HELD,
        ANSWERS,
        STARTS_ALONE,
        UNPINNED,
        OWN,
        AS_ASKED,
        NEVER_HAD,
        FLOOR,
        ORIGINAL,
        NUMA,
        RESERVED,
        STAND_INS,
        WHOLE,
        NEEDLESS,
        RICHEST,
        USED,
        REASONS,
        GONE,
        HANDED_ON,
        KEEPS_ITS_PLACE,
        NO_OVERTAKING,
        ASKED_AGAIN,
        PAUSES,
        MEMORY_AGAIN,
        TIMED,
    ),
    *poollaws.LAWS,
    *corelaws.LAWS,
    *handlaws.LAWS,
    *sliplaws.LAWS,
    *offlinelaws.LAWS,
    *refitlaws.LAWS,
    *placelaws.LAWS,
    *rulelaws.LAWS,
    *enginelaws.LAWS,
    *listlaws.LAWS,
    *unitlaws.LAWS,
    *(
        COMES_TO_REST,
        SAME_CONTAINERS,
        ANSWERED,
        RETRIED,
        IDLE,
        ARRIVED,
        SETTLED,
        ASIDE,
        KEPT_FOR_A_PIN,
        APART,
        TOLD_ALL,
        LIMITS,
        MEMORY,
        RELEASED,
        FAIR,
        REGRANTED,
        SPARE,
        NO_TIMERS,
    ),
    # These look once more.
    *(STAYS_AT_REST, REPLAYS),
)
"""All laws, in the order in which they are checked."""
