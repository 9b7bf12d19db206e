"""The laws of the hand have teeth: each planted fault is caught by its law, on hosts with a hand."""

from __future__ import annotations

import pytest

from tests.decide.lawbook import hand_faults
from tests.decide.lawbook.faults import Fault
from tests.support.decide.histories import STATIC


@pytest.mark.slow
@pytest.mark.parametrize("fault", hand_faults.FAULTS, ids=[fault.name for fault in hand_faults.FAULTS])
def test_a_daemon_with_one_broken_rule_of_the_hand_is_caught(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """In some history that law is broken before any other. Slow: a history with a hand takes twice as long."""
    fault.plant(monkeypatch)
    assert fault.caught(STATIC, with_hand=True) is not None
