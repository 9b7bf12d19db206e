"""Vectors of kind `options`: which options may be given, and together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sidecar.decide.placement.options import (
    ACROSS_CORES,
    ACROSS_NUMA,
    ALIGN_BY_SOCKET,
    ALONG_CACHES,
    FULL_PCPUS_ONLY,
    STRICT_CPU_RESERVATION,
    from_switches,
    misfit,
)
from state.demand import NumaRule
from state.refusal import Refusal
from state.topology import Topology
from tests.vectors.hints import RULES
from tests.vectors.verdict import EQUAL, Vector, Verdict, wanted

_FIELDS: Final = {
    "AlignBySocket": ALIGN_BY_SOCKET,
    "DistributeCPUsAcrossCores": ACROSS_CORES,
    "DistributeCPUsAcrossNUMA": ACROSS_NUMA,
    "FullPhysicalCPUsOnly": FULL_PCPUS_ONLY,
    "PreferAlignByUncoreCacheOption": ALONG_CACHES,
    "StrictCPUReservation": STRICT_CPU_RESERVATION,
}

_GATES: Final = {
    "CPUManagerPolicyAlphaOptions": (ALIGN_BY_SOCKET, ACROSS_CORES),
    "CPUManagerPolicyBetaOptions": (ACROSS_NUMA,),
}
"""The options that a kubelet's feature gates withhold, even if they are given as false. We have no gates: like pods,
they are a kubelet's own, and asked before our rules are.
"""


def judge(vector: Vector, machines: Mapping[str, Topology]) -> Verdict:
    """Compare the parsed options, and whether there is a refusal."""
    expected = wanted(vector)
    options = from_switches(vector["options"])
    problem: Refusal | str | None = withheld(vector["options"], vector.get("gates", {}))
    if isinstance(options, Refusal):
        problem, options = problem or options, ()
    if not problem and "topology" in vector:
        rule = RULES[vector.get("tm_policy", "none")]
        problem = misfit(options, rule, machines[vector["topology"]])
    if "error" in expected:
        return EQUAL if problem else Verdict(f"accepted, expected {expected['error']!r}")
    if problem:
        return Verdict(f"refused: {problem}")
    ours = {name: option in options for name, option in _FIELDS.items()}
    return EQUAL if ours == expected["parsed"] else Verdict(f"parsed {ours}, expected {expected['parsed']}")


def withheld(options: Mapping[str, str], gates: Mapping[str, bool]) -> str:
    """Return which of the given options a closed gate withholds, as a sentence; "" for none."""
    closed = [gate for gate, is_open in gates.items() if not is_open]
    held = [option for gate in closed for option in _GATES.get(gate, ()) if option in options]
    return f"{held[0]} is behind a gate" if held else ""


def rule_named(name: str | None) -> NumaRule:
    """Return the kubelet's topology manager policy of that name."""
    return RULES[name or "none"]
