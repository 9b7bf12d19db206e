"""Foreign text of bounded length. What was cut ends in an ellipsis, so that it is never taken for the whole."""

from __future__ import annotations


def cut(text: str, most: int) -> str:
    """Return a text of at most `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"
