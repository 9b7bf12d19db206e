"""The judge and orders that wait for the engine: what they do late breaks no promise, and what is late for no such
reason does.
"""

from __future__ import annotations

import pytest

from tests.blackbox.judge import broken_in
from tests.blackbox.plain_values import Scenario
from tests.blackbox.planted_faults import (
    asks_again_at_once,
    container,
    forgets_what_waits_behind_a_start,
    scenario,
    told,
)


def started_three_times(released: float) -> Scenario:
    """Return a scenario in which three starts are ordered at once. The engine is done with them 0.6 s later."""
    starts = ((1.0, "run", "a"), (1.005, "start", "a"), (1.055, "start", "a"))
    return scenario([container("a", "2"), {"name": "b"}], told(*starts, (released, "release", "a"), (4.0, "run", "b")))


EXCHANGED_BEFORE_ITS_START = scenario(
    [container("a", "2", runtime="cpuset"), {"name": "b", "cpuset": "2"}, {"name": "c"}],
    told(
        (1.0, "run", "c"),
        (2.0, "run", "a"),
        (13.0, "stop", "a"),
        (13.0, "start", "a"),
        (13.005, "run", "b"),
    ),
)
"""One is restarted, and another is pinned to its CPUs before it has stopped."""


def test_a_start_that_was_not_seen_at_the_release_may_count_as_the_next_one() -> None:
    """Looks wait behind all starts that the engine was given."""
    assert broken_in(started_three_times(released=1.605)) == ()


def test_a_release_after_all_starts_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that is granted CPUs again then has not been started since."""
    asks_again_at_once(monkeypatch)
    found = broken_in(started_three_times(released=2.5))
    assert [each.promise for each in found] == ["a_release_lasts_until_the_next_start"]


def test_an_order_from_before_a_held_start_may_end_after_it() -> None:
    """It takes what was exchanged meanwhile, for about 10 ms."""
    assert broken_in(EXCHANGED_BEFORE_ITS_START) == ()


KILLED_WITH_AN_ORDER: Scenario = {
    "machine": {"sockets": 2, "nodes": 1, "cores": 2, "threads": 2},
    "settings": {"policy": "dynamic", "reserved": "0,4"},
    "container": [container("c", "3"), {"name": "e", "runtime": "cpuset"}],
    "event": told(
        (1.0, "run", "e"),
        *((at, do, "e") for at in (1.21, 1.26) for do in ("stop", "start")),
        (1.265, "reload", {"linger": "5s"}),
        (1.315, "crash", None),
        (3.37, "stop", "e"),
        (4.37, "run", "c"),
        (5.37, "restart", None),
    ),
}
"""The sidecar is killed with an order to a container in the engine, while the next start of that is held."""


def test_no_owner_is_alone_while_an_order_of_a_killed_sidecar_waits_behind_a_start() -> None:
    """The order lands after the new sidecar has answered the start, and may lead anywhere."""
    assert broken_in(KILLED_WITH_AN_ORDER) == ()


def test_what_waits_behind_a_start_is_found_by_the_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    forgets_what_waits_behind_a_start(monkeypatch)
    assert {each.promise for each in broken_in(KILLED_WITH_AN_ORDER)} == {"nothing_breaks"}
