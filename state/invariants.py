"""The laws that every State obeys, as sentences: `violations` returns those that are broken, and should return none.

The books balance by construction (the shared pool is what nobody holds), so what is left to check is that grants are
real, apart from each other, and leave something for everybody else.
"""

from __future__ import annotations

from state.cpuset import CPUSet, union
from state.model import State
from state.topology import Topology


def violations(state: State, topology: Topology) -> list[str]:
    """Every law that `state` breaks on this machine, as sentences for people; empty when it is lawful.

    1. A grant holds CPUs, as many as were asked for: between floor and ceiling under the policy dynamic.
    2. No CPU is granted twice.
    3. No reserved CPU is granted.
    4. Only CPUs of this machine that are online are granted, reserved or shared.
    5. The shared pool is not empty.
    6. Nobody is both granted and refused.
    7. Under dynamic, an original set holds as many CPUs as the floor, and layers hold the rest; what is leaving is held
       no more.
    """
    if state.policy == "none":
        return []
    return [
        *_bad_grants(state),
        *(_bad_layers(state) if state.policy == "dynamic" else ()),
        *_shared_grants(state),
        *_reserved_grants(state),
        *_foreign_cpus(state, topology),
        *([] if state.shared else ["the shared pool is empty"]),
        *(f"{name} is both granted and refused" for name in sorted(set(state.assignments) & set(state.refusals))),
    ]


def _bad_grants(state: State) -> list[str]:
    found = []
    for key, assignment in sorted(state.assignments.items()):
        if key != assignment.container:
            found.append(f"the grant of {assignment.container} stands under the name of {key}")
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
                f"{assignment.name} has the floor {assignment.demand.floor} and began on {assignment.original}"
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
            found.append(f"CPUs {CPUSet.from_mask(both)} are granted to {assignment.name} and to somebody else")
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
        found.append(f"the books use CPUs {foreign}, which are not online")
    if missing := topology.online - state.online:
        found.append(f"CPUs {missing} are online and in no book")
    for what, cpus in (("granted", state.exclusive), ("reserved", state.reserved)):
        if foreign := cpus - topology.online:
            found.append(f"CPUs {foreign} are {what}, but not online")
    return found
