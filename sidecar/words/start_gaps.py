"""What an engine says of starts that its events tell too late: no limit where births are answered. Pure.

The sentences are those of `engines/podman/libpod_wire`, which tells them with the engine; a test holds them together.
"""

from __future__ import annotations

from sidecar.decide.engine_traits import EngineTraits


def start_gaps(traits: EngineTraits) -> frozenset[str]:
    """Return those of an engine's notes that are untrue where a hand answers births."""
    loses = (
        "this Podman loses updates (before 5.1): a container that starts runs outside its CPUs until the sidecar "
        "has written them again"
    )
    late = (
        f"Podman reports events up to {traits.tells_late:g} s late: "
        "a new container may run outside its CPUs for that long"
    )
    return frozenset((loses, late))
