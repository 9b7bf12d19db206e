"""The laws of grants whose CPUs go: after hotplug, a reload or a restart, a floor that fits is kept, on lawful CPUs.

They are counted anew here, where that is simple: on machines whose CPUs are all alike, for containers without rules of
their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sidecar.decide.books.holdings import fewest_for
from sidecar.decide.books.room import room_in
from sidecar.decide.container.terms import Terms
from sidecar.decide.facts import SettingsChanged, TopologyRead
from sidecar.decide.settings import IsolatedRule, PolicyName
from sidecar.decide.world import Note, World, replace
from state.cpuset import CPUSet, union
from state.demand import NumaRule
from state.model import Assignment, Refused, State
from state.refusal import RefusalCode, Scattered, TooFew, TooFewWholeCores
from tests.support.decide.reality import Reality
from tests.support.laws import Law


def floors_lost(reality: Reality) -> list[str]:
    """Return the grants that the last burst ended because CPUs were lost, although their least size fits beside the
    others, as sentences.
    """
    if not _is_fitted(reality):
        return []
    return ended_though_they_fit(reality.recorded, reality.world)


def said_to_be_free(reality: Reality) -> list[str]:
    """Return the CPUs that the refusal of a grant that ended calls free, and that are not beside those that stay, as
    sentences. The policy's next decision may use them, so this is seen where a burst makes none.
    """
    world = reality.world
    return list(not_free(world.state, world.notes)) if not world.is_ready and _is_fitted(reality) else []


def _is_fitted(reality: Reality) -> bool:
    """Return whether the last burst fitted the State to a machine or to settings. Notes of an earlier one are of
    another State; a container that is renamed has another name in them.
    """
    facts = reality.bursts[-1] if reality.bursts else ()
    is_told = any(isinstance(fact, TopologyRead | SettingsChanged) for fact in facts)
    return is_told and reality.world.notes is not reality.planned_from.notes


def not_free(fitted: State, notes: Sequence[Note]) -> Iterator[str]:
    """Yield the same of the notes of a refit."""
    for note in notes:
        detail = note.refusal.detail if note.refusal else None
        if not isinstance(detail, TooFew | TooFewWholeCores | Scattered) or detail.is_of_the_machine:
            continue
        if wrong := union(part.cpus for part in detail.free) - fitted.assignable:
            yield f"{note.name} is told that {wrong} are free"


def ended_though_they_fit(before: State, world: World) -> list[str]:
    """Return the same of the refit that fitted this State to this world."""
    if not _is_plain(world, before):
        return []
    ended = {note.name for note in world.notes if note.refusal}
    stood = [grant for grant in before.assignments.values() if grant.name not in ended]
    left = _capacity(world) - sum(fewest_for(world, grant.demand) for grant in stood)
    return [
        f"{grant.name} lost {grant.cpus}, and its least size of {least} fits"
        for grant in before.assignments.values()
        if grant.name in ended and (least := fewest_for(world, grant.demand)) <= left
    ]


def originals_lost(reality: Reality) -> list[str]:
    """Return the grants that lost an original CPU which is neither offline nor reserved, as sentences."""
    before, world = reality.recorded, reality.world
    if not _is_plain(world, before) or before.policy != world.settings.policy.value:
        return []
    return [
        f"{now.name} lost its original {lost}, which is lawful"
        for was, now in _kept(before, world.state)
        if not now.demand.move and (lost := (was.original & world.state.online) - world.state.reserved - now.cpus)
    ]


def on_more_nodes(reality: Reality) -> list[str]:
    """Return the grants that came onto more NUMA nodes than their rule allows, as sentences."""
    before, world = reality.recorded, reality.world
    if world.settings.policy is PolicyName.NONE:
        return []
    found = []
    for was, now in _kept(before, world.state):
        rule = Terms(world.settings, now.demand).numa
        most = 1 if rule is NumaRule.SINGLE else _fewest_nodes(world, len(now.cpus))
        is_bound = rule in (NumaRule.SINGLE, NumaRule.RESTRICTED) and not was.cpus >= now.cpus
        if is_bound and _nodes(world, now.cpus) > max(most, _nodes(world, was.cpus)):
            found.append(f"{now.name} has the rule {rule} and came from {was.cpus} to {now.cpus}")
    return found


def never_granted_again(reality: Reality) -> list[str]:
    """Return the containers that lost their CPUs and could have CPUs at rest, as sentences."""
    world = reality.world
    if not _is_plain(world, world.state) or world.is_releasing:
        return []
    left = _capacity(world) - sum(fewest_for(world, grant.demand) for grant in world.state.assignments.values())
    return [
        f"{refused.name} lost its CPUs, and its least size of {least} fits again"
        for key, refused in world.state.refusals.items()
        if _lost_its_cpus(refused)
        and refused.demand is not None
        and not world.containers[key].is_idle
        and (least := fewest_for(world, refused.demand)) <= left
    ]


def _lost_its_cpus(refused: Refused) -> bool:
    return refused.refusal.code is RefusalCode.CPUS_LOST


def _kept(before: State, now: State) -> Iterator[tuple[Assignment, Assignment]]:
    """Yield each grant that exists in both States."""
    for key, grant in now.assignments.items():
        was = before.assignments.get(key)
        if was is not None and was.since == grant.since:
            yield was, grant


def _is_plain(world: World, before: State) -> bool:
    """Return whether all CPUs are alike for all containers, so that counting is enough."""
    settings, state = world.settings, world.state
    demands = [grant.demand for each in (before, state) for grant in each.assignments.values()]
    demands += [refused.demand for refused in state.refusals.values() if refused.demand is not None]
    return (
        settings.policy is not PolicyName.NONE
        and settings.isolated is IsolatedRule.IGNORE
        and settings.numa is NumaRule.NONE
        and not settings.options
        and not world.topology.kinds
        and not world.strangers
        and not any(demand.options or demand.numa for demand in demands)
    )


def _capacity(world: World) -> int:
    return room_in(world, replace(world.state, assignments={})).most()


def _nodes(world: World, cpus: CPUSet) -> int:
    return sum(1 for node in world.topology.nodes if not node.cpus.isdisjoint(cpus))


def _fewest_nodes(world: World, count: int) -> int:
    """Return on how many nodes so many CPUs would lie if every CPU were free."""
    total = 0
    for number, size in enumerate(sorted((len(node.cpus) for node in world.topology.nodes), reverse=True), 1):
        total += size
        if total >= count:
            return number
    return len(world.topology.nodes)


FREE: Final = Law("what the refusal of a lost grant calls free is free", said_to_be_free)

LAWS: Final[tuple[Law[Reality], ...]] = (FREE,)
