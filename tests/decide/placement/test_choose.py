"""choose: what the options forbid and prefer, with sentences that name what is available and what would fit."""

from __future__ import annotations

import pytest

from sidecar.decide.placement.choose import Ask, choose
from sidecar.decide.placement.options import ACROSS_NUMA, FULL_PCPUS_ONLY
from state.cpuset import EMPTY, CPUSet
from state.refusal import Refusal, RefusalCode
from state.topology import Topology, topology, uniform, with_online
from tests.support.decide.stories import told

SMT = uniform(cores=4, threads=2)
"""Cores 0,4 1,5 2,6 3,7."""


def chosen(count: int, available: CPUSet, *options: str, machine: Topology = SMT) -> CPUSet | Refusal:
    return choose(machine, available, Ask(count=count, options=options))


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


def test_a_core_that_is_not_free_as_a_whole_does_not_count() -> None:
    """CPUs 4 and 6 are free; 0 is reserved, and 2 another container's."""
    available = SMT.online - CPUSet.of(0, 2)
    assert chosen(4, available, FULL_PCPUS_ONLY) == CPUSet.of(1, 3, 5, 7)
    found = chosen(6, available, FULL_PCPUS_ONLY)
    reason = "asked for 6 exclusive CPUs, 4 free: 1,3,5,7 on whole cores (full-pcpus-only)"
    assert told(found) == (RefusalCode.NOT_WHOLE_CORES, f"{reason}; 4 would fit")
    assert chosen(6, available) == available


def test_half_cores_do_not_count_when_cpus_are_spread_over_nodes() -> None:
    """Four whole cores beside the other threads of two reserved CPUs."""
    machine = uniform(nodes=2, cores=3, threads=2)
    available = machine.online - CPUSet.of(0, 1)
    assert chosen(8, available, FULL_PCPUS_ONLY, ACROSS_NUMA, machine=machine) == available - CPUSet.of(6, 7)


def test_without_smt_every_cpu_is_a_core() -> None:
    machine = uniform(cores=4)
    assert chosen(3, machine.online, FULL_PCPUS_ONLY, machine=machine) == CPUSet.of(0, 1, 2)


def test_a_core_with_an_offline_thread_is_no_whole_core() -> None:
    """Seven CPUs on four cores: a core has two threads, whatever the average is."""
    machine = with_online(SMT, SMT.online - CPUSet.of(5))
    found = chosen(1, machine.online, FULL_PCPUS_ONLY, machine=machine)
    reason = "asked for 1 exclusive CPU, not a multiple of the 2 threads per core (full-pcpus-only)"
    assert told(found) == (RefusalCode.NOT_WHOLE_CORES, f"{reason}; 2 would fit")
    assert chosen(6, machine.online, FULL_PCPUS_ONLY, machine=machine) == machine.online - CPUSet.of(1)


def test_without_an_offline_cpu_a_narrow_core_is_whole() -> None:
    """A machine whose cores differ, and that does not tell their kinds."""
    machine = topology(cores=[CPUSet.of(0, 4), CPUSet.of(1), CPUSet.of(2, 6), CPUSet.of(3, 7)])
    assert chosen(1, machine.online, FULL_PCPUS_ONLY, machine=machine) == CPUSet.of(1)
    assert chosen(3, machine.online, FULL_PCPUS_ONLY, machine=machine) == CPUSet.of(0, 1, 4)


def test_another_option_changes_nothing_here() -> None:
    """The strict reservation is about the shared pool."""
    assert chosen(2, SMT.online, "strict-cpu-reservation") == CPUSet.of(0, 4)
