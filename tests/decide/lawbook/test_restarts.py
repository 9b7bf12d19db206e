"""A container means the same before and after a restart of the sidecar, after any history."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from sidecar.decide import sightings
from sidecar.decide.facts import ContainerView
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import Settings
from sidecar.decide.world import World, replace
from state.model import State
from state.topology import Topology
from tests.decide.lawbook.restartlaw import changed_by_a_restart
from tests.decide.long_run import history
from tests.support.decide import reality
from tests.support.soaking import IS_SOAK


def changed(seeds: Iterable[int]) -> list[str]:
    """Return what a restart changes after the histories of these seeds, as sentences."""
    return [f"seed {seed}: {each}" for seed in seeds for each in changed_by_a_restart(history(seed))]


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(1689, id="a stop that failed"),
        pytest.param(3239, id="memory nodes that failed"),
        pytest.param(3776, id="memory nodes of a lost order"),
        pytest.param(1112463, id="a load, measured before it ever grew"),
        pytest.param(704260, id="a load, measured before CPUs went offline"),
        pytest.param(66004969, id="a successor that shares until its next start"),
        pytest.param(67000520, id="a start that is asked for, and glanced at afterwards"),
        pytest.param(67010650, id="a task that ended as another container came"),
        pytest.param(75014374, id="CPUs that are lent to containers which are not on all of them"),
        pytest.param(69011651, id="CPUs for which a held start waits, while an order may follow it"),
        pytest.param(77006405, id="a ceiling that was lowered while the engine was away"),
        pytest.param(77109523, id="such a ceiling, after CPUs that were spare"),
        pytest.param(77007160, id="an owner that rests on the only reserved CPU, which it is leaving"),
    ],
)
def test_a_restart_changes_nothing_after_rare_histories(seed: int) -> None:
    """After each of these it once did."""
    assert changed([seed]) == []


@pytest.mark.slow
@pytest.mark.skipif(not IS_SOAK, reason="make soak plays these")
@pytest.mark.parametrize("first", range(1000, 21_000, 500))
def test_a_restart_changes_nothing_in_more_churn(first: int) -> None:
    """The same over 20,000 histories."""
    assert changed(range(first, first + 500)) == []


def forgets_which_lapsed(patch: pytest.MonkeyPatch) -> None:
    """A container that was created long ago asks again after a restart."""

    def begun(state: State, topology: Topology, settings: Settings) -> World:
        return begin(replace(state, lapsed=()), topology, settings)

    patch.setattr(reality, "begin", begun)


def judges_by_the_first_sight(patch: pytest.MonkeyPatch) -> None:
    """What a container is stays as it was first seen, until a restart."""

    def same(before: ContainerView, view: ContainerView) -> bool:
        return not (before.is_glance or before.in_shared_group or view.in_shared_group) and before.name == view.name

    patch.setattr(sightings, "_shows_the_same_wish", same)


@pytest.mark.parametrize(("plant", "seed"), [(forgets_which_lapsed, 20), (judges_by_the_first_sight, 399)])
def test_a_sidecar_that_remembers_too_little_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history of this seed shows it."""
    plant(monkeypatch)
    assert changed([seed]) != []
