"""Which CPUs a demand gets out of what is to be had, under the options in force; or the reason why none.

New placement algorithms are files beside `packed`, and a line here.
"""

from __future__ import annotations

from typing import Final

import msgspec

from sidecar.decide.placement.packed import packed
from state.cpuset import CPUSet
from state.model import RefusalCode
from state.topology import Topology

FULL_PCPUS_ONLY: Final = "full-pcpus-only"
STRICT_CPU_RESERVATION: Final = "strict-cpu-reservation"


class Shortfall(msgspec.Struct, frozen=True):
    """Why nothing was chosen."""

    code: RefusalCode
    reason: str


def choose(
    topology: Topology, available: CPUSet, count: int, *, options: tuple[str, ...], reserved: CPUSet
) -> CPUSet | Shortfall:
    """`count` CPUs out of `available` (which holds no reserved CPU), or why not.

    1. Under full-pcpus-only: a multiple of the threads of a core, and enough CPUs outside the cores that the
       reservation touches.
    2. Packed.
    """
    # 1. Whole physical cores only.
    if FULL_PCPUS_ONLY in options:
        width = topology.cpus_per_core
        if count % width:
            reason = f"{count} CPUs asked for, not a multiple of the {width} threads of a core (full-pcpus-only)"
            return Shortfall(RefusalCode.NOT_WHOLE_CORES, reason)
        physical = available - topology.whole_cores(reserved)
        if count > len(physical):
            reason = (
                f"{count} CPUs asked for, {len(physical)} free on cores without a reserved CPU"
                f"{_listed(physical)} (full-pcpus-only)"
            )
            return Shortfall(RefusalCode.NOT_WHOLE_CORES, reason)
    # 2. Packed.
    chosen = packed(topology, available, count)
    if chosen is None:
        reason = f"{count} exclusive CPUs asked for, {len(available)} free{_listed(available)}"
        return Shortfall(RefusalCode.NOT_ENOUGH, reason)
    return chosen


def _listed(cpus: CPUSet) -> str:
    return f": {cpus}" if cpus else ""
