"""Vectors of kind `cpuset`: the text of CPU lists, by the kubelet's rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sidecar.kubelet.kubelet_state import parse_cpus
from state.errors import StateError
from state.topology import Topology
from tests.vectors.verdict import EQUAL, Vector, Verdict, wanted

TOO_HIGH: Final = "stricter than strconv.Atoi: CPUs above 8191 are none that Linux has"


def judge(vector: Vector, machines: Mapping[str, Topology]) -> Verdict:
    """Compare whether the text is read as the same CPUs, and printed the same; or that both refuse it."""
    want = wanted(vector)
    try:
        cpus = parse_cpus(vector["raw"])
    except StateError as error:
        if "error" in want:
            return EQUAL
        return Verdict(f"refused: {error}", TOO_HIGH if "CPUs are numbered 0 to" in str(error) else "")
    if "error" in want:
        return Verdict(f"{cpus} instead of the error {want['error']!r}")
    if list(cpus) != want["list"] or str(cpus) != want["string"]:
        return Verdict(f"{list(cpus)}, {str(cpus)!r} instead of {want}")
    return EQUAL
