"""Every law has teeth: a daemon with one rule broken is caught by the histories, each fault by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import pytest

from sidecar.decide import reconcile, sightings, step
from sidecar.decide.books import dynamic, grants, static
from sidecar.decide.books.refit import refit
from sidecar.decide.books.room import Room, room_in
from sidecar.decide.contacts import Ready
from sidecar.decide.container import machine
from sidecar.decide.container.container import Container
from sidecar.decide.container.footprint import Reach
from sidecar.decide.container.line import Free, Paused, Sent
from sidecar.decide.container.news import Looked, OrderFailed, OrderIneffective, OrderLost, OrderSent, PauseEnded
from sidecar.decide.container.place import Place
from sidecar.decide.container.start import Answered, Plain
from sidecar.decide.container.start_machine import STARTS
from sidecar.decide.facts import InventoryTaken, Phase
from sidecar.decide.moves import limits, release, settled, timers
from sidecar.decide.moves import plan as plan_module
from sidecar.decide.moves.target import target
from sidecar.decide.settings import Settings
from sidecar.decide.world import World, replace
from sidecar.projection import projection_of
from state.cpuset import CPUSet
from state.model import State
from tests.decide.lawbook import (
    alone_faults,
    core_faults,
    dynamic_faults,
    laws,
    list_faults,
    pool_faults,
    queue_faults,
    refit_faults,
    reserve_faults,
    rule_faults,
    strict_faults,
)
from tests.decide.lawbook.faults import Fault
from tests.support.decide.contacts import with_readiness
from tests.support.decide.histories import DYNAMIC, GROUPED, STATIC
from tests.support.decide.history_users import MIXED


def enters_without_looking(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plan_module, "target", lambda world, container, desired, reached: desired)


def never_leaves(patch: pytest.MonkeyPatch) -> None:
    honest = target

    def stay(world: World, container: Container, desired: CPUSet, reached: Reach) -> CPUSet:
        return honest(world, container, desired, reached) | (CPUSet() if container.is_idle else container.place.seen)

    patch.setattr(plan_module, "target", stay)


def does_not_park(patch: pytest.MonkeyPatch) -> None:
    honest = target

    def unparked(world: World, container: Container, desired: CPUSet, reached: Reach) -> CPUSet:
        found = honest(world, container, desired, reached)
        return desired if found == world.state.reserved else found

    patch.setattr(plan_module, "target", unparked)


def ignores_the_outstanding_order(patch: pytest.MonkeyPatch) -> None:
    _plant_footprint(patch, lambda container: replace(container, line=Free()))


def ignores_what_is_configured(patch: pytest.MonkeyPatch) -> None:
    _plant_footprint(
        patch, lambda container: replace(container, place=Place(container.place.seen, container.place.seen))
    )


def ignores_doubts(patch: pytest.MonkeyPatch) -> None:
    _plant_footprint(patch, lambda container: replace(container, doubts=()))


def counts_what_a_strict_start_is_configured_for(patch: pytest.MonkeyPatch) -> None:
    _plant_footprint(patch, lambda container: replace(container, start=Plain()))


def counts_the_dead(patch: pytest.MonkeyPatch) -> None:
    def exited(container: Container) -> Container:
        is_dead = container.view.phase is Phase.DEAD
        return replace(container, view=replace(container.view, phase=Phase.EXITED)) if is_dead else container

    _plant_footprint(patch, exited)


def _plant_footprint(patch: pytest.MonkeyPatch, lacking: Callable[[Container], Container]) -> None:
    """Plant a footprint that breaks one rule: the honest footprint of a container that lacks something."""
    honest = Container.footprint.func
    _replace_property(patch, Container, "footprint", lambda container: honest(lacking(container)))


def believes_old_looks(patch: pytest.MonkeyPatch) -> None:
    honest = sightings.sighted
    patch.setattr(step, "sighted", lambda world, view, began: honest(world, view, 10**9 + world.numbers + began))


def calls_crowded_cpus_settled(patch: pytest.MonkeyPatch) -> None:
    def is_settled(world: World, container: Container) -> bool:
        assignment = world.state.assignments.get(container.view.key)
        return assignment is not None and not container.is_idle and container.place.seen == assignment.cpus

    patch.setattr(projection_of, "is_settled", is_settled)


def forgets_lost_orders_at_the_first_look(patch: pytest.MonkeyPatch) -> None:
    failed = machine.LINES[Sent, OrderFailed]
    patch.setitem(
        machine.LINES,
        (Sent, OrderLost),
        lambda container, lost: failed(container, OrderFailed(lost.text, container.known)),
    )


def believes_the_engine_and_not_the_kernel(patch: pytest.MonkeyPatch) -> None:
    """Take an order without effect for obeyed."""
    honest = machine.LINES[Sent, OrderIneffective]

    def obeyed(container: Container, news: OrderIneffective) -> Container:
        assert container.order is not None
        cpus = container.order.update.cpus
        return honest(container, replace(news, seen=cpus, effective=cpus))

    patch.setitem(machine.LINES, (Sent, OrderIneffective), obeyed)


def forgets_at_a_release_what_is_not_back(patch: pytest.MonkeyPatch) -> None:
    honest = release.start_releasing

    def releasing(world: World) -> World:
        after = honest(world)
        return replace(after, state=replace(after.state, originals={}))

    patch.setattr(step, "start_releasing", releasing)


def gives_nothing_back(patch: pytest.MonkeyPatch) -> None:
    """End the grants on a release, and restore nothing."""
    for module in (plan_module, settled):
        patch.setattr(module, "released_to", lambda world, container: None)


def tells_of_cpus_before_the_order_is_answered(patch: pytest.MonkeyPatch) -> None:
    def sure(self: Container) -> CPUSet:
        return self.order.update.cpus if self.order else self.place.seen

    patch.setattr(Container, "sure", property(sure))


def keeps_grants_of_the_dead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(grants, "has_ended", lambda container: False)


def waits_for_tasks_that_ended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(grants, "is_over", lambda view: False)


def never_retries(patch: pytest.MonkeyPatch) -> None:
    for line in (Free, Sent, Paused):
        patch.setitem(machine.LINES, (line, PauseEnded), lambda container, due: container)


def grants_what_is_granted(patch: pytest.MonkeyPatch) -> None:
    _replace_property(patch, State, "assignable", lambda self: self.online - self.reserved)


def lets_the_shared_pool_overlap(patch: pytest.MonkeyPatch) -> None:
    honest = static.StaticPolicy.desired

    def desired(self: static.StaticPolicy, world: World, container: Container) -> CPUSet | None:
        found = honest(self, world, container)
        return found if container.view.key in world.state.assignments or found is None else world.state.online

    patch.setattr(static.StaticPolicy, "desired", desired)


def grants_the_last_shared_cpu(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Room, "objection", lambda self, cpus: None)
    _replace_property(
        patch, State, "shared", lambda self: self.online - self.exclusive - (self.reserved if self.strict else CPUSet())
    )


def keeps_cpus_that_went_offline(patch: pytest.MonkeyPatch) -> None:
    def carried(world: World) -> object:
        fitted, notes = refit(world)
        return replace(fitted, assignments=world.state.assignments), notes

    patch.setattr(reconcile, "refit", carried)


def gives_two_orders_at_once(patch: pytest.MonkeyPatch) -> None:
    honest = plan_module.may_order
    patch.setattr(plan_module, "may_order", lambda container: honest(replace(container, line=Free())))
    patch.setitem(machine.LINES, (Sent, OrderSent), machine.LINES[Free, OrderSent])


def forgets_what_was_seen_before_a_removal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(step, "believed_until_a_look", lambda world, view, began: world)


def is_ready_by_any_inventory(patch: pytest.MonkeyPatch) -> None:
    honest = sightings.counted

    def counted(world: World, fact: InventoryTaken) -> World:
        return with_readiness(honest(world, fact), Ready(0))

    patch.setattr(step, "counted", counted)


def shares_isolated_cpus(patch: pytest.MonkeyPatch) -> None:
    _replace_property(patch, State, "shared", lambda self: self.online - self.exclusive or self.reserved)


def never_gives_memory_back(patch: pytest.MonkeyPatch) -> None:
    honest = limits.memory_for

    def memory(world: World, container: Container) -> CPUSet:
        return honest(world, container) if container.view.key in world.state.assignments else CPUSet()

    patch.setattr(limits, "memory_for", memory)


def ends_every_pause_with_any(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(machine.LINES, (Paused, PauseEnded), lambda container, due: replace(container, line=Free()))


def waits_for_the_start_of_the_dead(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(STARTS, (Answered, Looked), lambda container, news: container)


def forgets_what_was_only_glanced_at(patch: pytest.MonkeyPatch) -> None:
    honest = plan_module.has_all_back

    def is_back(world: World, container: Container, cpus: CPUSet) -> bool:
        return honest(world, replace(container, view=replace(container.view, is_glance=False)), cpus)

    patch.setattr(plan_module, "has_all_back", is_back)


def orders_what_is_disputed(patch: pytest.MonkeyPatch) -> None:
    """Order a container that an inventory from before its removal brings back, without a look."""
    honest = plan_module.may_order
    patch.setattr(plan_module, "may_order", lambda container: honest(replace(container, doubts=())))


def takes_every_slot_for_free(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plan_module, "_holds_slot", lambda container: False)


def takes_a_lost_order_for_a_start(patch: pytest.MonkeyPatch) -> None:
    honest = timers.is_resting
    patch.setattr(timers, "is_resting", lambda container: honest(container) and not container.may_change_unseen)


def never_forgets_a_timer(patch: pytest.MonkeyPatch) -> None:
    honest = timers.timers

    def kept(world: World) -> object:
        made, orders = honest(world)
        return replace(made, timers={**world.timers, **made.timers}), orders

    patch.setattr(plan_module, "timers", kept)


def keeps_what_it_was_put_onto(patch: pytest.MonkeyPatch) -> None:
    """A waiting container is granted the shared pool in which it runs, by its number alone."""

    def keeps(world: World, state: State, container: Container) -> bool:
        demand, seen = container.wish.demand, container.place.seen
        if demand is None or not container.view.cpuset or not seen <= state.assignable - world.strangers:
            return False
        least, most = grants.bounds(world, demand)
        return least <= len(seen) <= most and room_in(world, state).objection(seen) is None

    for module in (grants, static, dynamic):
        patch.setattr(module, "keeps", keeps)


FAULTS = (
    Fault(enters_without_looking, laws.VACATED, first=17),
    Fault(never_leaves, laws.SETTLED, first=7),
    Fault(does_not_park, laws.VACATED, first=17),
    Fault(ignores_the_outstanding_order, laws.FOOTPRINTS, first=17),
    Fault(ignores_what_is_configured, laws.FOOTPRINTS, first=2221),
    Fault(ignores_doubts, laws.FOOTPRINTS, first=170),
    Fault(counts_what_a_strict_start_is_configured_for, laws.SETTLED, first=7),
    Fault(counts_the_dead, laws.SETTLED, first=237),
    Fault(believes_old_looks, laws.COMES_TO_REST, first=28),
    Fault(calls_crowded_cpus_settled, laws.IN_FORCE, first=14),
    Fault(forgets_lost_orders_at_the_first_look, laws.ORIGINALS, first=630),
    Fault(believes_the_engine_and_not_the_kernel, laws.FOOTPRINTS, first=178),
    Fault(forgets_at_a_release_what_is_not_back, laws.GIVEN_BACK, first=59),
    Fault(gives_nothing_back, laws.RELEASED, first=12),
    Fault(tells_of_cpus_before_the_order_is_answered, laws.TOLD, first=6),
    Fault(keeps_grants_of_the_dead, laws.IDLE, first=2),
    Fault(waits_for_tasks_that_ended, laws.TASKS, first=237),
    Fault(never_retries, laws.RETRIED, first=10),
    Fault(grants_what_is_granted, laws.BOOKS, first=1),
    Fault(lets_the_shared_pool_overlap, laws.APART, first=1),
    Fault(grants_the_last_shared_cpu, laws.POOL, first=7),
    Fault(keeps_cpus_that_went_offline, laws.BOOKS, first=7),
    Fault(gives_two_orders_at_once, laws.ONE_ORDER, first=1),
    Fault(forgets_what_was_seen_before_a_removal, laws.ORIGINALS, first=4341),
    Fault(is_ready_by_any_inventory, laws.KNOWN, first=2461),
    Fault(ends_every_pause_with_any, laws.PAUSES, first=463),
    Fault(waits_for_the_start_of_the_dead, laws.IDLE, first=1299),
    Fault(forgets_what_was_only_glanced_at, laws.GIVEN_BACK, first=194),
    Fault(keeps_what_it_was_put_onto, laws.AS_ASKED, first=9558),
    Fault(orders_what_is_disputed, laws.GONE, first=586),
    Fault(takes_every_slot_for_free, laws.FEW_ORDERS, first=119),
    Fault(takes_a_lost_order_for_a_start, laws.TIMED, first=704),
    Fault(never_forgets_a_timer, laws.NO_TIMERS, first=80),
    Fault(shares_isolated_cpus, laws.ISOLATED, first=196),
    Fault(never_gives_memory_back, laws.MEMORY, first=252),
)


PLANTED: tuple[tuple[Fault, Sequence[Settings]], ...] = (
    *((fault, STATIC) for fault in FAULTS),
    *((fault, STATIC) for fault in queue_faults.FAULTS),
    *((fault, STATIC) for fault in alone_faults.FAULTS),
    *((fault, STATIC) for fault in rule_faults.FAULTS),
    *((fault, STATIC) for fault in list_faults.FAULTS),
    *((fault, DYNAMIC) for fault in dynamic_faults.FAULTS),
    *((fault, pool_faults.SETTINGS) for fault in pool_faults.FAULTS),
    *((fault, refit_faults.SETTINGS) for fault in refit_faults.FAULTS),
    *((fault, reserve_faults.SETTINGS) for fault in reserve_faults.FAULTS),
    *((fault, MIXED) for fault in core_faults.FAULTS),
    *((fault, DYNAMIC) for fault in core_faults.PLAIN_FAULTS),
    *((fault, (*GROUPED, *STATIC)) for fault in strict_faults.FAULTS),
    *((fault, DYNAMIC) for fault in strict_faults.DYNAMIC_FAULTS),
)


@pytest.mark.parametrize(("fault", "settings"), PLANTED, ids=[fault.name for fault, _ in PLANTED])
def test_a_daemon_with_one_broken_rule_is_caught_by_its_law(
    fault: Fault, settings: Sequence[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In some history that law is broken before any other: it catches a fault of its own."""
    fault.plant(monkeypatch)
    assert fault.caught(settings) is not None


def _replace_property(patch: pytest.MonkeyPatch, owner: type, name: str, compute: Callable[..., object]) -> None:
    """Plant another computation of a cached property."""
    planted = cached_property(compute)
    planted.__set_name__(owner, name)
    patch.setattr(owner, name, planted)
