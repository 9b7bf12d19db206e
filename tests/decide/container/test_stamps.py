"""Time stamps of engines, compared."""

from __future__ import annotations

import pytest

from sidecar.decide.container.stamps import is_later


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.1Z"),
        ("2026-01-02T03:04:05.999999Z", "2026-01-02T03:04:06Z"),
        ("2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05.123457789+00:00"),
        ("2026-01-02T03:04:05.5+02:00", "2026-01-02T02:04:05Z"),
        ("2026-01-02T03:04:05", "2026-01-02T03:04:06Z"),
    ],
)
def test_stamps_are_compared_as_moments(earlier: str, later: str) -> None:
    """With any number of decimals, and in any zone; without one, in UTC."""
    assert is_later(later, earlier)
    assert not is_later(earlier, later)
    assert not is_later(earlier, earlier)


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01T00:00:00Z"])
def test_what_cannot_be_read_counts_as_later(text: str) -> None:
    assert is_later(text, "2026-01-02T03:04:05Z")
    assert is_later("2026-01-02T03:04:05Z", text)
