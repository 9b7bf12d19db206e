"""The judge and orders that wait for the engine: what they do late breaks no promise, and what is late for no such
reason does.
"""

from __future__ import annotations

from tests.blackbox.judge import broken_in
from tests.blackbox.planted_faults import container, scenario, told


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


def test_an_order_from_before_a_held_start_may_end_after_it() -> None:
    """It takes what was exchanged meanwhile, for about 10 ms."""
    assert broken_in(EXCHANGED_BEFORE_ITS_START) == ()
