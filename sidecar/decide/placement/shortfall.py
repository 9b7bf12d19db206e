"""Why a request is not served: what was asked, what is free where, and what would make it fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from sidecar.decide.placement.affinity import affinity
from state.cpuset import CPUSet
from state.model import NumaRule
from state.refusal import RefusalCode
from state.topology import Group, Topology

_SHOWN: Final = 8
"""Groups that a sentence names; of more, their number."""


class Shortfall(msgspec.Struct, frozen=True):
    """Why nothing was chosen: a word for programs, what was asked and what is free, and what would fit ("" if
    nothing would).
    """

    code: RefusalCode
    reason: str
    cure: str = ""


def unfit(problem: str) -> Shortfall:
    """Options that cannot be had on this machine."""
    return Shortfall(RefusalCode.CONTRADICTION, problem)


def not_enough(topology: Topology, free: CPUSet, count: int) -> Shortfall:
    """Fewer CPUs are free than were asked for."""
    cure = f"{len(free)} would fit" if free else ""
    return Shortfall(RefusalCode.NOT_ENOUGH, f"{_asked(count)}, {where(topology, free)}", cure)


def not_whole_cores(topology: Topology, physical: CPUSet, count: int, width: int) -> Shortfall:
    """Under full-pcpus-only, not a number of whole cores, or more than are free outside the reserved cores."""
    if count % width:
        reason = f"{_asked(count)}, not a multiple of the {width} threads of a core (full-pcpus-only)"
        fitting = [n for n in (count - count % width, count - count % width + width) if 0 < n <= len(physical)]
        return Shortfall(RefusalCode.NOT_WHOLE_CORES, reason, _would_fit(fitting))
    reason = f"{_asked(count)}, {where(topology, physical)} on cores without a reserved CPU (full-pcpus-only)"
    fitting = [n for n in (len(physical) - len(physical) % width,) if n]
    return Shortfall(RefusalCode.NOT_WHOLE_CORES, reason, _would_fit(fitting))


def cut_core(topology: Topology, free: CPUSet, count: int) -> Shortfall:
    """Under full-pcpus-only, cores of several widths that do not add up to what was asked for."""
    reason = f"{_asked(count)}, and whole cores do not add up to that (full-pcpus-only), {where(topology, free)}"
    # Bit n is set where some of the free cores have n CPUs together.
    sums = 1
    for core in topology.cores:
        if core.cpus <= free:
            sums |= sums << len(core.cpus)
    possible = [n for n in range(1, sums.bit_length()) if sums >> n & 1]
    below, above = [n for n in possible if n < count][-1:], [n for n in possible if n > count][:1]
    return Shortfall(RefusalCode.NOT_WHOLE_CORES, reason, _would_fit(below + above))


def not_aligned(topology: Topology, free: CPUSet, count: int, rule: NumaRule) -> Shortfall:
    """The rule wants fewer NUMA nodes than could serve now."""
    most = "one NUMA node" if rule is NumaRule.SINGLE else "as few NUMA nodes as the machine could do it with"
    reason = f"{_asked(count)} on {most} (cpuset.numa {rule}), {where(topology, free)}"
    if len(free) < count:
        return not_enough(topology, free, count)
    cures = []
    largest = max(len(node.cpus & free) for node in topology.nodes)
    if rule is NumaRule.SINGLE and largest:
        cures.append(f"{largest} would fit on one node")
    loose = affinity(topology, free, count, NumaRule.BEST_EFFORT)
    if loose.nodes:
        cures.append(f"cpuset.numa best-effort would take it from nodes {', '.join(map(str, loose.nodes))}")
    return Shortfall(RefusalCode.NOT_ALIGNED, reason, "; ".join(cures))


def where(topology: Topology, free: CPUSet) -> str:
    """`6 free: 2 on node 0 (1,5), 4 on node 1 (8-11)`; by caches where a node has several."""
    if not free:
        return "0 free"
    parts = list(_parts(topology, free))
    if len(parts) < 2:
        return f"{len(free)} free: {free}"
    shown = ", ".join(parts[:_SHOWN]) + (f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else "")
    return f"{len(free)} free: {shown}"


def _parts(topology: Topology, free: CPUSet) -> Iterator[str]:
    for node in _touched(topology.nodes, free):
        inside = free & node.cpus
        name = f" on node {node.id}" if len(topology.nodes) > 1 else ""
        caches = _touched(topology.caches, node.cpus)
        if len(caches) < 2 or all(len(cache.cpus) <= topology.cpus_per_core for cache in caches):
            yield f"{len(inside)}{name} ({inside})"
            continue
        for cache in _touched(topology.caches, inside):
            part = inside & cache.cpus
            yield f"{len(part)}{name or ' on'}{',' if name else ''} cache {cache.id} ({part})"


def _touched(groups: tuple[Group, ...], cpus: CPUSet) -> list[Group]:
    return [group for group in groups if not group.cpus.isdisjoint(cpus)]


def _would_fit(counts: list[int]) -> str:
    return f"{' or '.join(map(str, counts))} would fit" if counts else ""


def _asked(count: int) -> str:
    return "1 exclusive CPU asked for" if count == 1 else f"{count} exclusive CPUs asked for"
