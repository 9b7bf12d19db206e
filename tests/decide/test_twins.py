"""Comparing two revisions finds no difference between equal ones, and finds a planted one."""

from __future__ import annotations

import subprocess

import pytest

from sidecar.decide.container import machine
from sidecar.decide.container.line import Sent
from sidecar.decide.container.news import OrderFailed, OrderLost
from tests.decide.long_run import history
from tests.decide.twins import TWINS, Then, decisions_of, doubled
from tests.support.decide.histories import Broken

HISTORIES = 30


@pytest.fixture(scope="module")
def then() -> object:
    """Yield the decisions of the revision that is checked out."""
    try:
        with decisions_of("HEAD") as found:
            yield found
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is not a working tree of git")


def compared(then: Then) -> list[str]:
    """Return how the two differ in some histories."""
    found = []
    with doubled(then):
        for seed in range(HISTORIES):
            try:
                history(seed)
            except Broken as broken:
                found += [str(broken)] if TWINS in broken.laws else []
    return found


def test_a_planted_difference_is_found(then: Then, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them forgets lost orders at the first look."""
    failed = machine.LINES[Sent, OrderFailed]
    monkeypatch.setitem(
        machine.LINES,
        (Sent, OrderLost),
        lambda container, lost: failed(container, OrderFailed(lost.text, lost.ended)),
    )
    assert compared(then)
