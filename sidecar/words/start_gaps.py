"""Sentences on starts that an engine's events tell too late: limits of it, unless births are answered. Pure."""

from __future__ import annotations

from typing import Final

from sidecar.decide.engine_traits import EngineTraits

LOSES_UPDATES: Final = (
    "this Podman loses updates (before 5.1): a container that starts runs outside its CPUs until the sidecar has "
    "written them again"
)


def tells_late(traits: EngineTraits) -> str:
    """Return what it means that events come late."""
    late = traits.tells_late
    return f"Podman reports events up to {late:g} s late: a new container may run outside its CPUs for that long"


def start_gaps(traits: EngineTraits) -> frozenset[str]:
    """Return those of an engine's notes that are untrue where a hand answers births."""
    return frozenset((LOSES_UPDATES, tells_late(traits)))
