"""The laws of CPUs that come and go: notice before a take, originals that stay, and what is fair at rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from sidecar.decide.books.room import room_in
from sidecar.decide.books.sizes import least_of, wish_for
from sidecar.decide.container.terms import Terms
from sidecar.decide.facts import Fact, Purpose, SettingsChanged, TakeAcknowledged, TimerEnded, TopologyRead
from sidecar.decide.placement.options import FULL_PCPUS_ONLY
from sidecar.decide.placement.whole_cores import on_lacking_cores
from sidecar.decide.settings import IsolatedRule, PolicyName
from sidecar.decide.world import World
from sidecar.projection.projection_of import projection_of
from state.cause import Used
from state.cpuset import EMPTY, CPUSet, union
from state.demand import NumaRule, Scale
from state.model import Assignment
from tests.support.decide.reality import Reality
from tests.support.laws import Law


def taken_without_notice(reality: Reality) -> list[str]:
    """Return what the last burst took, or ordered off, before the workload had its notice, as sentences."""
    if reality.world.settings.policy is not PolicyName.DYNAMIC:
        return []
    facts = reality.bursts[-1] if reality.bursts else ()
    found = [*_ordered_off_too_early(reality)]
    for was, after in _changed(reality):
        ended = _ended(facts, was)
        found += _without_notice(reality, was, after, ended)
    return found


def made_shorter(reality: Reality) -> list[str]:
    """Return notices and rests that a restart, or other settings, made shorter than they were promised."""
    return reality.promises.shortened


def told_of_another_end(reality: Reality) -> list[str]:
    """Return the projections whose deadline is not the end of that take, of those which they list, that ends first; as
    sentences. The ends are those of the timers that were started.
    """
    world, found = reality.world, list[str]()
    for key, grant in world.state.assignments.items():
        container, leaving = world.containers.get(key), grant.leaving
        if container is None or leaving is None or world.settings.policy is not PolicyName.DYNAMIC:
            continue
        told = projection_of(world, container)
        listed = {each.number for each in leaving.batches if each.cpus & told.leaving}
        ends = {
            each.number: each.seconds
            for each in reality.timers
            if each.purpose is Purpose.GRACE and each.container == key and each.number in listed
        }
        # One that is not timed yet is still on its way to the container.
        if ends and ends.keys() == listed and not leaving.due & told.leaving:
            first = min(ends.values())
            if told.deadline_seconds != first:
                found.append(f"{grant.name} is told of {told.deadline_seconds} s, and has {first} s")
    return found


def lost_of_original_sets(reality: Reality) -> list[str]:
    """Return what the last burst took of original CPUs that no other container may claim, as sentences. Under
    full-pcpus-only a lone thread of a core, which lost the other one, gives way to a whole core, and so does half of a
    core to one that the grant has whole.
    """
    facts = reality.bursts[-1] if reality.bursts else ()
    world = reality.world
    if world.settings.policy is not PolicyName.DYNAMIC or _was_refitted(facts):
        return []
    return [
        f"{after.name} lost {lost} of its original set"
        for was, after in _changed(reality)
        if (lost := was.original - after.original - _lone_threads_replaced(reality, was, after))
        and not after.demand.move
        and not was.cpus & world.strangers
    ]


def _lone_threads_replaced(reality: Reality, was: Assignment, after: Assignment) -> CPUSet:
    """Return the original CPUs that were lone threads, or are left on cores that the grant has in part, if whole cores
    alone took the place of what went.
    """
    topology, came = reality.world.topology, after.original - was.original
    is_by_cores = FULL_PCPUS_ONLY in Terms(reality.world.settings, after.demand).options
    if not is_by_cores or not came <= topology.full_cores_in(after.original):
        return EMPTY
    return on_lacking_cores(topology, was.original) | (after.cpus - topology.full_cores_in(after.cpus))


def _was_refitted(facts: Sequence[Fact]) -> bool:
    return any(isinstance(fact, TopologyRead | SettingsChanged) for fact in facts)


def _changed(reality: Reality) -> Iterator[tuple[Assignment, Assignment]]:
    """Yield each grant that exists both before and after the last burst."""
    before, now = reality.planned_from, reality.world
    for id, after in now.state.assignments.items():
        was = before.state.assignments.get(id)
        if was is not None and was.since == after.since and id in now.containers:
            yield was, after


def _ordered_off_too_early(reality: Reality) -> Iterator[str]:
    """Check that no order takes leaving CPUs before the take is due."""
    for order in reality.new_moves:
        assignment = reality.world.state.assignments.get(order.container)
        leaving = assignment.leaving if assignment else None
        container = reality.world.containers[order.container]
        if leaving is None or not (order.live or container.is_starting):
            continue
        if lost := (leaving.waiting & container.present) - order.update.cpus:
            whose = order.container.id[-2:]
            yield f"{whose} is ordered off {lost}, before it acknowledged and before its grace was over"


def _ended(facts: Sequence[Fact], was: Assignment) -> CPUSet:
    """Return the CPUs whose notice these facts end: an acknowledgement that of all takes so far, a grace its own."""
    own = [
        fact for fact in facts if isinstance(fact, TakeAcknowledged | TimerEnded) and fact.container == was.container
    ]
    heard = max((fact.number for fact in own if isinstance(fact, TakeAcknowledged)), default=-1)
    over = {fact.number for fact in own if isinstance(fact, TimerEnded) and fact.purpose is Purpose.GRACE}
    batches = was.leaving.batches if was.leaving else ()
    return union(batch.cpus for batch in batches if batch.number <= heard or batch.number in over)


def _without_notice(reality: Reality, was: Assignment, after: Assignment, ended: CPUSet) -> Iterator[str]:
    """Check that lost CPUs were due: acknowledged, past their grace, or impossible to announce. What a container loses
    that runs, or whose start was answered, must be leaving, except CPUs that went offline, and those that another
    container was still leaving, or that the shared pool kept as yet: it never had them for itself. CPUs that are
    reserved from now on are left at once.
    """
    before, now = reality.planned_from.state, reality.world
    container = now.containers[after.container]
    leaving = after.leaving
    # Of an earlier start no process runs once the next one is held.
    known = reality.planned_from.containers.get(after.container)
    is_same_start = known is not None and container.start == known.start
    is_inert = container.is_idle and not (container.is_starting and is_same_start)
    waited = was.leaving.waiting - ended if was.leaving else EMPTY
    reserved = now.state.reserved - before.reserved
    due = leaving.due - reserved if leaving else EMPTY
    if (early := due & (waited | (was.cpus - after.cpus))) and not is_inert:
        yield f"{early} of {after.name} are due, and nobody said so"
    lost = (was.cpus - after.cpus) & now.state.online - reserved
    if is_inert or not lost:
        return
    others = (each.leaving.cpus for key, each in before.assignments.items() if each.leaving and key != was.container)
    lost -= before.lent | union(others)
    if forgotten := (lost & CPUSet.from_mask(container.footprint)) - (leaving.cpus if leaving else EMPTY):
        yield f"{after.name} lost {forgotten} and may run there, and they are not leaving"


def unfair(world: World) -> list[str]:
    """Return containers that keep more CPUs at rest than they want, unless their floors in whole cores are more, and
    those that could gain some without leaving another less for its weight; where all CPUs are alike.
    """
    if not _are_alike(world) or world.settings.min_change > 1:
        return []
    if world.strangers & world.state.exclusive:
        # A container was pinned by hand onto granted CPUs: giving one of these up would help no other container.
        return []
    grants = list(world.state.assignments.values())
    found = [
        f"{each.name} wants {wish_for(world, each)} CPUs and keeps {each.cpus}"
        for each in grants
        if len(each.cpus) > max(wish_for(world, each), least_of(world, each))
    ]
    hungry = [
        each
        for each in grants
        if len(each.cpus) < wish_for(world, each)
        and not world.containers[each.container].is_idle
        and each.demand.numa is None
        and not each.demand.options
    ]
    if hungry and room_in(world, world.state).spare():
        found.append(f"{hungry[0].name} could have one of {world.state.assignable} and does not")
    for poor in hungry:
        for rich in grants:
            floor = rich.demand.floor
            if rich is not poor and len(rich.cpus) > floor and _above(rich, -1) > _above(poor, 0):
                found.append(f"{poor.name} has {poor.cpus}, and {rich.name} has {rich.cpus} above its floor of {floor}")
    return found


def above_their_ceilings(reality: Reality) -> Iterator[str]:
    """Yield grants above their ceilings: whatever lowered one, what is above it goes at once, cooling down or not, also
    while the engine is away, and however little it is.
    """
    world = reality.world
    if world.settings.policy is not PolicyName.DYNAMIC or world.is_releasing:
        return
    for key, grant in world.state.assignments.items():
        if key not in world.containers or (world.is_ready and world.is_absent(key)):
            continue
        if len(grant.cpus) > (most := most_of(reality, grant, grant.cpus)):
            yield f"{grant.name} may have {most} CPUs, and has {grant.cpus}"


def most_of(reality: Reality, grant: Assignment, cpus: CPUSet) -> int:
    """Return the ceiling of a grant that has these CPUs. Under full-pcpus-only it is rounded down to whole cores,
    unless the number comes to none; what the machine left of a core is a core of that width.
    """
    world, widths = reality.world, {len(core.cpus) for core in reality.machine.cores}
    width, offline = max(widths), reality.machine.online - world.state.online
    most, demand = grant.demand.ceiling, grant.demand
    is_by_cores = FULL_PCPUS_ONLY in Terms(world.settings, demand).options
    is_by_cores &= len(widths) == 1 and not demand.cpus % width
    if is_by_cores and not reality.machine.whole_cores(cpus) & offline:
        most -= most % width
    return most


def taken_from_the_poorer(reality: Reality) -> list[str]:
    """Return the containers that gave up fewer CPUs than the least change in the last burst, so for a floor, while
    another has more above its floor for its weight, as sentences; where all CPUs are alike, also to what arrives, and
    none is pinned by hand.
    """
    before, world = reality.planned_from, reality.world
    if (
        not _are_alike(world)
        or world.strangers
        or before.settings != world.settings
        or before.topology != world.topology
    ):
        return []
    arrived = [each for key, each in world.state.assignments.items() if key not in before.state.assignments]
    if any(each.demand.options or each.demand.numa for each in arrived):
        # No container gives up CPUs that the recipient could not use.
        return []
    grants = [each for each in world.state.assignments.values() if _is_plain_fill(world, each)]
    found = []
    for poor in grants:
        was = before.state.assignments.get(poor.container)
        if was is None or was.since != poor.since:
            continue
        if not 0 < len(was.cpus) - len(poor.cpus) < max(2, world.settings.min_change):
            continue
        found += [
            f"{poor.name} went from {was.cpus} to {poor.cpus}, and {rich.name} has {rich.cpus}"
            for rich in grants
            if len(rich.cpus) > least_of(world, rich) and _above(rich, -1) > _above(poor, 0)
        ]
    return found


def wrongly_said_used(reality: Reality) -> list[str]:
    """Return the changes of the last burst whose reason is a load, though the container wants more CPUs by it than it
    kept, or gained some at another size than it was measured at, as sentences. Where it lost CPUs by an earlier move of
    the same burst, as they went offline, its size is what was left.
    """
    world, found = reality.world, list[str]()
    for was, now in _changed(reality):
        move = now.moves[-1] if now.moves and now.moves != was.moves else None
        if move is None or not isinstance(move.cause, Used):
            continue
        if move.lost and wish_for(world, now) > max(len(now.cpus), least_of(world, now)):
            found.append(f"{now.name} lost {move.lost} for its load, by which it wants {wish_for(world, now)} CPUs")
        had = (now.cpus - move.gained) | move.lost
        if move.gained and move.cause.of != len(had):
            found.append(f"{now.name} gained {move.gained} for a load on {move.cause.of} CPUs, and had {had}")
    return found


def _are_alike(world: World) -> bool:
    """Return whether the policy is `dynamic`, and all CPUs are alike to containers without rules of their own."""
    settings = world.settings
    is_plain = settings.isolated is IsolatedRule.IGNORE and settings.numa is NumaRule.NONE and not settings.options
    return settings.policy is PolicyName.DYNAMIC and is_plain and not world.topology.kinds


def _is_plain_fill(world: World, grant: Assignment) -> bool:
    """Return whether a grant has no rules of its own, runs, and takes any spare CPUs."""
    demand, container = grant.demand, world.containers.get(grant.container)
    is_plain = demand.scale is Scale.FILL and not demand.options and demand.numa is None
    return is_plain and container is not None and not container.is_idle


def _above(grant: Assignment, change: int) -> Fraction:
    return Fraction(len(grant.cpus) + change - grant.demand.floor, grant.demand.weight)


AS_PROMISED = Law("a notice or a rest is never shorter than it was promised", made_shorter)
CEILINGS = Law("what is above a ceiling goes at once", above_their_ceilings)
DEADLINES = Law("a deadline is the end of the take that ends first", told_of_another_end)

LAWS: tuple[Law[Reality], ...] = (AS_PROMISED, CEILINGS, DEADLINES)
