"""Every law has teeth: a daemon with one rule broken is caught by the histories, each fault by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import pytest

from sidecar.decide import limits, reconcile, reducer
from sidecar.decide import plan as plan_module
from sidecar.decide.books.refit import refit
from sidecar.decide.books.room import Room
from sidecar.decide.facts import CpusetFailed, Fact, Failure, RetryDue
from sidecar.decide.policies import granting, static
from sidecar.decide.world import Container, Reach, Settings, World, replace
from state.cpuset import CPUSet
from state.model import State
from tests.decide import dynamic_faults, strict_faults
from tests.decide.histories import DYNAMIC, GROUPED, STATIC, Broken
from tests.decide.long_run import history

Plant = Callable[[pytest.MonkeyPatch], None]

HISTORIES = 10_000
"""How many histories a fault gets to show itself; the shyest needs about three thousand."""


def enters_without_looking(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plan_module, "target", lambda world, container, desired, reached: desired)


def never_leaves(patch: pytest.MonkeyPatch) -> None:
    honest = plan_module.target

    def stay(world: World, container: Container, desired: CPUSet, reached: Reach) -> CPUSet:
        return honest(world, container, desired, reached) | (CPUSet() if container.is_idle else container.seen)

    patch.setattr(plan_module, "target", stay)


def does_not_park(patch: pytest.MonkeyPatch) -> None:
    honest = plan_module.target

    def unparked(world: World, container: Container, desired: CPUSet, reached: Reach) -> CPUSet:
        found = honest(world, container, desired, reached)
        return desired if found == world.state.reserved else found

    patch.setattr(plan_module, "target", unparked)


def ignores_the_outstanding_order(patch: pytest.MonkeyPatch) -> None:
    def footprint(self: Container) -> int:
        mask = self.seen.mask | self.configured.mask
        for doubt in self.doubts:
            mask |= doubt.mask
        return mask

    _replace_property(patch, Container, "footprint", footprint)


def ignores_what_is_configured(patch: pytest.MonkeyPatch) -> None:
    def footprint(self: Container) -> int:
        mask = self.seen.mask | (self.pending.update.cpus.mask if self.pending else 0)
        for doubt in self.doubts:
            mask |= doubt.mask
        return mask

    _replace_property(patch, Container, "footprint", footprint)


def ignores_doubts(patch: pytest.MonkeyPatch) -> None:
    def footprint(self: Container) -> int:
        return self.seen.mask | self.configured.mask | (self.pending.update.cpus.mask if self.pending else 0)

    _replace_property(patch, Container, "footprint", footprint)


def believes_old_looks(patch: pytest.MonkeyPatch) -> None:
    honest = reconcile.sighted
    patch.setattr(reducer, "sighted", lambda world, view, began: honest(world, view, 10**9 + world.numbers + began))


def calls_crowded_cpus_settled(patch: pytest.MonkeyPatch) -> None:
    def is_settled(world: World, container: Container) -> bool:
        assignment = world.state.assignments.get(container.view.id)
        return assignment is not None and not container.is_idle and container.seen == assignment.cpus

    patch.setattr("tests.decide.laws.is_settled", is_settled)


def forgets_lost_orders_at_the_first_look(patch: pytest.MonkeyPatch) -> None:
    honest = reducer._failed

    def failed(world: World, fact: CpusetFailed) -> object:
        lost = fact.failure is Failure.LOST
        return honest(world, replace(fact, failure=Failure.FAILED) if lost else fact)

    patch.setattr(reducer, "_failed", failed)


def tells_of_cpus_before_the_order_is_answered(patch: pytest.MonkeyPatch) -> None:
    def sure(self: Container) -> CPUSet:
        return self.pending.update.cpus if self.pending else self.seen

    patch.setattr(Container, "sure", property(sure))


def keeps_grants_of_the_dead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(granting, "_has_ended", lambda container, is_granted: False)


def waits_for_tasks_that_ended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(granting, "is_over", lambda view: False)


def never_retries(patch: pytest.MonkeyPatch) -> None:
    honest = reducer._fold

    def fold(world: World, fact: Fact) -> object:
        return (world, ()) if isinstance(fact, RetryDue) else honest(world, fact)

    patch.setattr(reducer, "_fold", fold)


def grants_what_is_granted(patch: pytest.MonkeyPatch) -> None:
    _replace_property(patch, State, "assignable", lambda self: self.online - self.reserved)


def lets_the_shared_pool_overlap(patch: pytest.MonkeyPatch) -> None:
    honest = static.StaticPolicy.desired

    def desired(self: static.StaticPolicy, world: World, container: Container) -> CPUSet | None:
        found = honest(self, world, container)
        return found if container.view.id in world.state.assignments or found is None else world.state.online

    patch.setattr(static.StaticPolicy, "desired", desired)


def grants_the_last_shared_cpu(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Room, "objection", lambda self, cpus: None)
    _replace_property(
        patch, State, "shared", lambda self: self.online - self.exclusive - (self.reserved if self.strict else CPUSet())
    )


def keeps_cpus_that_went_offline(patch: pytest.MonkeyPatch) -> None:
    def carried(state: State, topology: object, settings: object, strangers: CPUSet) -> object:
        fitted, notes = refit(state, topology, settings, strangers)  # type: ignore[arg-type]
        return replace(fitted, assignments=state.assignments), notes

    patch.setattr(reconcile, "refit", carried)


def gives_two_orders_at_once(patch: pytest.MonkeyPatch) -> None:
    honest = plan_module._changes

    def changes(world: World) -> object:
        blind = {id: replace(c, pending=None) for id, c in world.containers.items()}
        return honest(replace(world, containers=blind))

    patch.setattr(plan_module, "_changes", changes)


def forgets_who_was_seen_before_a_removal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reducer, "believed", lambda world, view, began: world)


def shares_isolated_cpus(patch: pytest.MonkeyPatch) -> None:
    _replace_property(patch, State, "shared", lambda self: self.online - self.exclusive or self.reserved)


def never_gives_memory_back(patch: pytest.MonkeyPatch) -> None:
    honest = limits._mems

    def mems(world: World, container: Container) -> CPUSet:
        return honest(world, container) if container.view.id in world.state.assignments else CPUSet()

    patch.setattr(limits, "_mems", mems)


FAULTS: tuple[Plant, ...] = (
    enters_without_looking,
    never_leaves,
    does_not_park,
    ignores_the_outstanding_order,
    ignores_what_is_configured,
    ignores_doubts,
    believes_old_looks,
    calls_crowded_cpus_settled,
    forgets_lost_orders_at_the_first_look,
    tells_of_cpus_before_the_order_is_answered,
    keeps_grants_of_the_dead,
    waits_for_tasks_that_ended,
    never_retries,
    grants_what_is_granted,
    lets_the_shared_pool_overlap,
    grants_the_last_shared_cpu,
    keeps_cpus_that_went_offline,
    gives_two_orders_at_once,
    forgets_who_was_seen_before_a_removal,
    shares_isolated_cpus,
    never_gives_memory_back,
)


@pytest.mark.parametrize(
    ("plant", "settings"),
    [
        *((fault, STATIC) for fault in FAULTS),
        *((fault, DYNAMIC) for fault in dynamic_faults.FAULTS),
        *((fault, (*GROUPED, *STATIC)) for fault in strict_faults.FAULTS),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_daemon_with_one_broken_rule_is_caught(
    plant: Plant, settings: Sequence[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The histories break a law, come to no rest, or end in a state that cannot be."""
    plant(monkeypatch)
    with pytest.raises((Broken, KeyError)):
        play_all(settings)


def play_all(settings: Sequence[Settings]) -> None:
    """Play the histories one after another."""
    for seed in range(HISTORIES):
        history(seed, settings=settings)


def _replace_property(patch: pytest.MonkeyPatch, owner: type, name: str, compute: Callable[..., object]) -> None:
    """Plant another computation of a cached property."""
    planted = cached_property(compute)
    planted.__set_name__(owner, name)
    patch.setattr(owner, name, planted)
