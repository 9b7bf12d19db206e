"""Why a container has its CPUs, as a clause for people: the reason in its projection. Pure."""

from __future__ import annotations

from typing import Final

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.world import World
from sidecar.words.causes import why
from sidecar.words.counts import exclusive_cpus, named
from sidecar.words.refusals import sentence
from state.model import Move

LEFT_ALONE: Final = "left alone, as requested"
NEVER_MOVED: Final = "it is never moved, and no other container gets these CPUs exclusively"


def reason_of(world: World, container: Container) -> str:
    """Return why a container has its CPUs, as a clause for people."""
    key, wish = container.view.key, container.wish
    if world.is_releasing:
        return "the sidecar is releasing every container"
    match wish.standing:
        case Standing.STRANGER:
            return f"pinned by hand to {named(container.place.seen)}: {NEVER_MOVED}"
        case Standing.UNMANAGED:
            return LEFT_ALONE
        case Standing.MEMBER:
            if wish.refusal is not None:
                return f"in the shared pool: {sentence(wish.refusal)}"
            return f"in the shared pool: its cgroup parent {world.settings.shared_slice} is confined to it"
        case Standing.MANAGED:
            pass
    if assignment := world.state.assignments.get(key):
        if assignment.moves:
            return _moved(assignment.moves[-1])
        return f"granted {exclusive_cpus(len(assignment.cpus))}: {assignment.cpus}"
    if refused := world.state.refusals.get(key):
        return f"in the shared pool: {sentence(refused.refusal)}"
    if wish.refusal is not None:
        return f"in the shared pool: {sentence(wish.refusal)}"
    if wish.demand is not None:
        return "in the shared pool until it starts: it did not start in time to keep its CPUs"
    return "in the shared pool: it asks for no exclusive CPUs"


def _moved(move: Move) -> str:
    """Return the last change and its reason."""
    parts = [f"gained {move.gained}"] if move.gained else []
    parts += [f"gave up {move.lost}"] if move.lost else []
    return f"{' and '.join(parts)}: {why(move.cause)}"
