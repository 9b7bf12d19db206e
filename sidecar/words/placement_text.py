"""Where the CPUs of a grant are, and which ones it would get now. Pure."""

from __future__ import annotations

from sidecar.decide.whatif import placed_anew
from sidecar.decide.world import World
from sidecar.words.machine_text import lie
from sidecar.words.refusals import sentence
from state.cpuset import CPUSet
from state.model import Assignment
from state.refusal import Refusal


def placement_told(world: World, grant: Assignment) -> tuple[str, ...]:
    """Return where the CPUs of a grant are, and which ones it would get if placed again now, as sentences."""
    topology = world.topology
    said = [f"They are {lie(topology, grant.cpus)}."] if lie(topology, grant.cpus) else []
    anew = placed_anew(world, grant)
    if isinstance(anew, CPUSet) and anew != grant.cpus:
        where = lie(topology, anew)
        said.append(f"Placed again now, it would get {anew}{f' ({where})' if where else ''}; it keeps what it has.")
    elif isinstance(anew, Refusal):
        said.append(f"Placed again now, it would be refused: {sentence(anew)}.")
    return tuple(said)
