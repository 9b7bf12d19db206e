"""How long to wait for an engine's answers, how much of them is read, and how a container is written in a URL."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec

_MIB: Final = 1024 * 1024
SMALL_BYTES: Final = 4 * _MIB
"""The limit of an answer without any text of the containers' authors."""
INSPECT_BYTES: Final = 96 * _MIB
"""The limit of one container's description: the engine accepts labels of 40 MB, and the answer must be readable."""
LIST_BYTES: Final = 512 * _MIB
"""The limit of the list of all containers, with all their labels: the engine cannot leave them out."""

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
