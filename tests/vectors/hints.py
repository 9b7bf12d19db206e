"""Vectors of kind `hints` and `get_hints`: which sets of NUMA nodes can serve, and which one the rules choose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sidecar.decide.placement.numa.affinity import Affinity, affinity, hints, merged
from sidecar.decide.placement.options import ALIGN_BY_SOCKET, from_switches, misfit
from state.cpuset import EMPTY, CPUSet
from state.demand import NumaRule
from state.refusal import Refusal
from state.topology import Topology
from tests.vectors.node import Node
from tests.vectors.verdict import EQUAL, Vector, Verdict, wanted

RULES = {
    "none": NumaRule.NONE,
    "best-effort": NumaRule.BEST_EFFORT,
    "restricted": NumaRule.RESTRICTED,
    "single-numa-node": NumaRule.SINGLE,
}


def judge(vector: Vector, machines: Mapping[str, Topology]) -> Verdict:
    """Compare the list of hints, and the result of each rule."""
    topology, expected = machines[vector["topology"]], wanted(vector)
    options = from_switches(vector["options"])
    problem = options if isinstance(options, Refusal) else misfit(options, NumaRule.NONE, topology)
    if isinstance(options, Refusal) or problem or "new_error" in expected:
        return EQUAL if problem and "new_error" in expected else Verdict(f"refused with {problem!r}, not as expected")
    by_socket = ALIGN_BY_SOCKET in options
    available, count = CPUSet.parse(vector["available"]), vector["num"]
    held = CPUSet.parse(vector.get("reusable", ""))
    listed = list(hints(topology, available, count, by_socket=by_socket, held=held))
    if (ours := shown_all(listed)) != (expected["hints"] or []):
        return Verdict(f"hints {ours}, expected {expected['hints']}")
    for name, answer in expected["merged"].items():
        rule = RULES[name]
        found = merged(topology, listed, rule)
        if not held and affinity(topology, available, count, rule, by_socket=by_socket) != found:
            return Verdict(f"{name}: the direct way gives another answer than the list")
        ours_merged = {**shown(found), "admit": found.is_admitted}
        if ours_merged != answer and not _is_all(topology, found, answer):
            return Verdict(f"{name}: {ours_merged}, expected {answer}")
    return EQUAL


def judge_of_pod(vector: Vector, machines: Mapping[str, Topology]) -> Verdict:
    """Compare the hints for a container, or a pod, as a set."""
    topology, expected = machines[vector["topology"]], wanted(vector)["hints"]
    options = from_switches(vector["options"])
    assert not isinstance(options, Refusal)
    node = Node(
        topology=topology,
        options=options,
        reserved=EMPTY,
        strict=False,
        rule=NumaRule.BEST_EFFORT,
        by_pod="container" not in vector,
        default=CPUSet.parse(vector["state"]["default"]),
        assignments={
            pod: {name: CPUSet.parse(cpus) for name, cpus in held.items()}
            for pod, held in vector["state"]["assignments"].items()
        },
    )
    pod = vector["pod"]
    containers = {each["name"]: each for each in [*pod.get("init", []), *pod["containers"]]}
    listed = node.hints(pod, containers[vector["container"]] if "container" in vector else None)
    ours = None if listed is None else sorted(shown_all(listed), key=str)
    theirs = None if expected is None else sorted(expected, key=str)
    return EQUAL if ours == theirs else Verdict(f"hints {ours}, expected {theirs}")


def shown(hint: Affinity) -> dict[str, Any]:
    """Return a hint as the vectors write it."""
    return {"numa": None if hint.nodes is None else list(hint.nodes), "preferred": hint.is_preferred}


def shown_all(listed: list[Affinity]) -> list[dict[str, Any]]:
    """Return hints as the vectors write them."""
    return [shown(hint) for hint in listed]


def _is_all(topology: Topology, found: Affinity, answer: Mapping[str, Any]) -> bool:
    """Return whether one is "any node" and the other names all of them, which means the same."""
    everything = [node.id for node in topology.nodes]
    ours = everything if found.nodes is None else list(found.nodes)
    theirs = everything if answer["numa"] is None else answer["numa"]
    return ours == theirs and (found.is_preferred, found.is_admitted) == (answer["preferred"], answer["admit"])
