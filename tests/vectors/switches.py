"""Vectors of kind `options`: which options may be given, and together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sidecar.decide.options import (
    ACROSS_CORES,
    ACROSS_NUMA,
    ALIGN_BY_SOCKET,
    ALONG_CACHES,
    FULL_PCPUS_ONLY,
    STRICT_CPU_RESERVATION,
    from_switches,
    misfit,
)
from state.model import NumaRule
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

GATED: Final = "there are no feature gates: every option can be had"


def judge(vector: Vector, machines: Mapping[str, Topology]) -> Verdict:
    """Compare what is parsed, and the fact of refusal."""
    expected = wanted(vector)
    options = from_switches(vector["options"])
    problem = options if isinstance(options, str) else ""
    if not problem and "topology" in vector:
        rule = RULES[vector.get("tm_policy", "none")]
        problem = misfit(options, rule, machines[vector["topology"]])
    if "error" in expected:
        if problem:
            return EQUAL
        gates: Mapping[str, bool] = vector.get("gates", {})
        is_gated = not all(gates.values()) and "not enabled" in expected["error"]
        return Verdict(f"accepted, expected {expected['error']!r}", GATED if is_gated else "")
    if problem:
        return Verdict(f"refused: {problem}")
    ours = {name: option in options for name, option in _FIELDS.items()}
    return EQUAL if ours == expected["parsed"] else Verdict(f"parsed {ours}, expected {expected['parsed']}")


def rule_named(name: str | None) -> NumaRule:
    """The kubelet's topology manager policy of that name."""
    return RULES[name or "none"]
