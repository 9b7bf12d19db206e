"""What the watcher does later."""

from __future__ import annotations

from sidecar.hand.due import Due


def test_actions_run_in_the_order_of_their_times() -> None:
    due, seen = Due(), list[tuple[str, float]]()
    due.at(2.0, lambda now: seen.append(("late", now)))
    due.at(1.0, lambda now: seen.append(("early", now)))
    due.run(0.5)
    assert seen == []
    due.run(2.5)
    assert seen == [("early", 2.5), ("late", 2.5)]


def test_an_action_that_repeats_itself_waits_for_the_next_run() -> None:
    """An action that is due again at once cannot keep the watcher from its events."""
    due, times = Due(), list[float]()

    def again(now: float) -> None:
        times.append(now)
        due.at(now, again)

    due.at(0.0, again)
    due.run(1.0)
    due.run(2.0)
    assert times == [1.0, 2.0]


def test_the_pause_ends_with_the_next_action() -> None:
    due = Due()
    assert due.pause(1.0) is None
    due.at(3.0, lambda now: None)
    assert due.pause(1.0) == 2.0
    assert due.pause(4.0) == 0.0
