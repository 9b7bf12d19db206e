"""The histories reach what the laws cover: every outcome of an order, and the rare verbs."""

from __future__ import annotations

from collections import Counter

import pytest

from sidecar.decide.facts import CpusetApplied, CpusetFailed, Fact, Failure, Phase
from tests.decide.long_run import history
from tests.support.decide.reality import Reality

HISTORIES = 600

OFTEN = HISTORIES // 100


@pytest.mark.slow
def test_every_outcome_of_an_order_is_in_one_history_of_a_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law proves nothing about events that hardly occur. Failed stops are rarer, but occur."""
    histories: Counter[Failure | None] = Counter()
    others: Counter[str] = Counter()
    outcomes: set[Failure | None] = set()
    feed = Reality.feed

    def counted(self: Reality, *facts: Fact) -> None:
        feed(self, *facts)
        outcomes.update(fact.failure for fact in facts if isinstance(fact, CpusetFailed))
        outcomes.update(None for fact in facts if isinstance(fact, CpusetApplied))
        others.update(type(fact).__name__ for fact in facts)
        others["given back"] += len(self.given_back)
        others["dead"] += any(each.view.phase is Phase.DEAD for each in self.world.containers.values())

    monkeypatch.setattr(Reality, "feed", counted)
    for seed in range(HISTORIES):
        outcomes.clear()
        history(seed)
        histories.update(outcomes)
    assert {failure: histories[failure] for failure in (None, *Failure) if histories[failure] < OFTEN} == {}
    assert min(others[what] for what in ("ReleaseRequested", "StopFailed", "given back", "dead")) > 0
