"""The laws of the hand have teeth: each planted fault is caught by its law, on hosts with a hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sidecar.decide.settings import Settings
from tests.decide.lawbook import hand_faults, pool_faults
from tests.decide.lawbook.faults import Fault
from tests.support.decide.histories import DYNAMIC, STATIC

PLANTED: tuple[tuple[Fault, Sequence[Settings]], ...] = (
    *((fault, STATIC) for fault in hand_faults.FAULTS),
    *((fault, DYNAMIC) for fault in hand_faults.DYNAMIC_FAULTS),
    *((fault, pool_faults.SETTINGS) for fault in pool_faults.HAND_FAULTS),
)


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "settings"), PLANTED, ids=[fault.name for fault, _ in PLANTED])
def test_a_daemon_with_one_broken_rule_of_the_hand_is_caught(
    fault: Fault, settings: Sequence[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In some history that law is broken before any other. Slow: a history with a hand takes twice as long."""
    fault.plant(monkeypatch)
    assert fault.caught(settings, with_hand=True) is not None
