"""The demo's elastic workload, run on a projection that changes under it, and judged by its own output; and the sizes
of the story that it plays in.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compose.demo.dynamic import ENOUGH, MOST, settings, sizes
from compose.demo.evidence import Line
from compose.demo.takes import away_spans, growths, intruders, takes, visits
from state.cpuset import CPUSet
from tests.workload.execs import EVERY, PATIENCE_SECONDS, ROOT, Told, eventually, needs_two_cpus

PROGRAM = ROOT / "compose" / "workloads" / "elastic.py"
LAST = CPUSet.of(max(EVERY))
REST = EVERY - LAST


class Elastic:
    """The running workload, and what it has written."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    def lines(self) -> list[Line]:
        """Return all complete lines of its output."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def kinds(self) -> list[str]:
        return [line["kind"] for line in self.lines() if line["kind"] != "ran"]

    def ran_on(self, cpus: CPUSet, since: int) -> bool:
        """Return whether it recorded that it ran there after that time."""
        return any(cpu in cpus and last > since for cpu, _, last, _ in visits(self.lines()))


@contextmanager
def running(tmp_path: Path, projection: Told, *flags: str) -> Iterator[Elastic]:
    """Run the workload, and end it as a container ends."""
    environment = {**os.environ, "CPUSET_SIDECAR_DIR": str(projection.directory), "PYTHONPATH": str(ROOT)}
    log = tmp_path / "log"
    words = [sys.executable, "-W", "error::SyntaxWarning", str(PROGRAM), *flags]
    with (
        log.open("wb") as sink,
        subprocess.Popen(words, stdout=sink, env=environment, start_new_session=True) as process,
    ):
        try:
            yield Elastic(process, log)
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE_SECONDS)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)


@needs_two_cpus
def test_it_leaves_says_so_and_comes_back(tmp_path: Path) -> None:
    """By its own records none of its processes is on a CPU between its acknowledgement and the return of that CPU."""
    projection = Told(tmp_path / "projections")
    projection.tell(EVERY)
    with running(tmp_path, projection) as workload:
        eventually(lambda: workload.ran_on(LAST, 0), "it works on all CPUs")
        projection.await_acknowledgement(projection.tell(EVERY, leaving=LAST))
        projection.tell(REST)
        eventually(lambda: len(takes(workload.lines())) == 1, "it says that it lost the CPU")
        now = time.monotonic_ns()
        eventually(lambda: workload.ran_on(REST, now), "it works on")
        projection.tell(EVERY)
        now = time.monotonic_ns()
        eventually(lambda: workload.ran_on(LAST, now), "it works on all CPUs again")
    lines = workload.lines()
    [take] = takes(lines)
    assert take.told is not None
    assert take.said is not None
    assert (take.cpus, take.notice) == (frozenset(LAST), 2.0)
    assert take.told <= take.said <= take.gone
    assert growths(lines) == 1
    assert intruders(lines, away_spans(lines, time.monotonic_ns())) == []
    assert workload.kinds() == ["started", "told", "told", "left", "acknowledged", "told", "told", "ended"]


@needs_two_cpus
def test_a_deaf_one_stays_and_says_nothing(tmp_path: Path) -> None:
    """It gets notice all the same, and goes on working where it was."""
    projection = Told(tmp_path / "projections")
    projection.tell(EVERY)
    with running(tmp_path, projection, "--deaf") as workload:
        projection.tell(EVERY, leaving=LAST)
        eventually(lambda: workload.kinds()[-1:] == ["told"], "it is told")
        now = time.monotonic_ns()
        eventually(lambda: workload.ran_on(LAST, now), "it is still there")
        assert projection.acknowledged() == ""
    assert set(workload.kinds()) == {"started", "told", "ended"}


def test_a_signal_is_told_and_does_not_end_it(tmp_path: Path) -> None:
    """The signal of the label cpuset.signal is a hint to look."""
    projection = Told(tmp_path / "projections")
    projection.tell(CPUSet.of(EVERY.lowest()))
    with running(tmp_path, projection) as workload:
        eventually(lambda: "told" in workload.kinds(), "it is told")
        workload.process.send_signal(signal.SIGHUP)
        eventually(lambda: workload.kinds()[-1:] == ["signalled"], "it says that it was sent a signal")
        now = time.monotonic_ns()
        eventually(lambda: workload.ran_on(EVERY, now), "it works on")
    assert workload.process.returncode == 0
    assert workload.kinds()[-1] == "ended"


@pytest.mark.parametrize("machine", [2, 3, 4, 5, 8, 13, 14, 96, 1024])
def test_the_story_fits_on_every_machine(machine: int) -> None:
    """The floors fit next to the arrival, for which CPUs must be taken back; the rest of a large machine stays
    shared.
    """
    chosen, variables = sizes(machine), settings(machine)
    assert chosen.room + int(variables["SHARED_MIN"]) == machine
    assert int(variables["SHARED_MIN"]) >= 1
    if machine < ENOUGH:
        assert chosen.room == 1
    else:
        assert 1 <= chosen.arrival <= chosen.room - 2
        assert 1 < chosen.server < chosen.room
        assert chosen.room <= MOST
