"""Fuzz of every edge: whatever is written there, only the errors that the edge knows come back."""

from __future__ import annotations

import random
import time
from types import ModuleType
from typing import Any

import pytest

from sidecar.engines.docker import docker_signals
from sidecar.runtime import bundle, exec_place, front, owner_start, socket_client, standing
from state.codec import printable
from tests.fuzz import engine_edges
from tests.fuzz.edge import Edge, play
from tests.fuzz.front_process import driver
from tests.fuzz.long_run import EDGES, FRONTS

SECONDS = 1.0
"""Of the processor's time for each edge."""


def params() -> list[Any]:
    """Return the edges; those of the fronts go to one worker, which builds the program once."""
    group = pytest.mark.xdist_group("fronts")
    return [
        pytest.param(edge, id=edge.name.replace(" ", "-"), marks=[group] if edge in FRONTS else []) for edge in EDGES
    ]


@pytest.mark.slow
@pytest.mark.parametrize("edge", params())
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


@pytest.mark.slow
@pytest.mark.xdist_group("fronts")
@pytest.mark.skipif(not FRONTS, reason="needs a C compiler and yajl: .ci/run installs them")
@pytest.mark.parametrize(
    ("edge", "module", "name", "planted"),
    [
        ("front question", bundle, "MOST_LABELS", 63),
        ("front question", bundle, "SWARMS", "com.docker.swarm.task"),
        ("front change", bundle, "_place", lambda destination: destination),
        ("front question", bundle, "number", lambda *_: None),
        ("front order", standing, "MOST_CPUS", 65535),
        ("front owners", owner_start, "HEAD", "cpuset-sidecar owners 2"),
        ("front call", front, "VALUED", front.VALUED - {"root"}),
        ("front exec call", exec_place, "FIRST", exec_place.FIRST - {"root"}),
        ("front http", socket_client, "MOST_SIZE_DIGITS", 10),
    ],
)
def test_where_the_fronts_differ_is_seen(
    edge: str, module: ModuleType, name: str, planted: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted in Python's front: one bound, one word and one rule each."""
    monkeypatch.setattr(module, name, planted)
    assert any(play(edge_named(edge), seed) for seed in range(1000))


@pytest.mark.slow
@pytest.mark.xdist_group("fronts")
@pytest.mark.skipif(not FRONTS, reason="needs a C compiler and yajl: .ci/run installs them")
def test_a_driver_that_ends_is_seen_to_escape() -> None:
    """As a sanitizer ends it."""
    with pytest.raises(AssertionError, match="the driver ended"):
        driver().ask("x")
    assert driver().ask("o", b"", b"") == [("=", b"")]
