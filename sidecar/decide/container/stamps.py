"""Time stamps of engines, compared: whether one of them is later than another."""

from __future__ import annotations

from datetime import UTC, datetime


def is_later(stamp: str, than: str) -> bool:
    """Return whether a time stamp is later than another. One that cannot be read counts as later.

    Engines write RFC 3339, in UTC (Docker) or in the zone of the host (Podman), with up to nine decimals; compared are
    microseconds.
    """
    one, other = _moment(stamp), _moment(than)
    return one is None or other is None or one > other


def _moment(stamp: str) -> datetime | None:
    """Return the moment of a time stamp, which is in UTC if it names no zone; None if it cannot be read."""
    try:
        read = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)
