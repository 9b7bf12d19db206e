"""Vectors of kind `discover`: how the kubelet reads the machine that cAdvisor reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from state.cpuset import CPUSet
from state.errors import StateError
from state.topology import Topology, topology
from tests.vectors.verdict import EQUAL, Vector, Verdict, wanted


def judge(vector: Vector, machines: Mapping[str, Topology]) -> Verdict:
    """Compare whether each CPU is in the same core, socket, node and cache, with as many of each; or that both
    refuse.
    """
    want = wanted(vector)
    try:
        made = _machine(vector["machine"])
    except StateError as error:
        return EQUAL if "error" in want else Verdict(f"refused: {error}")
    rows = [
        [cpu, made.core_of[cpu].id, made.package_of[cpu].id, made.node_of[cpu].id, made.cache_of[cpu].id]
        for cpu in made.online
    ]
    counts = {
        "cpus": len(made.online),
        "cores": len(made.cores),
        "sockets": len(made.packages),
        "numa": len(made.nodes),
        "uncore": len(made.caches),
    }
    got = {"counts": counts, "cpus": rows}
    return EQUAL if got == want else Verdict(f"{got} instead of {want}")


def _machine(told: Mapping[str, Any]) -> Topology:
    cores: list[CPUSet] = []
    levels: dict[str, dict[int, int]] = {"numa": {}, "socket": {}, "uncore": {}}
    for node in told["nodes"]:
        for core in node["cores"]:
            cpus = CPUSet(core["threads"])
            if not cpus or len(cpus) != len(core["threads"]):
                raise StateError(f"a core has no thread, or one twice: {core['threads']}")
            cores.append(cpus)
            # A core without a reported cache has its socket's: the first counts, if there are several.
            uncore = next(iter(core["uncore_ids"]), core["socket"])
            for level, id in (("numa", node["numa"]), ("socket", core["socket"]), ("uncore", uncore)):
                levels[level][id] = levels[level].get(id, 0) | cpus.mask
    numa, socket, uncores = (
        {id: CPUSet.from_mask(mask) for id, mask in levels[level].items()} for level in ("numa", "socket", "uncore")
    )
    return topology(cores=cores, nodes=numa, packages=socket, caches=uncores)
