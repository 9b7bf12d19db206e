"""The laws that every State obeys: `violations` returns how they are broken, and should return nothing.

The State balances by construction (the shared pool is the ungranted CPUs), so what is left to check is that grants are
real, apart from each other, and leave something for all other containers.
"""

from __future__ import annotations

import enum

import msgspec

from state.cpuset import CPUSet, union
from state.model import State
from state.topology import Topology


class BookLaw(enum.StrEnum):
    """A law about every State."""

    SIZES = "sizes"
    """A grant holds as many CPUs as were asked for: between floor and ceiling under the policy dynamic."""
    APART = "apart"
    """No CPU is granted twice."""
    RESERVED = "reserved"
    """No reserved CPU is granted."""
    ONLINE = "online"
    """Only CPUs of this machine that are online are granted, reserved or shared."""
    COMPLETE = "complete"
    """Each online CPU is in the State."""
    POOL = "pool"
    """The shared pool is not empty."""
    ANSWERED = "answered"
    """No container is both granted and refused."""
    LAYERS = "layers"
    """Under dynamic, an original set holds as many CPUs as the floor, and layers hold the rest; leaving CPUs are no
    longer
    held.
    """


class Violation(msgspec.Struct, frozen=True):
    """One way in which a law is broken; `text` is for people."""

    law: BookLaw
    text: str

    def __str__(self) -> str:
        return self.text


def violations(state: State, topology: Topology) -> list[Violation]:
    """Return every way in which `state` breaks a law on this machine; empty if it is lawful."""
    if state.policy == "none":
        return []
    broken = {
        BookLaw.SIZES: _bad_grants(state),
        BookLaw.LAYERS: _bad_layers(state) if state.policy == "dynamic" else [],
        BookLaw.APART: _shared_grants(state),
        BookLaw.RESERVED: _reserved_grants(state),
        BookLaw.ONLINE: _foreign_cpus(state, topology),
        BookLaw.COMPLETE: _missing_cpus(state, topology),
        BookLaw.POOL: [] if state.shared else ["the shared pool is empty"],
        BookLaw.ANSWERED: [
            f"{name} is both granted and refused" for name in sorted(set(state.assignments) & set(state.refusals))
        ],
    }
    return [Violation(law, text) for law, texts in broken.items() for text in texts]


def _bad_grants(state: State) -> list[str]:
    found = []
    for key, assignment in sorted(state.assignments.items()):
        if key != assignment.container:
            found.append(f"the grant of {assignment.container} is recorded for {key}")
        demand = assignment.demand
        least, most = (demand.floor, demand.ceiling) if state.policy == "dynamic" else (demand.cpus, demand.cpus)
        if not least <= len(assignment.cpus) <= most:
            asked = str(least) if least == most else f"{least} to {most}"
            found.append(f"{assignment.name} asked for {asked} CPUs and holds {assignment.cpus}")
    return found


def _bad_layers(state: State) -> list[str]:
    found = []
    for _, assignment in sorted(state.assignments.items()):
        if len(assignment.original) != assignment.demand.floor:
            found.append(
                f"{assignment.name} has the floor {assignment.demand.floor}, but began on {assignment.original}"
            )
        layers = [assignment.original, *assignment.layers]
        if union(layers) != assignment.cpus or sum(map(len, layers)) != len(assignment.cpus):
            found.append(f"{assignment.name} holds {assignment.cpus}, in layers {' + '.join(map(str, layers))}")
        if assignment.leaving and (not assignment.leaving.cpus or assignment.leaving.cpus & assignment.cpus):
            found.append(f"{assignment.name} holds {assignment.cpus} and is leaving {assignment.leaving.cpus}")
    return found


def _shared_grants(state: State) -> list[str]:
    found, taken = [], 0
    for _, assignment in sorted(state.assignments.items()):
        if both := taken & assignment.cpus.mask:
            found.append(f"CPUs {CPUSet.from_mask(both)} are granted to {assignment.name} and to another container")
        taken |= assignment.cpus.mask
    return found


def _reserved_grants(state: State) -> list[str]:
    return [
        f"{assignment.name} holds reserved CPUs {assignment.cpus & state.reserved}"
        for _, assignment in sorted(state.assignments.items())
        if not assignment.cpus.isdisjoint(state.reserved)
    ]


def _foreign_cpus(state: State, topology: Topology) -> list[str]:
    found = []
    if foreign := state.online - topology.online:
        found.append(f"the state uses CPUs {foreign}, which are not online")
    for what, cpus in (("granted", state.exclusive), ("reserved", state.reserved)):
        if foreign := cpus - topology.online:
            found.append(f"CPUs {foreign} are {what}, but not online")
    return found


def _missing_cpus(state: State, topology: Topology) -> list[str]:
    missing = topology.online - state.online
    return [f"CPUs {missing} are online, but neither shared, reserved nor granted"] if missing else []
