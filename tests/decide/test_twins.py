"""Comparing two revisions finds no difference between equal ones, and finds a planted one."""

from __future__ import annotations

import subprocess

import pytest

from sidecar.decide.container import machine
from sidecar.decide.container.line import Sent
from sidecar.decide.container.news import OrderFailed, OrderLost
from tests.decide.long_run import history
from tests.decide.twins import ROOT, TWINS, Then, decisions_of, doubled
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


def difference(then: Then) -> str:
    """Return how the two differ in the first of some histories in which they do; "" if they do in none."""
    with doubled(then):
        for seed in range(HISTORIES):
            try:
                history(seed)
            except Broken as broken:
                if TWINS in broken.laws:
                    return str(broken)
    return ""


def test_equal_decisions_do_not_differ(then: Then) -> None:
    """Those that are checked out, and those that run."""
    compared = ["git", "-C", str(ROOT), "diff", "--quiet", "HEAD", "--", "state", "sidecar"]
    if subprocess.run(compared, check=False).returncode:
        pytest.skip("the decisions have changes that are not committed")
    assert difference(then) == ""


def test_a_planted_difference_is_found(then: Then, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them forgets lost orders at the first look."""
    failed = machine.LINES[Sent, OrderFailed]
    monkeypatch.setitem(
        machine.LINES,
        (Sent, OrderLost),
        lambda container, lost: failed(container, OrderFailed(lost.text, container.known)),
    )
    assert difference(then)
