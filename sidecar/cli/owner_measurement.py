"""The measurement of `disturbed` and `doctor --quiet`: flags, the containers that are measured, and the headline."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec

from sidecar.cli.arguments import typed
from sidecar.decide.facts import Phase
from sidecar.disturbance.account import ExclusiveCPUs
from sidecar.disturbance.disturbance_report import Disturbed, Report
from sidecar.disturbance.measuring import measure
from sidecar.disturbance.trace_instance import PLACES
from sidecar.failures import SidecarError
from sidecar.natural_order import natural
from sidecar.readers import duration
from sidecar.status.document import ContainerStatus, Status
from sidecar.status.find_container import find
from sidecar.status.status_file import NAME, read_status
from sidecar.status.status_reader import read_last_status
from sidecar.words.counts import named
from state.cpuset import CPUSet, union
from state.errors import StateError

DEFAULT_SECONDS: Final = 10.0

_SECONDS: Final = (0.1, 3600.0)

_LIVE: Final = (Phase.RUNNING, Phase.PAUSED)
_OVER: Final = (Phase.EXITED, Phase.REMOVING, Phase.DEAD)


class Measured(NamedTuple):
    """A report, all CPUs that are exclusive, and why whose CPUs these are may be out of date ("" if it is not)."""

    report: Report
    exclusive: CPUSet
    outdated: str

    @property
    def noted(self) -> Report:
        """The report for a program: that it may be out of date is one of its notes."""
        notes = self.report.notes
        return msgspec.structs.replace(self.report, notes=(*notes, self.outdated)) if self.outdated else self.report


def add_measuring(parser: argparse.ArgumentParser, *, only: str = "") -> None:
    """Add the measurement's flags; `only` says with what they have a meaning. A flag that is not given is None."""
    parser.add_argument(
        "--seconds",
        type=typed("--seconds", duration(*_SECONDS)),
        metavar="N",
        help=f"{only}how long to measure, as 30, 500ms or 1m, at most 1h (default: {DEFAULT_SECONDS:g})",
    )
    parser.add_argument(
        "--tracefs",
        metavar="DIR",
        help=f"{only}where the kernel's tracefs is mounted (default: {' or '.join(PLACES)})",
    )


def measured(args: argparse.Namespace, state_dir: str, wanted: str | None) -> Measured | None:
    """Measure a container, or all exclusive ones. Return None after Ctrl-C, SIGTERM or SIGHUP, which stderr tells."""
    last = read_last_status(state_dir, time.time())
    owners = _owners(last.reading, wanted)
    names = {each.id: each.name for each in last.reading.containers}
    seconds = DEFAULT_SECONDS if args.seconds is None else args.seconds
    try:
        with interrupted_by(signal.SIGTERM, signal.SIGHUP):
            report = measure(
                owners,
                names,
                seconds,
                tracefs=(args.tracefs,) if args.tracefs else PLACES,
                progress=_progress(seconds),
                departures=departures_from(state_dir, owners, last.reading.rows),
            )
    except KeyboardInterrupt:
        sys.stderr.write("cpuset-sidecar: interrupted: nothing was measured\n")
        return None
    return Measured(report, union(each.granted for each in last.reading.rows), last.outdated)


@contextmanager
def interrupted_by(*signals: signal.Signals) -> Iterator[None]:
    """Have these signals end the block as Ctrl-C does: the kernel would go on tracing."""
    before = {each: signal.getsignal(each) for each in signals}
    heeded = [each for each in signals if before[each] is not signal.SIG_IGN]
    for each in heeded:
        signal.signal(each, signal.default_int_handler)
    try:
        yield
    finally:
        for each in heeded:
            signal.signal(each, before[each])


def exit_code(done: Measured) -> int:
    """Return 0, or 1 after a line on stderr if no daemon vouches for whose CPUs these are."""
    if done.outdated:
        sys.stderr.write(f"cpuset-sidecar: {done.outdated}\n")
        return 1
    return 0


def _owners(status: Status, wanted: str | None) -> Sequence[ExclusiveCPUs]:
    """Return the containers to measure. SidecarError if there is none."""
    if wanted is not None:
        found = find(status.rows, wanted)
        if not _is_owner(found):
            raise SidecarError(f"{found.name} has no CPUs of its own: `cpuset-sidecar explain {found.name}` tells why")
        return (_owner(found),)
    owners = [_owner(each) for each in status.rows if _is_owner(each)]
    if not owners:
        raise SidecarError("no container has CPUs of its own, so none can be disturbed")
    return sorted(owners, key=lambda each: natural(each.name))


def _is_owner(each: ContainerStatus) -> bool:
    return bool(each.granted)


def _owner(each: ContainerStatus) -> ExclusiveCPUs:
    return ExclusiveCPUs(each.id, each.name, each.granted)


def departures_from(
    state_dir: str, owners: Sequence[ExclusiveCPUs], before: Collection[ContainerStatus]
) -> Callable[[], Mapping[str, str]]:
    """Return what tells which of these owners ran `before` and have ended, or have other CPUs, by the status: that is
    read again when it has changed. A status that is not there, or not complete yet, tells of none.
    """
    ran = {each.id for each in before if each.phase in _LIVE}
    read_at: tuple[int, int] | None = None
    told: Mapping[str, str] = {}

    def departures() -> Mapping[str, str]:
        nonlocal read_at, told
        try:
            seen = os.stat(os.path.join(state_dir, NAME))
            if (stamp := (seen.st_mtime_ns, seen.st_ino)) != read_at:
                status, read_at = read_status(state_dir), stamp
                if status.is_ready:
                    now = {each.id: each for each in status.rows}
                    reasons = {each.id: _departure(each, now.get(each.id), ran) for each in owners}
                    told = {key: why for key, why in reasons.items() if why}
        except (OSError, StateError):
            return told
        return told

    return departures


def _departure(owner: ExclusiveCPUs, now: ContainerStatus | None, ran: Collection[str]) -> str:
    if now is None or (owner.id in ran and now.phase in _OVER):
        return "ended"
    if now.granted != owner.cpus:
        return f"has {named(now.granted)} now" if now.granted else "has no CPUs of its own any more"
    return ""


def _progress(seconds: float) -> Callable[[float], None]:
    """Return what shows on a terminal that the measurement goes on."""
    if not sys.stderr.isatty():
        return lambda _: None

    def show(left: float) -> None:
        said = f"measuring, {left:.0f} of {seconds:g} s left" if left > 0 else ""
        sys.stderr.write(f"\r\x1b[K{said}")
        sys.stderr.flush()

    return show


def headline(each: Disturbed, report: Report) -> str:
    """Return what all of it amounts to."""
    said = [f"{each.name}, {named(each.cpus)}, {each.seconds or report.seconds:.1f} s"]
    if each.foreign_ms is not None and each.share is not None:
        said.append(f"others ran there for {in_ms(each.foreign_ms)} ms ({_percent(each.share)})")
    if each.waited_ms is not None:
        said.append(f"it waited {in_ms(each.waited_ms)} ms for a CPU")
    if each.stolen_ms:
        said.append(f"a hypervisor took {in_ms(each.stolen_ms)} ms")
    return "; ".join(said)


def in_ms(value: float | None) -> str:
    """Return milliseconds with the digits that matter; a dash if they are not known."""
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 1 else f"{value:.1f}"


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
