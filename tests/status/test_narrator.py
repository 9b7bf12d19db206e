"""How often the status document is written: at once after a change, and seldom while changes never end."""

from __future__ import annotations

from sidecar.status.narrator import MOST_AT_ONCE, STATUS_PAUSE, STEADY_PAUSE, DocumentPace


def pauses(pace: DocumentPace, count: int, began: float = 1000.0) -> list[float]:
    """Write so many documents, each as soon as it may be; return the pauses after them."""
    found, now = [], began
    for _ in range(count):
        found.append(pace.pause(now))
        now += found[-1]
    return found


def test_documents_follow_each_other_quickly_and_then_once_a_second() -> None:
    found = pauses(DocumentPace(), 50)
    assert found[: MOST_AT_ONCE - 1] == [STATUS_PAUSE] * (MOST_AT_ONCE - 1)
    assert all(abs(pause - STEADY_PAUSE) < 1e-6 for pause in found[-30:])


def test_a_change_after_a_while_is_told_at_once() -> None:
    """As is the next one: seconds without a document count for later."""
    pace = DocumentPace()
    pauses(pace, 50)
    assert pauses(pace, MOST_AT_ONCE - 1, began=2000.0) == [STATUS_PAUSE] * (MOST_AT_ONCE - 1)
