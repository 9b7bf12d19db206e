"""What `full-pcpus-only` counts in: the unit of such a container is a core, in every count, size, take and refusal.

A core is free for it only as a whole: not if one of its threads is reserved, another container's or offline. (The
kubelet grants the other half of a core that a reservation splits; decisions 0014 and 0044.)
"""

from __future__ import annotations

from collections.abc import Collection
from math import gcd

from sidecar.decide.placement.options import EFFICIENT, FULL_PCPUS_ONLY, PERFORMANCE
from state.cpuset import EMPTY, CPUSet, union
from state.topology import Topology


def is_by_cores(options: Collection[str]) -> bool:
    """Return whether these options require whole cores."""
    return FULL_PCPUS_ONLY in options


def unit_of(topology: Topology, options: Collection[str], within: CPUSet = EMPTY) -> int:
    """Return the step in CPUs by which a number of CPUs under these options changes: the threads of a core, or 1.

    Where kinds of cores differ in threads, those are considered that `within` touches, if it is not empty, else those
    that the options require.
    """
    if not is_by_cores(options):
        return 1
    among = within or of_asked_kinds(topology, options)
    return gcd(*(threads for cpus, threads in topology.widths if not cpus.isdisjoint(among))) or 1


def takeable(topology: Topology, options: Collection[str], free: CPUSet) -> CPUSet:
    """Return which of these free CPUs may be taken under these options: all, or those of cores that are free as a
    whole.
    """
    return topology.full_cores_in(free) if is_by_cores(options) else free


def on_lacking_cores(topology: Topology, cpus: CPUSet) -> CPUSet:
    """Return those of the CPUs that are on cores of which a thread is offline."""
    return cpus - union(core.cpus for core in topology.full_cores) if topology.offline else EMPTY


def cores_within(topology: Topology, cpus: CPUSet, most: int) -> CPUSet:
    """Return what these CPUs have of their cores, no core in part and the largest first, as long as that is not more
    than `most` CPUs.
    """
    found = EMPTY
    for part in sorted((core.cpus & cpus for core in topology.cores), key=len, reverse=True):
        if len(found) + len(part) <= most:
            found |= part
    return found


def rounded_up(count: int, unit: int, *, most: int) -> int:
    """Return the count in whole units, but at most `most`: a demand for that cannot be served in whole units."""
    return min(count + -count % unit, most)


def of_asked_kinds(topology: Topology, options: Collection[str]) -> CPUSet:
    """Return the CPUs of the kinds that the options require; all online CPUs if they name none, or the machine has no
    kinds.
    """
    if topology.kinds and EFFICIENT in options:
        return topology.kinds[-1].cpus
    if topology.kinds and PERFORMANCE in options:
        return union(kind.cpus for kind in topology.kinds[:-1])
    return topology.online
