"""What a modelled engine can be asked to change: the rules of Docker's update route, in its own words. Pure.

Measured on Docker 20.10.24; the contract suite checks the same cases against a real engine. "Non-zero wins": an empty
text or a zero changes nothing, so a cpuset can never be cleared.
"""

from __future__ import annotations

from typing import Final

import msgspec

from sidecar.decide.orders import Update
from sidecar.failures import EngineRefused
from state.cpuset import EMPTY, CPUSet
from state.errors import CPUSetError

NANO: Final = 1_000_000_000
_PERIOD: Final = 100_000
"""Microseconds: the kernel's default CFS period, which the engine uses for `NanoCpus`."""
_MILLISECOND: Final = 1_000
_SECOND: Final = 1_000_000
_HIGHEST: Final = 8192


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The stored limits of a container, in the engine's units; also a change to them."""

    cpuset: str = ""
    mems: str = ""
    nano_cpus: int = 0
    cpu_quota: int = 0
    cpu_period: int = 0
    memory: int = 0
    memory_reservation: int = 0


class Present(msgspec.Struct, frozen=True):
    """What this machine has, as the engine sees it: its CPU count, the CPUs and memory nodes that it checks against."""

    ncpu: int
    cpus: CPUSet
    mems: CPUSet


def changed(update: Update) -> Limits:
    """Return the change that an order asks of the update route."""
    return Limits(
        cpuset=str(update.cpus),
        mems=update.mems or "",
        nano_cpus=update.nano_cpus or 0,
        cpu_quota=update.cpu_quota or 0,
    )


def check(wanted: Limits, present: Present) -> None:
    """Check that limits are possible on this machine. Raise EngineRefused in the engine's words (400)."""
    if wanted.nano_cpus < 0 or wanted.nano_cpus > present.ncpu * NANO:
        raise EngineRefused(
            f"Range of CPUs is from 0.01 to {present.ncpu}.00, as there are only {present.ncpu} CPUs available"
        )
    if wanted.cpu_period and not _MILLISECOND <= wanted.cpu_period <= _SECOND:
        raise EngineRefused("CPU cfs period can not be less than 1ms (i.e. 1000) or larger than 1s (i.e. 1000000)")
    if 0 < wanted.cpu_quota < _MILLISECOND:
        raise EngineRefused("CPU cfs quota can not be less than 1ms (i.e. 1000)")
    _check_list(wanted.cpuset, present.cpus, "CPUs", "cpus")
    _check_list(wanted.mems, present.mems, "memory nodes", "mems")


def merged(stored: Limits, change: Limits, container: str) -> Limits:
    """Return the stored limits after a change. Raise EngineRefused if two ways to limit CPU time would meet (409).

    The engine looks for conflicts only in positive values; so -1 slips through and stays beside `NanoCpus` permanently.
    """
    conflict = _conflict(stored, change)
    if conflict:
        raise EngineRefused(f"Cannot update container {container}: Conflicting options: {conflict}")
    return Limits(
        cpuset=change.cpuset or stored.cpuset,
        mems=change.mems or stored.mems,
        nano_cpus=change.nano_cpus or stored.nano_cpus,
        cpu_quota=change.cpu_quota or stored.cpu_quota,
        cpu_period=change.cpu_period or stored.cpu_period,
        memory=change.memory or stored.memory,
        memory_reservation=change.memory_reservation or stored.memory_reservation,
    )


def quota_at_start(stored: Limits) -> float | None:
    """Return the CPUs' worth of time after a start, None without a limit: the stored quota overrides `NanoCpus`."""
    quota, period = 0, _PERIOD
    if stored.nano_cpus > 0:
        quota = stored.nano_cpus * period // NANO
    quota, period = stored.cpu_quota or quota, stored.cpu_period or period
    return quota / period if quota > 0 else None


def quota_after(change: Limits, stored: Limits, live: float | None) -> float | None:
    """Return the same for a running container after a change: the change counts, whatever else is stored."""
    if change.nano_cpus:
        return change.nano_cpus / NANO
    if change.cpu_quota or change.cpu_period:
        return quota_at_start(stored)
    return live


def _conflict(stored: Limits, change: Limits) -> str:
    if change.nano_cpus > 0 and stored.cpu_period > 0:
        return "Nano CPUs cannot be updated as CPU Period has already been set"
    if change.nano_cpus > 0 and stored.cpu_quota > 0:
        return "Nano CPUs cannot be updated as CPU Quota has already been set"
    if change.cpu_quota > 0 and stored.nano_cpus > 0:
        return "CPU Quota cannot be updated as NanoCPUs has already been set"
    if change.cpu_period > 0 and stored.nano_cpus > 0:
        return "CPU Period cannot be updated as NanoCPUs has already been set"
    return ""


def _check_list(text: str, present: CPUSet, what: str, field: str) -> None:
    try:
        wanted = CPUSet.parse(text)
    except CPUSetError as error:
        numbers = text.replace("-", ",").split(",")
        if all(number.isdecimal() for number in numbers) and max(int(number) for number in numbers) >= _HIGHEST:
            reason = f"value of out range, maximum is {_HIGHEST}"
        else:
            reason = f"invalid format: {text}"
        raise EngineRefused(f"Invalid value {text} for cpuset {field}: {reason}") from error
    if wanted != EMPTY and not wanted <= present:
        raise EngineRefused(f"Requested {what} are not available - requested {text}, available: {present}")
