"""Why a container has the CPUs that it has, as sentences for people: what its projection says. Pure."""

from __future__ import annotations

from typing import Final

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.world import World
from sidecar.words.causes import why
from sidecar.words.counts import exclusive_cpus
from sidecar.words.refusals import sentence
from state.model import Move

LEFT_ALONE: Final = "left alone, as asked"


def reason_of(world: World, container: Container) -> str:
    """Why it has the CPUs that it has, as a sentence for people."""
    key, wish = container.view.key, container.wish
    if world.is_releasing:
        return "everything is being given back: the sidecar leaves"
    match wish.standing:
        case Standing.STRANGER:
            return f"pinned by hand to CPUs {container.place.seen}: never moved, and nobody gets these CPUs exclusively"
        case Standing.UNMANAGED:
            return LEFT_ALONE
        case Standing.MEMBER:
            if wish.refusal is not None:
                return f"in the shared pool: {sentence(wish.refusal)}"
            return f"in the shared pool: it lives in {world.settings.shared_slice}, which is confined to it"
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
    return "in the shared pool: it asks for no CPUs of its own"


def _moved(move: Move) -> str:
    """What changed last, and why."""
    parts = [f"gained {move.gained}"] if move.gained else []
    parts += [f"gave up {move.lost}"] if move.lost else []
    return f"{' and '.join(parts)}: {why(move.cause)}"
