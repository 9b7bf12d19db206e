"""Why a container has its CPUs, as a clause for people: the reason in its projection. Pure."""

from __future__ import annotations

from typing import Final

from sidecar.decide.books.give_up import refused_now
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.facts import Phase
from sidecar.decide.moves.settled import is_settled
from sidecar.decide.world import World
from sidecar.words.causes import why
from sidecar.words.counts import exclusive_cpus
from sidecar.words.neighbours import company, pin_text, pinned_text
from sidecar.words.refusals import sentence
from state.demand import Demand
from state.model import Move

LEFT_ALONE: Final = "left alone, as requested"


def reason_of(world: World, container: Container) -> str:
    """Return why a container has its CPUs, as a clause for people."""
    key, wish = container.view.key, container.wish
    if world.is_releasing:
        return "the sidecar is releasing every container"
    match wish.standing:
        case Standing.STRANGER:
            return pinned_text(world, container)
        case Standing.UNMANAGED:
            return LEFT_ALONE if wish.refusal is None else sentence(wish.refusal)
        case Standing.MEMBER:
            if wish.refusal is not None:
                return f"in the shared pool: {sentence(wish.refusal)}"
            return f"in the shared pool: its cgroup parent {world.settings.shared_slice} is confined to it"
        case Standing.MANAGED:
            pass
    if assignment := world.state.assignments.get(key):
        cpus, moves = assignment.cpus, assignment.moves
        why = _moved(moves[-1]) if moves else f"granted {exclusive_cpus(len(cpus))}: {cpus}"
        beside = company(world, container) if world.is_blind or is_settled(world, container) else ""
        return f"{why}; {beside}" if beside else why
    if refused := refused_now(world, key):
        return f"in the shared pool: {sentence(refused.refusal)}"
    if wish.refusal is not None:
        return f"in the shared pool: {sentence(wish.refusal)}"
    if wish.demand is not None:
        return f"in the shared pool until it starts: {_why_not_kept(container, wish.demand)}"
    if wish.is_kept_out:
        return "in the shared pool: it is kept out from its next stop"
    if wish.pin:
        return pin_text(world, container)
    if container.is_unread:
        return "in the shared pool: its labels are not known yet"
    return "in the shared pool: it asks for no exclusive CPUs"


def _why_not_kept(container: Container, demand: Demand) -> str:
    """Return why a container that asks for CPUs when it starts keeps none until then."""
    phase = container.view.phase
    if phase is Phase.CREATED:
        return "it did not start in time to keep its CPUs"
    return f"it is not running ({phase}), and asks for {exclusive_cpus(demand.cpus)} when it starts"


def _moved(move: Move) -> str:
    """Return the last change and its reason."""
    parts = [f"gained {move.gained}"] if move.gained else []
    parts += [f"gave up {move.lost}"] if move.lost else []
    return f"{' and '.join(parts)}: {why(move.cause)}"
