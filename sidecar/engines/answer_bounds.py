"""How long an engine's answers are waited for, how much of them is read, and how a container is written in a URL."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec

_MIB: Final = 1024 * 1024
SMALL_BYTES: Final = 4 * _MIB
"""Most of an answer that holds nothing of the containers' authors."""
INSPECT_BYTES: Final = 96 * _MIB
"""Most of one container's description: labels of 40 MB are accepted by the engine, and the answer must survive them."""
LIST_BYTES: Final = 512 * _MIB
"""Most of the list of all containers, with all their labels: it cannot be asked for without them."""

BACKLOG: Final = 4096
"""Events buffered for the trio side: a burst of hundreds of containers; what exceeds it becomes one gap."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long an answer is waited for, in seconds; after that the engine counts as unavailable."""

    look: float = 10.0
    """An inspect waits for the container's lock, which a start holds for 0.1 to 0.2 s; ten is a dead engine."""
    introduction: float = 30.0
    """Podman asks the package manager whose its programs are before it says who it is: one second on a fast machine."""
    update: float = 30.0
    """It waits for a start too, which may mount and wire up a network on a busy host."""
    stop: float = 330.0
    """The container's own grace, up to five minutes, and the engine's work."""


def path_of(container: str) -> str:
    """Return the path of a container's routes, whatever its name holds."""
    return f"containers/{quote(container, safe='')}"
