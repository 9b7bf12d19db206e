"""The histories reach what the laws cover: every outcome of an order, and the rare verbs; some were found by chance."""

from __future__ import annotations

from collections import Counter

import pytest

from sidecar.decide.facts import CpusetApplied, CpusetFailed, Fact, Failure, Phase
from tests.decide.lawbook.restartlaw import changed_by_a_restart
from tests.decide.long_run import history
from tests.support.decide.reality import Reality

SEEDS = range(200, 800)

OFTEN = len(SEEDS) // 100


@pytest.mark.slow
def test_every_outcome_of_an_order_is_in_one_history_of_a_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law proves nothing about events that hardly occur. Failed stops are rarer, but occur. And no law is broken,
    nor that of restarts.
    """
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
    changed: list[str] = []
    for seed in SEEDS:
        outcomes.clear()
        host = history(seed)
        histories.update(outcomes)
        changed += changed_by_a_restart(host)
    assert changed == []
    assert {failure: histories[failure] for failure in (None, *Failure) if histories[failure] < OFTEN} == {}
    assert min(others[what] for what in ("ReleaseRequested", "StopFailed", "given back", "dead")) > 0


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(62000245, id="a core of the pool that its container cannot enter yet"),
        pytest.param(87000736, id="two held starts of which one is refused, and orders of an earlier life behind both"),
    ],
)
def test_all_laws_hold_in_rare_histories(seed: int) -> None:
    """In each of these one was broken once."""
    history(seed)


def test_one_that_is_removed_while_its_start_is_held_may_share_as_any_other() -> None:
    history(89000886, wraps=True)
