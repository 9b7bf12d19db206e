"""Docker Compose as this machine has it, asked for once by each process: asking takes as long as reading a file."""

from __future__ import annotations

import functools

from compose.host.composer import find


@functools.cache
def composer() -> tuple[str, ...] | None:
    """Return the words that start Docker Compose, or None."""
    return find()
