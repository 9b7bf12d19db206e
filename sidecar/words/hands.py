"""Sentences about the hand on the cgroups, and about programs that write where it writes."""

from __future__ import annotations

from sidecar.words.counts import counted, named
from state.cpuset import CPUSet


def no_hand(reason: str) -> str:
    """Return that the engine alone changes CPUs, and why."""
    return f"the engine alone changes CPUs, because cgroups cannot be written directly: {reason}"


def many_writes(name: str, found: CPUSet, times: int) -> str:
    """Return that another program writes the cpuset of a container, `found` last."""
    written = named(found) if found else "no CPUs"
    often = counted(times, "time")
    return f"another program writes the cpuset of {name}, which is put right each time: {often} to {written}"
