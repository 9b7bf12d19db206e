"""Faults of the dynamic policy, each a rule that is broken in one place: the histories must catch every one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sidecar.decide import step
from sidecar.decide.books import (
    arrivals,
    dynamic,
    fair,
    gains_and_losses,
    grants,
    holdings,
    load_wish,
    pinned,
    size_causes,
    sizes,
    takes,
)
from sidecar.decide.books.fair import Claim
from sidecar.decide.books.room import Room
from sidecar.decide.books.size_causes import fewer_to_share
from sidecar.decide.container.container import Container
from sidecar.decide.container.footprint import Reach
from sidecar.decide.facts import Load, Purpose, TakeAcknowledged, TimerEnded
from sidecar.decide.moves import plan as plan_module
from sidecar.decide.moves import settled, signals, timers
from sidecar.decide.moves import target as target_module
from sidecar.decide.settings import Band
from sidecar.decide.world import World, replace
from sidecar.projection import opened, projection_of
from state.cause import Cause
from state.cpuset import EMPTY, CPUSet, union
from state.demand import Demand
from state.key import ContainerKey
from state.model import Assignment, State
from state.topology import Topology
from tests.decide.lawbook import laws, takelaws
from tests.decide.lawbook.faults import Fault


def takes_at_once(patch: pytest.MonkeyPatch) -> None:
    """Give no notice: order a container off its leaving CPUs as soon as the take is decided."""
    for module in (takes, settled, signals, dynamic):
        patch.setattr(module, "held", lambda assignment, container: assignment.cpus)


def takes_without_leaving(patch: pytest.MonkeyPatch) -> None:
    """Forget the CPUs that a grant loses."""
    honest = takes.changed

    def changed(
        state: State, key: ContainerKey, cause: Cause, *, gained: CPUSet = EMPTY, lost: CPUSet = EMPTY
    ) -> State:
        made = honest(state, key, cause, gained=gained, lost=lost)
        return made.holding(replace(made.assignments[key], leaving=None))

    for module in (dynamic, takes):
        patch.setattr(module, "changed", changed)


def hears_every_acknowledgement(patch: pytest.MonkeyPatch) -> None:
    """Accept an acknowledgement of another take."""
    honest = takes.after_acknowledgement

    def after(world: World, fact: TakeAcknowledged) -> World:
        assignment = world.state.assignments.get(fact.container)
        leaving = assignment.leaving if assignment else None
        return honest(world, replace(fact, number=leaving.number) if leaving else fact)

    patch.setattr(step, "after_acknowledgement", after)


def hears_every_timer(patch: pytest.MonkeyPatch) -> None:
    """Let a replaced timer end the grace."""
    honest = timers.after_timer

    def after(world: World, fact: TimerEnded) -> World:
        assignment = world.state.assignments.get(fact.container)
        leaving = assignment.leaving if assignment else None
        is_grace = fact.purpose is Purpose.GRACE and leaving is not None
        return honest(world, replace(fact, number=leaving.number) if is_grace and leaving else fact)

    patch.setattr(step, "after_timer", after)


def begins_no_grace_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """Start no timer for a take that is in the State already: it never ends."""
    honest = timers.timers

    def begun(world: World) -> object:
        begun = {
            id: {Purpose.GRACE: grant.leaving.number, **world.timers.get(id, {})}
            for id, grant in world.state.assignments.items()
            if grant.leaving
        }
        return honest(replace(world, timers={**world.timers, **begun}))

    patch.setattr(plan_module, "timers", begun)


def promises_by_the_settings_of_today(patch: pytest.MonkeyPatch) -> None:
    """Time a notice that was announced by what is configured when its timer starts again."""
    honest = timers._notice_of
    patch.setattr(timers, "_notice_of", lambda world, assignment, _: honest(world, assignment, None))


def tells_the_end_of_the_last_take(patch: pytest.MonkeyPatch) -> None:
    """Take the notice of the last of several takes for that of all."""
    honest = timers.notice_of

    def notice_of(world: World, assignment: Assignment, _: object) -> float:
        assert assignment.leaving is not None
        return honest(world, assignment, assignment.leaving.batches[-1])

    patch.setattr(projection_of, "notice_of", notice_of)


def ends_the_notice_of_earlier_takes(patch: pytest.MonkeyPatch) -> None:
    """Let the end of a grace end those of all takes before it, too."""
    honest = takes.grace_over

    def over(world: World, key: ContainerKey, number: int) -> World:
        grant = world.state.assignments.get(key)
        leaving = grant.leaving if grant else None
        earlier = [each.number for each in leaving.batches if each.number < number] if leaving else []
        for each in (*earlier, number):
            world = honest(world, key, each)
        return world

    patch.setattr(timers, "grace_over", over)


def lets_newcomers_onto_what_is_leaving(patch: pytest.MonkeyPatch) -> None:
    """Write a container of the shared pool that does not run yet onto CPUs that are still promised to another."""
    honest = dynamic.DynamicPolicy.desired

    def desired(self: dynamic.DynamicPolicy, world: World, container: Container) -> CPUSet | None:
        found = honest(self, world, container)
        return found if found is None or container.view.key in world.state.assignments else world.state.shared

    patch.setattr(dynamic.DynamicPolicy, "desired", desired)


def never_ends_a_take(patch: pytest.MonkeyPatch) -> None:
    """Ignore the end of a grace."""
    honest = timers.after_timer
    patch.setattr(
        step,
        "after_timer",
        lambda world, fact: world if fact.purpose is Purpose.GRACE else honest(world, fact),
    )


def gives_up_the_original_set(patch: pytest.MonkeyPatch) -> None:
    """Take the lowest CPUs in a shrink, originals included."""

    def given_up(topology: Topology, assignment: Assignment, count: int, **_: object) -> CPUSet:
        return CPUSet(list(assignment.cpus)[:count])

    patch.setattr(dynamic, "given_up", given_up)


def grants_less_than_the_floor(patch: pytest.MonkeyPatch) -> None:
    """Grant a newcomer what is available."""
    honest = grants.placed
    patch.setattr(arrivals, "placed", lambda world, state, demand, count: honest(world, state, demand, 1))


def grows_above_the_ceiling(patch: pytest.MonkeyPatch) -> None:
    honest = sizes.wish_for
    patch.setattr(sizes, "wish_for", lambda world, assignment: honest(world, assignment) + 1)


def keeps_what_cools_down_above_its_ceiling(patch: pytest.MonkeyPatch) -> None:
    honest = sizes._kept

    def kept(world: World, state: State, claim: Claim) -> int:
        grant = state.assignments.get(claim.key)
        return max(honest(world, state, claim), len(grant.cpus) if grant and grant.cooling is not None else 0)

    patch.setattr(sizes, "_kept", kept)


def keeps_what_is_above_a_ceiling_by_less_than_the_least_change(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sizes, "above_their_ceilings", lambda world, state: set())


def keeps_what_is_above_a_ceiling_while_the_engine_is_away(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(step, "within_ceilings", lambda world: world.state)


def counts_ceilings_in_single_cpus(patch: pytest.MonkeyPatch) -> None:
    """Let what has cores in part, since an option came later, have any number of CPUs."""
    for module in (sizes, size_causes):
        patch.setattr(module, "most_of", lambda world, assignment: assignment.demand.ceiling)


def grows_onto_granted_cpus(patch: pytest.MonkeyPatch) -> None:
    """Take CPUs of other containers for free ones."""
    honest = gains_and_losses.eligible

    def eligible(world: World, state: State, assignment: Assignment) -> CPUSet:
        return honest(world, state, assignment) | (state.exclusive - assignment.cpus)

    patch.setattr(gains_and_losses, "eligible", eligible)


def shares_out_by_arrival(patch: pytest.MonkeyPatch) -> None:
    """Share out in the order of arrival, in place of fair shares."""

    def greedy(capacity: fair.Capacity, claims: list[fair.Claim]) -> dict[ContainerKey, int]:
        found = {claim.key: claim.lowest for claim in claims}
        left = capacity.cpus - sum(found.values())
        for claim in sorted(claims, key=lambda each: each.since):
            more = max(0, min(left, claim.highest - claim.lowest))
            more -= more % claim.unit
            found[claim.key] += more
            left -= more
        return found

    patch.setattr(sizes, "fair", greedy)


def empties_the_pool(patch: pytest.MonkeyPatch) -> None:
    """Let a growth leave no CPU for the shared pool."""
    patch.setattr(Room, "most", lambda self, **_: len(self.pool) + len(self.givable))
    patch.setattr(Room, "objection", lambda self, cpus: None)
    patch.setattr(State, "shared", property(lambda self: self.online - self.exclusive - self.isolated))


def gives_the_pool_what_is_of_no_use_to_it(patch: pytest.MonkeyPatch) -> None:
    """Give up as many CPUs as are too many, isolated ones too."""
    patch.setattr(dynamic, "_given_to_the_pool", lambda *_: EMPTY)


def follows_the_load_without_a_band(patch: pytest.MonkeyPatch) -> None:
    """Add a CPU when all are busy, and drop one when not: it oscillates indefinitely."""

    def wish(load: Load, cpus: int, demand: Demand, band: Band) -> int:
        busy = load.use >= load.cpus * 0.9
        return min(max(load.cpus + (1 if busy else -1), demand.floor), demand.ceiling)

    patch.setattr(load_wish, "wish_of", wish)


def forgets_what_is_cooling(patch: pytest.MonkeyPatch) -> None:
    """Let no growth cool down: its container claims its CPUs for good, so shares never become fair."""
    honest = timers.after_timer
    patch.setattr(
        step,
        "after_timer",
        lambda world, fact: world if fact.purpose is Purpose.COOLDOWN else honest(world, fact),
    )


def calls_it_off_when_it_restarts(patch: pytest.MonkeyPatch) -> None:
    """Let a container that stopped in the middle of a take have its CPUs when it starts again."""

    def held(assignment: Assignment, container: Container) -> CPUSet:
        leaving = assignment.leaving
        return assignment.cpus if leaving is None or leaving.is_due else assignment.cpus | leaving.cpus

    for module in (takes, settled, signals, dynamic):
        patch.setattr(module, "held", held)


def refits_without_notice(patch: pytest.MonkeyPatch) -> None:
    """Take CPUs at once when the State is fitted to other settings or another machine."""

    def taken_for(state: State, key: ContainerKey, parts: Sequence[tuple[CPUSet, Cause]]) -> State:
        grant = state.assignments[key]
        return state.holding(replace(grant, cpus=grant.cpus - union(cpus for cpus, _ in parts)))

    patch.setattr(holdings, "taken_for", taken_for)


def stays_where_another_is_leaving(patch: pytest.MonkeyPatch) -> None:
    """An exclusive container that runs among all others on CPUs of its grant stays while they are being left."""
    honest = target_module.target

    def target(world: World, container: Container, desired: CPUSet, reached: Reach) -> CPUSet:
        found = honest(world, container, desired, reached)
        grant = world.state.assignments.get(container.view.key)
        if grant is None or container.is_idle:
            return found
        stays = desired & container.place.seen
        return (found - world.state.reserved) | stays if stays else found

    patch.setattr(plan_module, "target", target)


def gives_notice_of_what_an_arrival_never_had(patch: pytest.MonkeyPatch) -> None:
    """What two that arrive together take from each other is leaving, though neither had it."""
    patch.setattr(dynamic, "without_takes_of_what_was_not_its_own", lambda world, state: state)


def blames_the_load_for_every_loss(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(size_causes, "_wants_no_more", lambda world, assignment, lost: True)


def blames_the_machine_for_a_pin(patch: pytest.MonkeyPatch) -> None:
    """Say of what a container lost since another was pinned by hand that the machine or a setting took it."""

    def blamed(world: World, fitted: State, grant: Assignment, *_: Cause, **__: CPUSet) -> State:
        return holdings.recorded(world, fitted, grant)

    patch.setattr(pinned, "recorded", blamed)
    patch.setattr(holdings, "given_to", lambda world, grant, count, others: fewer_to_share(world, grant, count))


def tells_of_more_after_it_is_given(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(opened, "gainers", lambda world, orders: ())


FAULTS = (
    Fault(takes_at_once, laws.NOTICE, first=8),
    Fault(tells_of_more_after_it_is_given, laws.TOLD_BEFORE_IT_GROWS, first=138),
    Fault(takes_without_leaving, laws.NOTICE, first=10),
    Fault(hears_every_acknowledgement, laws.NOTICE, first=8427),
    Fault(hears_every_timer, laws.NOTICE, first=1572),
    Fault(promises_by_the_settings_of_today, takelaws.AS_PROMISED, first=9539),
    Fault(begins_no_grace_after_a_restart, laws.SETTLED, first=786),
    Fault(never_ends_a_take, laws.SETTLED, first=786),
    Fault(lets_newcomers_onto_what_is_leaving, laws.VACATED, first=400),
    Fault(gives_up_the_original_set, laws.BOOKS, first=10),
    Fault(grants_less_than_the_floor, laws.BOOKS),
    Fault(grows_above_the_ceiling, laws.BOOKS),
    Fault(keeps_what_cools_down_above_its_ceiling, takelaws.CEILINGS, first=3881),
    Fault(keeps_what_is_above_a_ceiling_by_less_than_the_least_change, takelaws.CEILINGS, first=11037),
    Fault(keeps_what_is_above_a_ceiling_while_the_engine_is_away, takelaws.CEILINGS, first=10477),
    Fault(counts_ceilings_in_single_cpus, takelaws.CEILINGS, first=23141),
    Fault(grows_onto_granted_cpus, laws.BOOKS, first=5),
    Fault(shares_out_by_arrival, laws.FAIR, first=1595),
    Fault(empties_the_pool, laws.POOL, first=8),
    Fault(follows_the_load_without_a_band, laws.COMES_TO_REST, first=637),
    Fault(forgets_what_is_cooling, laws.FAIR, first=2121),
    Fault(refits_without_notice, laws.NOTICE, first=2384),
    Fault(stays_where_another_is_leaving, laws.OWN, first=194),
    Fault(gives_notice_of_what_an_arrival_never_had, laws.NEVER_HAD, first=2179),
    Fault(blames_the_load_for_every_loss, laws.USED, first=1138),
    Fault(blames_the_machine_for_a_pin, laws.REASONS, first=693),
    Fault(calls_it_off_when_it_restarts, laws.VACATED, first=1009),
)
