"""The laws of ARCHITECTURE hold over random histories: crashes, lost orders, old looks, hotplug, tampering."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar.decide.settings import Settings
from tests.decide.lawbook.restartlaw import changed_by_a_restart
from tests.decide.long_run import history
from tests.support.decide.histories import BEGUN_WITH, MACHINES, play
from tests.support.decide.history_users import MIXED
from tests.support.long_examples import UNSHRUNK

numbers = st.integers(0, 999)
ops = st.lists(st.tuples(numbers, numbers, numbers), max_size=60)
node_settings = st.sampled_from(BEGUN_WITH)


@settings(max_examples=300, deadline=None, phases=UNSHRUNK, suppress_health_check=list(HealthCheck))
@given(machine=st.sampled_from(MACHINES), node=node_settings, ops=ops)
def test_no_history_breaks_a_law(machine, node, ops) -> None:  # type: ignore[no-untyped-def]
    """Whatever happens in whatever order, every law holds after every step, and everything comes to rest."""
    play(machine, node, ops)


@pytest.mark.parametrize(
    ("seed", "begun_with"),
    [
        pytest.param(1104003, BEGUN_WITH, id="a successor whose CPUs are exchanged at once"),
        pytest.param(1241, BEGUN_WITH, id="an order back onto CPUs that were taken before they were written"),
        pytest.param(3824, BEGUN_WITH, id="the same, after another tool pinned it"),
        pytest.param(23243, BEGUN_WITH, id="a start of an unmanaged container that nothing reports"),
        pytest.param(910550, BEGUN_WITH, id="an ordered size below a floor in whole cores"),
        pytest.param(520931, BEGUN_WITH, id="a stand-in for a reserved CPU beside a grant made under dynamic"),
        pytest.param(603597, BEGUN_WITH, id="a predecessor on CPUs that the settings do not allow any more"),
        pytest.param(933156, BEGUN_WITH, id="settings that change while the engine is away"),
        pytest.param(3538, MIXED, id="two inventories that a removal overtakes"),
    ],
)
def test_rare_histories_break_no_law(seed: int, begun_with: Sequence[Settings]) -> None:
    """Each of these broke one once, and is one in thousands."""
    history(seed, settings=begun_with)


@pytest.mark.parametrize(
    ("first", "last"),
    [(0, 200), *(pytest.param(start, start + 200, marks=pytest.mark.slow) for start in range(800, 2000, 200))],
)
def test_seeded_histories_break_no_law(first: int, last: int) -> None:
    """The same laws, over histories drawn from seeds, and that of restarts after each. The seeds between are those of
    `test_histories`; the long run continues with more.
    """
    assert [words for seed in range(first, last) for words in changed_by_a_restart(history(seed))] == []
