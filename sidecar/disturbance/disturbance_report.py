"""What disturbed owners, as `disturbed --json` prints it: docs/reference/commands.md. Times are in milliseconds."""

from __future__ import annotations

import enum

import msgspec

from sidecar.disturbance.trace_lines import RunnerKind
from state.cpuset import CPUSet


class Method(enum.StrEnum):
    """How it was measured: by the kernel's trace of each event, or by its counters, which know nothing of processes."""

    TRACE = "trace"
    COUNTERS = "counters"


class Disturber(msgspec.Struct, frozen=True, kw_only=True):
    """Something that ran on an owner's CPUs: its kind, its name, and the container, unit or group it belongs to (`of`).

    `count` is how often it was switched in, or how often the handler ran; `longest_ms` without what interrupted it. By
    counters, only `count` is known. `is_bound`: a kernel thread that the kernel moves to no other CPU.
    """

    kind: RunnerKind
    name: str
    of: str = ""
    count: int
    total_ms: float | None = None
    longest_ms: float | None = None
    cpus: CPUSet
    is_bound: bool = False


class DisturberLine(Disturber, frozen=True, kw_only=True):
    """A disturber on a line of its own, with the name of the container that it disturbed."""

    owner: str


class Disturbed(msgspec.Struct, frozen=True, kw_only=True):
    """An owner, its CPUs, and what ran there that was not its own, the most first.

    `foreign_ms` is what all of it took, and `share` of all its CPUs' time (0 to 1). For `waited_ms` its tasks were
    ready and had to wait for a CPU, also for each other; for `stolen_ms` a hypervisor ran something else. `lost` trace
    events are not in the account. None: not known. `seconds` is how long it was measured, if not as long as the others:
    until it ended, or had other CPUs.
    """

    id: str
    name: str
    cpus: CPUSet
    foreign_ms: float | None
    share: float | None
    waited_ms: float | None
    stolen_ms: float
    lost: int
    by: tuple[Disturber, ...]
    seconds: float | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement of some seconds. `notes` say what could not be seen, and why."""

    method: Method
    seconds: float
    containers: tuple[Disturbed, ...]
    notes: tuple[str, ...] = ()
