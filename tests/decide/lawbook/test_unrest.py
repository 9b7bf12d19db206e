"""The sidecar may be restarted at any moment of any history: what people read becomes the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from sidecar.decide import sightings
from sidecar.decide.container.news import Looked
from sidecar.decide.container.start import Answered
from sidecar.decide.container.start_machine import STARTS
from sidecar.decide.facts import InventoryTaken
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import Settings
from sidecar.decide.world import World, replace
from sidecar.projection import projection_of
from sidecar.status import describe
from state.cpuset import EMPTY
from state.model import State
from state.topology import Topology
from tests.decide.lawbook.unrestlaw import changed_in_unrest
from tests.support.decide import reality
from tests.support.soaking import IS_SOAK


def changed(seeds: Iterable[int], length: int = 60) -> list[str]:
    """Return what a restart in the middle of the histories of these seeds changes, as sentences."""
    return [f"seed {seed}: {each}" for seed in seeds for each in changed_in_unrest(seed, length)]


@pytest.mark.parametrize(
    ("first", "last"), [(0, 150), *(pytest.param(at, at + 300, marks=pytest.mark.slow) for at in (150, 450))]
)
def test_a_restart_at_any_moment_changes_nothing_that_people_read(first: int, last: int) -> None:
    """Once everything was looked at, and at rest; but for times, and what depends on them."""
    assert changed(range(first, last)) == []


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(161, id="an order lost before a start that asks"),
        pytest.param(1595, id="a start answered, then pinned by hand"),
        pytest.param(4190, id="a grant that ended while the sidecar was down"),
        pytest.param(16251, id="a start answered, then pinned by hand while it waits for its restart"),
        pytest.param(25857, id="a member of the shared group that was moved back"),
        pytest.param(700627, id="a run that no look showed, after a rest that was over"),
        pytest.param(700889, id="a reservation that changed after a refusal"),
        pytest.param(27875, id="a rest that ended while the engine was away"),
        pytest.param(1216385, id="a grant that grew after a refusal, in the same decision"),
        pytest.param(1313222, id="an order without memory nodes that was lost"),
        pytest.param(1211054, id="a removal that failed before the first start, after such a rest"),
        pytest.param(15472, id="a container that was stuck on the CPUs that suit it best"),
    ],
)
def test_a_restart_in_the_middle_changes_nothing_in_rare_histories(seed: int) -> None:
    """In each of these it once did."""
    assert changed([seed]) == []


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(703670, id="a grant that only one of the two made, and that ended"),
        pytest.param(710942, id="a grant that was made after a refusal, in the same decision"),
        pytest.param(902531, id="a grant that shrank after a refusal, in the same decision"),
        pytest.param(902504, id="a rest that is over before or after a notice"),
        pytest.param(902206, id="a load that was measured under a grant that ended"),
        pytest.param(903101, id="a rest after a run that was over while the engine was away"),
        pytest.param(1320645, id="a neighbour of a waiting container that was renamed"),
        pytest.param(1350428, id="a container that went while the engine was away, and left better CPUs"),
        pytest.param(930248, id="two starts after a grant was completed beside a pin"),
        pytest.param(705042, id="a stop under way, for a container that is granted CPUs"),
        pytest.param(17674, id="a rest that ended while the engine was away, after its grant was lost"),
        pytest.param(446588, id="an owner whose new name a glance showed first"),
        pytest.param(451210, id="one of several such owners, beside a pin"),
        pytest.param(4995, id="owners that were renamed beside a refused container"),
        pytest.param(66007993, id="a CPU that went offline after the last look at one that runs"),
        pytest.param(66008039, id="a CPU that went offline after the last look at one that is refused"),
        pytest.param(66009633, id="a CPU that went offline after the last look at one that rests"),
        pytest.param(66001913, id="what is lent while an owner cannot enter its CPUs"),
        pytest.param(77105472, id="a CPU that went offline after the only glance at an owner"),
    ],
)
def test_a_restart_in_the_middle_changes_nothing_in_rare_long_histories(seed: int) -> None:
    """The same, with up to 200 events."""
    assert changed([seed], 200) == []


@pytest.mark.slow
@pytest.mark.skipif(not IS_SOAK, reason="make soak plays these")
@pytest.mark.parametrize("first", range(1000, 21_000, 1000))
def test_a_restart_in_the_middle_changes_nothing_in_more_churn(first: int) -> None:
    """The same over 20,000 histories, half of them of up to 200 events."""
    assert changed(range(first, first + 500)) == []
    assert changed(range(first + 500, first + 1000), 200) == []


def _begun_with(patch: pytest.MonkeyPatch, forgotten: Callable[[State], State]) -> None:
    def begun(state: State, topology: Topology, settings: Settings) -> World:
        return begin(forgotten(state), topology, settings)

    patch.setattr(reality, "begin", begun)


def forgets_the_queue(patch: pytest.MonkeyPatch) -> None:
    """A waiting container asks anew after a restart."""
    _begun_with(patch, lambda state: replace(state, refusals={}))


def forgets_the_originals(patch: pytest.MonkeyPatch) -> None:
    """A container that the sidecar has placed looks as if it were pinned by hand."""
    _begun_with(patch, lambda state: replace(state, originals={}))


def forgets_which_rests_were_over(patch: pytest.MonkeyPatch) -> None:
    """A container that rested too long after a run, while the engine was away, keeps its CPUs for another rest."""

    def forgotten(state: State) -> State:
        return replace(state, assignments={key: replace(each, ended=None) for key, each in state.assignments.items()})

    _begun_with(patch, forgotten)


def forgets_what_was_gained_unseen(patch: pytest.MonkeyPatch) -> None:
    """A grant that was completed beside a pin stays there, if the sidecar is restarted before it looked."""
    _begun_with(patch, lambda state: replace(state, unlooked=EMPTY))


def forgets_gaps(patch: pytest.MonkeyPatch) -> None:
    """After a restart, no container gets the better CPUs that were left while the engine was away."""
    _begun_with(patch, lambda state: replace(state, has_gaps=False))


def reads_what_a_start_that_asks_will_not_use(patch: pytest.MonkeyPatch) -> None:
    for module in (describe, projection_of):
        patch.setattr(module, "awaits_answer", lambda world, container: False)


def waits_for_an_order_that_never_comes(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(STARTS, (Answered, Looked), lambda container, news: container)


def forgets_the_order_of_grants(patch: pytest.MonkeyPatch) -> None:
    """The newest grant is the oldest after a restart."""

    def turned(state: State) -> State:
        grants = {key: replace(each, since=state.grants - each.since) for key, each in state.assignments.items()}
        return replace(state, assignments=grants)

    _begun_with(patch, turned)


def leaves_the_gap_of_a_container_that_went_meanwhile(patch: pytest.MonkeyPatch) -> None:
    honest = sightings.counted

    def counted(world: World, fact: InventoryTaken) -> World:
        made = honest(world, fact)
        return replace(made, state=replace(made.state, has_gaps=made.state.has_gaps and bool(fact.gone)))

    patch.setattr("sidecar.decide.step.counted", counted)


@pytest.mark.parametrize(
    ("plant", "seed"),
    [
        (forgets_the_queue, 96),
        (forgets_the_originals, 0),
        (forgets_the_order_of_grants, 0),
        (reads_what_a_start_that_asks_will_not_use, 302),
        (waits_for_an_order_that_never_comes, 1209),
        (leaves_the_gap_of_a_container_that_went_meanwhile, 9736),
    ],
)
def test_a_sidecar_that_is_another_after_a_restart_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history of this seed, or one of the next, shows it."""
    plant(monkeypatch)
    assert any(changed_in_unrest(each) for each in range(seed, seed + 50))


@pytest.mark.parametrize(
    ("plant", "seed"),
    [(forgets_which_rests_were_over, 903101), (forgets_what_was_gained_unseen, 930248), (forgets_gaps, 1350428)],
)
def test_a_sidecar_that_is_another_after_a_long_history_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history of this seed, of up to 200 events, shows it."""
    plant(monkeypatch)
    assert changed([seed], 200) != []
