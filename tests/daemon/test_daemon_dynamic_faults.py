"""The laws of takes have teeth: a daemon with one rule broken at one of its edges is caught, each fault by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from sidecar import allocator
from sidecar.allocator import Allocator
from sidecar.apply.executor import Executor
from sidecar.decide import step
from sidecar.decide.books import takes
from sidecar.decide.books.load_sample import Usage
from sidecar.decide.container.container import Container
from sidecar.decide.facts import ContainerView, Purpose, TakeAcknowledged
from sidecar.decide.moves import plan
from sidecar.decide.orders import StartTimer
from sidecar.decide.world import World, replace
from sidecar.projection import projection_of as projection_of_module
from sidecar.projection import teller
from sidecar.projection.projections import Projections
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.projection import Projection
from tests.daemon.test_daemon_dynamic_churn import play
from tests.decide.lawbook.dynamic_faults import begins_no_grace_after_a_restart, gives_up_the_original_set
from tests.support.engine.simulated_kernel import SimulatedKernel

HISTORIES = 60
"""How many histories a fault gets to show itself, from its first seed on."""

MOST = 10_000
"""More than any generation of such a history."""

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


def tells_after_the_grace_began(patch: Patch) -> None:
    """Announce a take only after its grace began."""
    honest = Allocator.announce

    def announce(self: Allocator, container: ContainerKey, *, grace_seconds: float | None = None) -> None:
        if grace_seconds is None:
            honest(self, container)

    patch.setattr(Allocator, "announce", announce)


def signals_before_it_tells(patch: Patch) -> None:
    honest = Allocator.announce

    def announce(self: Allocator, container: ContainerKey, *, grace_seconds: float | None = None) -> None:
        if grace_seconds is not None:
            honest(self, container, grace_seconds=grace_seconds)

    patch.setattr(Allocator, "announce", announce)


def hears_any_number(patch: Patch) -> None:
    """Accept an acknowledgement of any generation."""
    patch.setattr(Projections, "awaited", lambda self, container, leaving: range(MOST))


def hears_numbers_to_come(patch: Patch) -> None:
    """Accept an acknowledgement of a future generation."""
    honest = Projections.awaited

    def awaited(self: Projections, container: str, leaving: CPUSet) -> range:
        found = honest(self, container, leaving)
        return range(found.start, MOST) if found else found

    patch.setattr(Projections, "awaited", awaited)


def hears_no_acknowledgement(patch: Patch) -> None:
    patch.setattr(Projections, "awaited", lambda self, container, leaving: range(0))


def says_the_whole_grace_again(patch: Patch) -> None:
    """Promise the whole grace at each rewriting of the file."""
    patch.setattr(Projections, "seconds_left", lambda self, short, projection: projection.deadline_seconds)


def waits_half_the_grace(patch: Patch) -> None:
    honest = Executor.wait

    async def wait(self: Executor, order: StartTimer) -> None:
        is_grace = order.purpose is Purpose.GRACE
        await honest(self, replace(order, seconds=order.seconds / 2) if is_grace else order)

    patch.setattr(Executor, "wait", wait)


def measures_another_container(patch: Patch) -> None:
    """Report the use of one container as that of another."""
    honest = SimulatedKernel.usage

    def usage(self: SimulatedKernel, view: ContainerView) -> Usage | None:
        others = self.running()
        if view.id not in others:
            return None
        return honest(self, replace(view, id=others[others.index(view.id) - 1]))

    patch.setattr(SimulatedKernel, "usage", usage)


def orders_before_it_withdraws(patch: Patch) -> None:
    """Send an order while the files still name the CPUs that it takes away."""

    def withdraw(self: Allocator, container: ContainerKey, cpus: CPUSet) -> None:
        del self, container, cpus

    patch.setattr(Allocator, "withdraw", withdraw)


def tells_what_is_to_come(patch: Patch) -> None:
    """Write a grant to the file before it is in the kernel."""
    honest = projection_of_module.projection_of

    def projection_of(world: World, container: Container) -> Projection:
        told = honest(world, container)
        return replace(told, cpus=told.cpus | told.arriving)

    for module in (teller, allocator):
        patch.setattr(module, "projection_of", projection_of)


def enters_without_looking(patch: Patch) -> None:
    """Let a gaining container enter CPUs before the losing one has left."""
    patch.setattr(plan, "target", lambda world, container, desired, reached: desired)


def counts_the_word_as_force(patch: Patch) -> None:
    """Count an acknowledged take as forced."""
    honest = takes.after_acknowledgement

    def after(world: World, fact: TakeAcknowledged) -> World:
        made = honest(world, fact)
        if made is world:
            return world
        grant = made.state.assignments[fact.container]
        state = made.state.holding(replace(grant, forced=grant.forced + 1))
        return replace(made, state=replace(state, forced=state.forced + 1, acknowledged=state.acknowledged - 1))

    patch.setattr(step, "after_acknowledgement", after)


FAULTS: tuple[tuple[Plant, str, int], ...] = (
    (tells_after_the_grace_began, "was taken from|no longer told", 3001),
    (signals_before_it_tells, "is sent a signal, and its file does not say why", 3001),
    (hears_any_number, "no longer told to .* after|takes count as acknowledged", 3001),
    (hears_numbers_to_come, "no longer told to .* after|takes count as acknowledged", 3001),
    (hears_no_acknowledgement, "acknowledged .* s ago, and the take was forced", 3012),
    (says_the_whole_grace_again, "before the time that its file gave it", 3001),
    (waits_half_the_grace, "no longer told to .* after", 3001),
    (begins_no_grace_after_a_restart, "is still losing", 3001),
    (measures_another_container, "uses .* and holds|uses .*, holds", 3012),
    (orders_before_it_withdraws, "is told .* and has", 3000),
    (tells_what_is_to_come, "is told .* and has", 3000),
    (enters_without_looking, "is still there", 3001),
    (gives_up_the_original_set, "began on|without its original|in layers", 3001),
    (counts_the_word_as_force, "was forced after", 3001),
)
"""Each fault, what its law says, and the seed of a history that shows it."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("plant", "words", "first"), FAULTS, ids=[plant.__name__ for plant, _, _ in FAULTS])
def test_a_planted_fault_is_caught(tmp_path: Path, plant: Plant, words: str, first: int) -> None:
    """By the law that it breaks."""
    found: list[str] = []
    for seed in range(first, first + HISTORIES):
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)
            found += _played(tmp_path / str(seed), patch, seed)
        if any(_speaks_of(words, law) for law in found):
            return
    raise AssertionError(f"not caught in {HISTORIES} histories, which found {found[:5]}")


def _speaks_of(words: str, law: str) -> bool:
    return re.search(words, law) is not None


def _played(path: Path, patch: Patch, seed: int) -> list[str]:
    path.mkdir()

    async def history() -> list[str]:
        return await play(path, patch, seed, 60, kills=seed % 2 == 0)

    return trio.run(history, clock=MockClock(autojump_threshold=0))
