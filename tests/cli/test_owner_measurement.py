"""A measurement that is ended from outside ends as at Ctrl-C: the kernel would go on tracing for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from sidecar.cli.owner_measurement import Measured, departures_from, interrupted_by
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.reconcile import begin
from sidecar.disturbance.account import ExclusiveCPUs
from sidecar.disturbance.disturbance_report import Method, Report
from sidecar.status.describe import status_of
from sidecar.status.status_file import write_status
from state.cpuset import CPUSet
from state.model import State
from state.topology import uniform
from tests.cli.worlds import STATIC, container, world

ENDING = (signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize("number", ENDING)
def test_what_ends_it_interrupts_it(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interrupted_by(*ENDING):
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupted_by(*ENDING):
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


MACHINE = uniform(cores=4)
DB, LOG = container("db", exclusive=1), container("log")


def departures(directory: Path) -> Callable[[], Mapping[str, str]]:
    """Return what tells whether db, which is on CPU 1 of this status, departs."""
    status = status_of(world(MACHINE, DB, LOG))
    write_status(directory, status)
    [db] = [each for each in status.containers if each.granted]
    return departures_from(str(directory), [ExclusiveCPUs(db.id, db.name, db.granted)], status.containers)


@pytest.mark.parametrize(
    ("views", "told"),
    [
        ((LOG,), "ended"),
        ((replace(DB, phase=Phase.EXITED), LOG), "ended"),
        ((replace(DB, phase=Phase.RESTARTING), LOG), ""),
        ((replace(DB, labels={"cpuset.exclusive": "2"}), LOG), "has CPUs 1-2 now"),
        ((replace(DB, labels={}), LOG), "has no CPUs of its own any more"),
        ((DB, container("other", exclusive=1)), ""),
    ],
    ids=["gone", "over", "restarting", "larger", "no owner", "another one comes"],
)
def test_an_owner_departs_when_it_ends_or_has_other_cpus(
    tmp_path: Path, views: tuple[ContainerView, ...], told: str
) -> None:
    ask = departures(tmp_path)
    assert ask() == {}
    write_status(tmp_path, status_of(world(MACHINE, *views)))
    assert ask() == ({DB.id: told} if told else {})
    assert ask() == ask()


def test_what_does_not_run_is_measured_to_the_end(tmp_path: Path) -> None:
    """It was an owner that did not run before."""
    status = status_of(world(MACHINE, DB, LOG))
    [db] = [each for each in status.containers if each.granted]
    idle = tuple(replace(each, phase=Phase.EXITED.value) for each in status.containers)
    ask = departures_from(str(tmp_path), [ExclusiveCPUs(db.id, db.name, db.granted)], idle)
    write_status(tmp_path, replace(status, containers=idle))
    assert ask() == {}


def test_a_status_that_is_not_there_tells_of_no_departure(tmp_path: Path) -> None:
    """Nor one of a daemon that has not looked at everything yet."""
    ask = departures(tmp_path)
    write_status(tmp_path, status_of(begin(State(), MACHINE, STATIC)))
    assert ask() == {}
    (tmp_path / "status.json").unlink()
    assert ask() == {}


def test_a_program_is_told_in_the_notes_that_no_daemon_vouches() -> None:
    report = Report(method=Method.TRACE, seconds=1.0, containers=(), notes=("first",))
    assert Measured(report, CPUSet(), "").noted is report
    assert Measured(report, CPUSet(), "no daemon runs").noted.notes == ("first", "no daemon runs")
