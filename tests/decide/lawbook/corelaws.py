"""The laws of whole cores and of idle CPUs: halves that a decision makes, CPUs that it leaves idle or takes in vain.

What a change of the machine or of the settings does to grants is not judged here: that is the refit.
"""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.decide.books.room import room_in
from sidecar.decide.books.sizes import wish_for
from sidecar.decide.container.terms import Terms
from sidecar.decide.facts import SettingsChanged, TopologyRead
from sidecar.decide.placement.options import FULL_PCPUS_ONLY
from sidecar.decide.settings import IsolatedRule, PolicyName
from sidecar.decide.world import World
from state.cpuset import EMPTY, CPUSet, union
from state.demand import NumaRule
from state.model import Assignment
from tests.support.decide.reality import Reality
from tests.support.laws import Law


def cut_cores(reality: Reality) -> list[str]:
    """Return grants of whole cores that hold part of a core since the last burst, as sentences. Of a new grant, each
    core counts with its offline threads. A ceiling that comes to no whole cores counts in single CPUs.
    """
    before, world = reality.planned_from, reality.world
    was_refitted = _was_refitted(reality)
    found = []
    for key, granted in world.state.assignments.items():
        was = before.state.assignments.get(key)
        is_new = was is None or was.since != granted.since
        if key not in world.containers or not _is_by_cores(world, granted) or (was_refitted and not is_new):
            continue
        had = EMPTY if is_new or was is None else was.cpus
        halves = _halves(reality, granted.cpus) - _halves(reality, had)
        if halves and not _is_at_an_odd_ceiling(reality, had, granted):
            found.append(f"{granted.name} requires whole cores, has {granted.cpus}, and {halves} in part")
    return found


def _is_at_an_odd_ceiling(reality: Reality, had: CPUSet, granted: Assignment) -> bool:
    """Return whether a grant only gave up what was above its ceiling, which comes to no whole cores."""
    ceiling = granted.demand.ceiling
    is_odd = any(ceiling % len(core.cpus) for core in reality.machine.cores)
    return is_odd and granted.cpus <= had and len(granted.cpus) == ceiling


def original_sets_too_large(reality: Reality) -> list[str]:
    """Return original sets that come to more than the floor in whole cores, with all that their grants have of the
    cores that they lie on, as sentences. One whose number comes to no whole cores was made under other options.
    """
    world, threads = reality.world, {len(core.cpus) for core in reality.machine.cores}
    if world.settings.policy is not PolicyName.DYNAMIC or len(threads) != 1:
        return []
    width, found = threads.pop(), []
    for key, grant in world.state.assignments.items():
        if key not in world.containers or not _is_by_cores(world, grant) or grant.demand.cpus % width:
            continue
        cores = [core.cpus for core in reality.machine.cores if not core.cpus.isdisjoint(grant.original)]
        comes_to, floor = len(union(cores) & grant.cpus), grant.demand.floor
        if comes_to > floor + -floor % width:
            found.append(f"{grant.name} has the floor {floor}, and the cores of {grant.original} come to {comes_to}")
    return found


def idle_though_wanted(reality: Reality) -> list[str]:
    """Return CPUs that no container holds, and that a container which could grow wants, as sentences: also whole cores
    that it could have for one of which the other thread is offline.
    """
    world = reality.world
    if world.settings.policy is not PolicyName.DYNAMIC or world.is_releasing:
        return []
    return [
        f"{grant.name} has {grant.cpus} and could gain {unit}"
        for key, grant in world.state.assignments.items()
        if key in world.containers and not world.containers[key].is_idle
        for unit in _units(world, grant)
        if _is_wanted(reality, grant, unit) and room_in(world, world.state).objection(unit) is None
    ]


def taken_in_vain(reality: Reality) -> list[str]:
    """Return grants that lost CPUs and gained others in the last burst, as sentences, unless a demand that cannot use
    any CPUs came, or CPUs were exchanged, for better ones, for whole cores, or for those of a container that was pinned
    by hand.
    """
    before, world = reality.planned_from, reality.world
    if world.settings.policy is not PolicyName.DYNAMIC or _was_refitted(reality):
        return []
    new = [grant for key, grant in world.state.assignments.items() if key not in before.state.assignments]
    if any(_is_choosy(world, grant) for grant in new):
        return []
    found = []
    for key, grant in world.state.assignments.items():
        was = before.state.assignments.get(key)
        if was is None or was.since != grant.since or grant.demand.move or was.cpus & world.strangers:
            continue
        if (lost := was.cpus - grant.cpus) and (gained := grant.cpus - was.cpus):
            if _is_by_cores(world, grant) and lost <= _halves(reality, was.cpus) and len(gained) > len(lost):
                continue
            found.append(f"{grant.name} lost {lost} and gained {gained} in one decision")
    return found


def _is_wanted(reality: Reality, grant: Assignment, unit: CPUSet) -> bool:
    """Return whether a grant would be closer to its wish with these CPUs, beside or instead of a core in part. One that
    only other options can have made keeps its original set.
    """
    wish, size = wish_for(reality.world, grant), len(grant.cpus)
    if size + len(unit) <= wish:
        return True
    parts = _halves(reality, grant.cpus) if _is_by_cores(reality.world, grant) else EMPTY
    parts -= grant.original if grant.demand.cpus % len(unit) else EMPTY
    return len(unit) > 1 and bool(parts) and size < wish and size + len(unit) - 1 <= wish


def _was_refitted(reality: Reality) -> bool:
    facts = reality.bursts[-1] if reality.bursts else ()
    return any(isinstance(fact, TopologyRead | SettingsChanged) for fact in facts)


def _is_by_cores(world: World, grant: Assignment) -> bool:
    return FULL_PCPUS_ONLY in Terms(world.settings, grant.demand).options


def _is_choosy(world: World, grant: Assignment) -> bool:
    """Return whether not every free CPU would do for it."""
    terms = Terms(world.settings, grant.demand)
    settings, machine = world.settings, world.topology
    is_anywhere = terms.numa is NumaRule.NONE and not terms.options and not machine.kinds
    return not is_anywhere or settings.isolated is not IsolatedRule.IGNORE


def _halves(reality: Reality, cpus: CPUSet) -> CPUSet:
    """Return those of the CPUs whose core, as the machine was built, is not wholly among them."""
    cores = [core.cpus for core in reality.machine.cores]
    return union(core & cpus for core in cores if not core.isdisjoint(cpus) and not core <= cpus)


def _units(world: World, grant: Assignment) -> Iterator[CPUSet]:
    """Yield what the grant could gain at a time, regardless of the pool: a CPU, or what completes a core."""
    machine, settings = world.topology, world.settings
    free = world.state.assignable - world.strangers
    if settings.isolated is IsolatedRule.ONLY:
        free &= machine.isolated
    if machine.kinds:
        free &= union(kind.cpus for kind in machine.kinds if not kind.cpus.isdisjoint(grant.cpus))
    if Terms(settings, grant.demand).numa in (NumaRule.SINGLE, NumaRule.RESTRICTED):
        free &= union(node.cpus for node in machine.nodes if not node.cpus.isdisjoint(grant.cpus))
    if not _is_by_cores(world, grant):
        yield from (CPUSet.of(cpu) for cpu in free)
        return
    for core in machine.full_cores:
        lacking = core.cpus - grant.cpus
        if lacking and lacking <= free:
            yield lacking


NO_LARGER = Law("an original set is no larger than its floor in whole cores", original_sets_too_large)
LAWS = (NO_LARGER,)
