"""Vectors of kind "take": one call of an allocator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sidecar.decide.placement.numa.distributed import distributed
from sidecar.decide.placement.order.along_caches import along_caches
from sidecar.decide.placement.order.packed import packed
from sidecar.decide.placement.order.spread import spread
from state.cpuset import CPUSet
from state.topology import Topology
from tests.vectors.verdict import EQUAL, Vector, Verdict, wanted

MORE_CORES: Final = "spread: more different cores than the kubelet's numeric order"


def judge(vector: Vector, machines: Mapping[str, Topology]) -> Verdict:
    """Compare whether this call takes the expected CPUs, or is refused as expected."""
    machine, available = machines[vector["topology"]], CPUSet.parse(vector["available"])
    taken = called(machine, available, vector)
    answer = wanted(vector).get("cpus")
    expected = None if answer is None else CPUSet.parse(answer)
    if taken == expected:
        return EQUAL
    difference = f"{taken} instead of {expected}"
    if vector["algorithm"] == "spread" and taken is not None and expected is not None:
        is_a_choice = len(taken) == len(expected) and taken <= available
        if is_a_choice and cores_of(machine, taken) > cores_of(machine, expected):
            return Verdict(difference, MORE_CORES)
    return Verdict(difference)


def called(machine: Topology, available: CPUSet, vector: Vector) -> CPUSet | None:
    """Return what the algorithm that the vector names takes."""
    match vector["algorithm"]:
        case "packed":
            return packed(machine, available, vector["num"])
        case "spread":
            return spread(machine, available, vector["num"])
        case "uncore":
            return along_caches(machine, available, vector["num"])
        case "distributed":
            return distributed(machine, available, vector["num"], vector["group_size"])
        case unknown:
            raise LookupError(f"no algorithm is called {unknown}")


def cores_of(machine: Topology, cpus: CPUSet) -> int:
    """Return how many different cores these CPUs are on."""
    return sum(1 for core in machine.cores if not core.cpus.isdisjoint(cpus))
