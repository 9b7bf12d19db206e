"""The command `exec` with `--wait alone`: the program starts once its CPUs are its own, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from state.cpuset import CPUSet
from tests.workload.execs import (
    EVERY,
    PATIENCE_SECONDS,
    Told,
    complaint,
    descendants,
    executing,
    line,
    needs_two_cpus,
)

FIRST = CPUSet.of(EVERY.lowest())


@pytest.fixture
def projection(tmp_path: Path) -> Told:
    return Told(tmp_path / "projections")


@needs_two_cpus
def test_it_starts_the_program_only_once_it_is_alone(projection: Told) -> None:
    """Until then it says what it waits for. The number of CPUs is that of the CPUs on which it is alone."""
    projection.tell_of(EVERY, alone=False)
    show = ("sh", "-c", "echo $GOMAXPROCS; sleep 1000")
    with executing(*show, options=("--wait", "alone", "--dir", projection.directory)) as process:
        assert "waiting to be alone: " in complaint(process)
        assert not list(descendants(process.pid))
        projection.tell_of(FIRST, alone=True)
        assert line(process) == "1"


def test_what_never_comes_ends_it_without_the_program(projection: Told) -> None:
    """At once, with 1 and the reason."""
    projection.tell_of(EVERY, alone=False, never_alone=True)
    with executing("echo", "started", options=("--wait", "alone", "--dir", projection.directory)) as process:
        assert process.wait(PATIENCE_SECONDS) == 1
        assert line(process) == ""
        assert complaint(process) == "cpuset-sidecar exec: never alone: as it was decided"


def test_what_does_not_come_in_time_ends_it_too(projection: Told) -> None:
    projection.tell_of(EVERY, alone=False)
    wait = ("--wait", "alone", "--timeout", "0.2")
    with executing("echo", "started", options=(*wait, "--dir", projection.directory)) as process:
        assert process.wait(PATIENCE_SECONDS) == 1
        assert line(process) == ""
        assert process.stderr
        assert "not alone in time: as it was decided" in process.stderr.read()


def test_a_dead_daemons_word_does_not_start_the_program(projection: Told) -> None:
    projection.tell_of(EVERY, alone=True)
    os.utime(projection.directory / "lease", (0, 0))
    wait = ("--wait", "alone", "--timeout", "0.3")
    with executing("echo", "started", options=(*wait, "--dir", projection.directory)) as process:
        assert process.wait(PATIENCE_SECONDS) == 1
        assert "does not vouch" in complaint(process)


def test_where_no_projection_can_come_the_program_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a host without `--dir`; without a condition it starts all the same."""
    monkeypatch.delenv("CPUSET_SIDECAR_DIR", raising=False)
    monkeypatch.setenv("HOSTNAME", "pc")
    with executing("echo", "started", options=("--wait", "alone")) as process:
        assert process.wait(PATIENCE_SECONDS) == 1
        assert complaint(process).startswith("cpuset-sidecar exec: never alone: there is no projection directory")
    with executing("echo", "started", options=("--wait", "0.1")) as process:
        assert line(process) == "started"


def test_a_timeout_without_a_condition_is_wrong_usage(projection: Told) -> None:
    with executing("echo", options=("--wait", "1", "--timeout", "1", "--dir", projection.directory)) as process:
        assert process.wait(PATIENCE_SECONDS) == 2
