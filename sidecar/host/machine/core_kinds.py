"""Which cores are fast and which are small: Intel's hybrid machines by name, all others by the kernel's capacities.

The kernel's `cpu_capacity` (Documentation/scheduler/sched-capacity.rst) is relative, the fastest core being 1024. Cores
of one kind may differ by a few per cent, as the firmware favours some of them: only a gap makes another kind.
"""

from __future__ import annotations

from typing import Final

from sidecar.host.machine.values import MachineFiles
from sidecar.words.counts import named
from state.cpuset import EMPTY, CPUSet, union
from state.topology import Kind

FULL: Final = 1024
"""The capacity of the fastest kind (the kernel's SCHED_CAPACITY_SCALE)."""

HYBRID: Final = ("devices/cpu_core/cpus", "devices/cpu_atom/cpus", "devices/cpu_lowpower/cpus")
"""The kinds of Intel's hybrid machines, fastest first (their PMUs' CPU masks)."""

_SAME: Final = 0.9
"""A core with at least this part of the next faster one's capacity is of its kind."""


def kinds(told: MachineFiles, cpu_dir: str, online: CPUSet, cores: list[CPUSet]) -> tuple[Kind, ...]:
    """Return the kinds of cores, fastest first, each CPU in one; none if all are alike, or nothing is reported."""
    capacities = _capacities(told, cpu_dir, cores)
    found = _hybrid(told, cpu_dir, online, capacities) or _by_gaps(capacities)
    if len(found) < 2:
        return ()
    if untold := online - union(cpus for _, cpus in found):
        told.note(f"the kind of {named(untold)} is unknown: counted with the slowest")
        found[-1] = (found[-1][0], found[-1][1] | untold)
    fastest = max(1, found[0][0])
    names = ["performance", *["middle"] * (len(found) - 2), "efficient"]
    return tuple(
        Kind(name, min(FULL, capacity * FULL // fastest), cpus)
        for name, (capacity, cpus) in zip(names, found, strict=True)
    )


def _capacities(told: MachineFiles, cpu_dir: str, cores: list[CPUSet]) -> dict[CPUSet, int]:
    """Return the capacity of each core that reports it."""

    def capacity(cpu: int) -> int | None:
        return told.number(f"{cpu_dir}/cpu{cpu}/cpu_capacity")

    # Most machines report none at all, and the first and the last core suffice to find out.
    if capacity(cores[0].lowest()) is None and capacity(cores[-1].lowest()) is None:
        return {}
    by_core = ((core, capacity(core.lowest())) for core in cores)
    return {core: number for core, number in by_core if number}


def _hybrid(
    told: MachineFiles, cpu_dir: str, online: CPUSet, capacities: dict[CPUSet, int]
) -> list[tuple[int, CPUSet]]:
    taken = EMPTY
    named: list[CPUSet] = []
    for path in HYBRID:
        cpus = ((told.cpus(path) or EMPTY) & online) - taken
        if cpus:
            named.append(cpus)
            taken |= cpus
    found: list[tuple[int, CPUSet]] = []
    for cpus in named if len(named) > 1 else ():
        capacity = max((number for core, number in capacities.items() if core <= cpus), default=0)
        # Kernels before 6.12 report no capacity on x86; the firmware's figure has a scale of its own, the same for all.
        capacity = capacity or told.number(f"{cpu_dir}/cpu{cpus.lowest()}/acpi_cppc/highest_perf") or 0
        found.append((min(capacity, found[-1][0]) if found else capacity, cpus))
    return found


def _by_gaps(capacities: dict[CPUSet, int]) -> list[tuple[int, CPUSet]]:
    found: list[tuple[int, CPUSet]] = []
    last = 0
    for core, capacity in sorted(capacities.items(), key=lambda each: (-each[1], each[0].lowest())):
        if found and capacity >= last * _SAME:
            found[-1] = (found[-1][0], found[-1][1] | core)
        else:
            found.append((capacity, core))
        last = capacity
    return found
