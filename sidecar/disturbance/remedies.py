"""What would make an owner's CPUs quiet, as `doctor --quiet --json` prints it: each switch with all that it silences.
Pure.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec

from sidecar.disturbance.advice import STOLEN, Switch, switches
from sidecar.disturbance.disturbance_report import Disturbed, Disturber, Method, Report
from sidecar.disturbance.switch_positions import Positions


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """A switch, what it would silence, and how often and for how many milliseconds that ran; None: not known."""

    silences: tuple[str, ...]
    count: int
    total_ms: float | None
    command: str
    needs_reboot: bool
    says: str


class QuietReport(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement of an owner, and its remedies, the one that silences most first."""

    method: Method
    seconds: float
    container: Disturbed
    remedies: tuple[Remedy, ...]
    notes: tuple[str, ...] = ()


def quiet_report(report: Report, now: Positions) -> QuietReport:
    """Return the remedies for the one owner of this report."""
    [owner] = report.containers
    return QuietReport(
        method=report.method,
        seconds=report.seconds,
        container=owner,
        remedies=remedies(owner, now),
        notes=report.notes,
    )


def remedies(owner: Disturbed, now: Positions) -> tuple[Remedy, ...]:
    """Return each switch once, with all that it silences. A disturber with two switches is in both."""
    found: defaultdict[Switch, list[Disturber]] = defaultdict(list)
    for one in owner.by:
        for switch in switches(one, owner.cpus, now):
            found[switch].append(one)
    made = [
        Remedy(
            silences=tuple(named(one) for one in ones),
            count=sum(one.count for one in ones),
            total_ms=None if all(one.total_ms is None for one in ones) else sum(one.total_ms or 0 for one in ones),
            command=switch.command,
            needs_reboot=switch.needs_reboot,
            says=switch.says,
        )
        for switch, ones in found.items()
    ]
    if owner.stolen_ms:
        stolen = Remedy(
            silences=("a hypervisor",),
            count=0,
            total_ms=owner.stolen_ms,
            command=STOLEN.command,
            needs_reboot=STOLEN.needs_reboot,
            says=STOLEN.says,
        )
        made.append(stolen)
    return tuple(sorted(made, key=lambda each: (-(each.total_ms or 0), -each.count, each.silences, each.command)))


def named(one: Disturber) -> str:
    """Return what a disturber is, for people."""
    return f"{one.kind} {one.name}" + (f" ({one.of})" if one.of else "")
