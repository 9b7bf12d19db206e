"""Fuzz of every edge: whatever is written there, only the errors that the edge knows come back."""

from __future__ import annotations

import random
import time

import pytest

from sidecar.engines.docker import docker_signals
from state.codec import printable
from tests.fuzz import engine_edges
from tests.fuzz.edge import Edge, play
from tests.fuzz.long_run import EDGES

SECONDS = 1.0
"""Of the processor's time for each edge."""


@pytest.mark.slow
@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: edge.name.replace(" ", "-"))
def test_nothing_escapes_an_edge(edge: Edge) -> None:
    """Other inputs each time: a seed that fails is in the message, and `tests.fuzz.long_run 1 SEED EDGE` plays it."""
    first, count = random.randrange(10**9), 0
    began = time.process_time()
    while time.process_time() - began < SECONDS:
        escaped = play(edge, first + count)
        assert escaped is None, f"{escaped.edge}, seed {escaped.seed}: {escaped.trace}"
        count += 1
    assert count


def edge_named(name: str) -> Edge:
    return next(edge for edge in EDGES if edge.name == name)


def test_a_number_of_any_length_is_seen_to_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a stop signal with more digits than the interpreter converts."""
    monkeypatch.setattr(docker_signals, "_DIGITS", 10**6)
    found = [play(edge_named("signal"), seed) for seed in range(14, 40)]
    assert any(each and "Exceeds the limit" in each.trace for each in found)


def test_text_that_drives_a_terminal_is_seen_to_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: JSON as it is encoded."""
    monkeypatch.setattr("state.codec.printable", lambda content: content)
    found = [play(edge_named("inspect"), seed) for seed in range(74, 77)]
    assert any(each and "isprintable" in each.trace for each in found)
    assert printable(b"x") == b"x"


def test_too_much_of_one_container_is_seen_to_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_edges, "MOST_KEPT", 500)
    found = [play(edge_named("inspect"), seed) for seed in range(10)]
    assert any(each and "MOST_KEPT" in each.trace for each in found)
