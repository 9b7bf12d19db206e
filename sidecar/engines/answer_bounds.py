"""How long to wait for an engine's answers, and how a container is written in a URL."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec

BACKLOG: Final = 4096
"""Events buffered for the trio side: a burst of hundreds of containers; any excess becomes one gap."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait for an answer, in seconds; after that the engine counts as unavailable."""

    look: float = 10.0
    """An inspect waits for the container's lock, which a start holds for 0.1 to 0.2 s; after ten the engine is dead."""
    introduction: float = 30.0
    """Podman asks the package manager for the owner of its programs before it answers: one second on a fast machine."""
    update: float = 30.0
    """It also waits for a start, which may mount and wire up a network on a busy host."""
    stop: float = 330.0
    """The container's own grace, up to five minutes, and the engine's work."""


def path_of(container: str) -> str:
    """Return the path of a container's routes, whatever its name holds."""
    return f"containers/{quote(container, safe='')}"
