"""How an engine reports events: in which words, and how a line of its stream is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from sidecar.engines.docker import docker_wire
from sidecar.ports import EngineEvent


class Dialect(NamedTuple):
    """How an engine reports events."""

    actions: tuple[str, ...]
    """The requested actions, in the engine's own words."""
    event_of: Callable[[bytes], EngineEvent | None]
    torn_event_of: Callable[[bytes, bytes], EngineEvent | None]
    is_negotiated: bool
    """Whether an API version is agreed on before each stream."""


DOCKER: Final = Dialect(
    docker_wire.WATCHED_ACTIONS, docker_wire.event_of, docker_wire.torn_event_of, is_negotiated=True
)
