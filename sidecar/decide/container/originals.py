"""A container's original settings, from before the sidecar changed any, and its CPU limit in CPUs."""

from __future__ import annotations

from typing import Final

import msgspec

from sidecar.decide.facts import ContainerView, ViewKind
from state.model import Originals

NANO: Final = 1_000_000_000
"""Nano CPUs per CPU: the engine counts CPU limits in 1e-9 CPUs."""

_PERIOD: Final = 100_000
"""Microseconds. The kernel's period for a CPU quota set without one."""


def originals_of(view: ContainerView) -> Originals:
    """Return a container's settings as they are now: its originals if the sidecar never changed it. The cpuset of the
    shared group does not count, because an earlier sidecar wrote it.
    """
    return Originals(
        cpuset="" if view.kind is ViewKind.GROUP else view.cpuset,
        mems=view.mems,
        nano_cpus=view.nano_cpus,
        cpu_quota=view.cpu_quota,
        cpu_period=view.cpu_period,
        cgroup_parent=view.cgroup_parent,
    )


def limited_in_cpus(view: ContainerView) -> ContainerView:
    """Return a view whose limit is a quota, with the same limit in CPUs."""
    if view.cpu_quota <= 0:
        return view
    nano_cpus = round(view.cpu_quota * NANO / (view.cpu_period or _PERIOD))
    return msgspec.structs.replace(view, nano_cpus=nano_cpus, cpu_quota=0)


def cpu_limit(originals: Originals) -> float:
    """Return the CPU limit in CPUs, from nano CPUs or from quota and period; 0 if there is none."""
    if originals.nano_cpus > 0:
        return originals.nano_cpus / NANO
    if originals.cpu_quota > 0:
        return originals.cpu_quota / (originals.cpu_period or _PERIOD)
    return 0.0
