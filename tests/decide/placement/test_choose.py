"""choose: what the options forbid and prefer, with sentences that name what is available and what would fit."""

from __future__ import annotations

import pytest

from sidecar.decide.placement.choose import Ask, choose
from sidecar.decide.placement.options import FULL_PCPUS_ONLY
from state.cpuset import EMPTY, CPUSet
from state.refusal import Refusal, RefusalCode
from state.topology import Topology, topology, uniform
from tests.support.decide.stories import told

SMT = uniform(cores=4, threads=2)
"""Cores 0,4 1,5 2,6 3,7."""


def chosen(
    count: int, available: CPUSet, *options: str, reserved: CPUSet = EMPTY, machine: Topology = SMT
) -> CPUSet | Refusal:
    return choose(machine, available, Ask(count=count, options=options), reserved=reserved)


def test_without_options_it_is_packed() -> None:
    assert chosen(3, SMT.online) == CPUSet.of(0, 1, 4)


@pytest.mark.parametrize(
    ("available", "listed", "cure"),
    [
        (CPUSet.of(1, 5), "2 free: 1,5", "2 would fit"),
        (CPUSet.of(3), "1 free: 3", "1 would fit"),
        (EMPTY, "0 free", ""),
    ],
)
def test_too_few_names_what_is_free_and_what_would_fit(available: CPUSet, listed: str, cure: str) -> None:
    reason = f"asked for 3 exclusive CPUs, {listed}"
    assert told(chosen(3, available)) == (RefusalCode.NOT_ENOUGH, "; ".join(filter(None, (reason, cure))))


def test_whole_cores_only() -> None:
    """A multiple of a core's threads gets cores, and no other number is granted."""
    assert chosen(2, SMT.online, FULL_PCPUS_ONLY) == CPUSet.of(0, 4)
    found = chosen(3, SMT.online, FULL_PCPUS_ONLY)
    reason = "asked for 3 exclusive CPUs, not a multiple of the 2 threads per core (full-pcpus-only)"
    assert told(found) == (RefusalCode.NOT_WHOLE_CORES, f"{reason}; 2 or 4 would fit")


def test_the_other_half_of_a_reserved_core_does_not_count() -> None:
    """CPU 4 is free, but its core is touched by the reservation."""
    available, reserved = SMT.online - CPUSet.of(0), CPUSet.of(0)
    assert chosen(6, available, FULL_PCPUS_ONLY, reserved=reserved) == available - CPUSet.of(4)
    found = chosen(8, available, FULL_PCPUS_ONLY, reserved=reserved)
    reason = "asked for 8 exclusive CPUs, 6 free: 1-3,5-7 on cores without a reserved CPU (full-pcpus-only)"
    assert told(found) == (RefusalCode.NOT_WHOLE_CORES, f"{reason}; 6 would fit")
    assert chosen(7, available, reserved=reserved) == available


def test_without_smt_every_cpu_is_a_core() -> None:
    machine = uniform(cores=4)
    assert chosen(3, machine.online, FULL_PCPUS_ONLY, machine=machine) == CPUSet.of(0, 1, 2)


def test_the_width_of_a_core_is_an_average() -> None:
    """One core with a thread offline: 7 CPUs on 4 cores are 1 each, as the kubelet counts."""
    machine = topology(cores=[CPUSet.of(0, 4), CPUSet.of(1), CPUSet.of(2, 6), CPUSet.of(3, 7)])
    assert machine.cpus_per_core == 1
    assert chosen(1, machine.online, FULL_PCPUS_ONLY, machine=machine) == CPUSet.of(1)


def test_another_option_changes_nothing_here() -> None:
    """The strict reservation is about the shared pool."""
    assert chosen(2, SMT.online, "strict-cpu-reservation") == CPUSet.of(0, 4)
