"""What a grant must leave: the shared pool is never empty."""

from __future__ import annotations

from state.cpuset import CPUSet
from state.refusal import PoolEmptied, Refusal, RefusalCode
from state.topology import Topology


def emptied(topology: Topology, shared: CPUSet, cpus: CPUSet, *, keep: int, by_cores: bool) -> Refusal | None:
    """Why these CPUs may not be given; None if they may.

    The shared pool keeps `keep` CPUs, and at least one; `by_cores`, a whole core. (The kubelet lets a strict
    reservation leave nothing, and then neither moves shared containers nor starts again.)
    """
    left = shared - cpus
    keep = max(1, keep)
    if len(left) >= keep and (not by_cores or any(core.cpus <= left for core in topology.cores)):
        return None
    fitting = len(cpus) - max(keep - len(left), topology.cpus_per_core if by_cores else 0)
    return Refusal(
        RefusalCode.POOL_WOULD_BE_EMPTY,
        PoolEmptied(
            count=len(cpus),
            shared=len(shared),
            keep=keep,
            by_cores=len(left) >= keep,
            would_fit=(fitting,) if fitting > 0 else (),
        ),
    )
