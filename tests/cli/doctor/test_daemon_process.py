"""Doctor asks the daemon's own process what it may do, whatever its number is where it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.cli.doctor.cmd_doctor import examine
from sidecar.cli.doctor.daemon_process import DAC_OVERRIDE, SYS_NICE, AskedProcess, find_daemon
from sidecar.cli.doctor.host_checks import EngineReport, Finding, Verdict
from sidecar.commit.state_lock import NAME, hold_lock
from sidecar.config.config import Config
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import replace
from sidecar.hand.urgency import Urgency
from sidecar.host.cgroup.host_kernel import HostKernel
from sidecar.status.describe import status_of
from sidecar.status.status_file import write_status
from sidecar.status.status_lease import renew_status_lease
from sidecar.words.hands import MOUNT, unwritable
from tests.cli.worlds import ENGINE
from tests.support.decide.stories import Story
from tests.support.hand.stages import v2_stage

_PROGRAM = """
import ctypes, struct, sys
from sidecar.commit.state_lock import hold_lock
from sidecar.hand.urgency import hurry
with hold_lock(sys.argv[1]):
    if "hurry" in sys.argv:
        hurry()
    if "bare" in sys.argv:
        ctypes.CDLL(None).capset(struct.pack("Ii", 0x20080522, 0), bytes(24))
    print("ready", flush=True)
    sys.stdin.read()
"""


@contextmanager
def a_daemon(state: Path, *, hurries: bool = False, is_bare: bool = False) -> Iterator[int]:
    """Hold the lock in another process, and yield its number."""
    words = [str(state), *["hurry"] * hurries, *["bare"] * is_bare]
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.send_signal(signal.SIGKILL)


def test_it_is_found_by_the_lock_that_it_holds(tmp_path: Path) -> None:
    """And not by the number in that file, which may be one of another namespace."""
    assert find_daemon(str(tmp_path), is_running=False) == AskedProcess()
    with a_daemon(tmp_path) as process:
        (tmp_path / NAME).write_text("1\n")
        asked = find_daemon(str(tmp_path), is_running=True)
        assert asked == AskedProcess(f"/proc/{process}", process, is_running=True)
        assert asked.root == f"/proc/{process}/root"
        assert asked.user == os.geteuid()
    assert find_daemon(str(tmp_path), is_running=True) == AskedProcess(is_running=True)


def test_one_that_only_has_the_file_open_is_not_the_daemon(tmp_path: Path) -> None:
    """Commands ask for a daemon so."""
    with hold_lock(str(tmp_path)):
        pass
    with open(tmp_path / NAME, encoding="ascii"):
        assert find_daemon(str(tmp_path), is_running=True).daemon == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to lose")
def test_its_own_rights_are_told(tmp_path: Path) -> None:
    """This process, which asks, has all of them."""
    with a_daemon(tmp_path, is_bare=True):
        asked = find_daemon(str(tmp_path), is_running=True)
        assert not asked.may(SYS_NICE)
        assert not asked.may(DAC_OVERRIDE)
        assert asked.urgency() is Urgency.ORDINARY
        assert asked.library().path is None


def test_the_priority_is_that_of_its_threads(tmp_path: Path) -> None:
    """Where it may have one and has none, nothing answers births."""
    with a_daemon(tmp_path):
        asked = find_daemon(str(tmp_path), is_running=True)
        assert asked.urgency() is (None if asked.may(SYS_NICE) else Urgency.ORDINARY)
    with a_daemon(tmp_path, hurries=True) as process:
        asked = find_daemon(str(tmp_path), is_running=True)
        assert asked.daemon == process
        assert (asked.urgency() in (Urgency.REAL_TIME, Urgency.RAISED)) == asked.may(SYS_NICE)


def test_a_report_goes_by_the_daemon_that_runs(tmp_path: Path) -> None:
    """This command could write the cgroups, and the daemon says that it cannot."""
    state = tmp_path / "state"
    world = replace(Story().world, handless=unwritable("/sys/fs/cgroup"))
    with v2_stage(tmp_path, None) as stage, a_daemon(state, is_bare=True) as process:
        config = Config(policy=PolicyName.STATIC, cgroup=str(stage.root), state_dir=str(state), projections=str(state))

        def told() -> dict[str, Finding]:
            report = EngineReport(engine=ENGINE)
            return {each.question: each for each in examine(config, HostKernel(cgroup=config.cgroup), lambda _: report)}

        found = told()
        assert found["births"].verdict is Verdict.OK, "it has told nothing yet"
        for each in ("urgency", "modes"):
            assert (found[each].verdict, f"process {process}" in found[each].says) == (Verdict.WARN, True)
        write_status(state, status_of(world))
        renew_status_lease(state, time.time())
        found = told()
        assert MOUNT in found["births"].says
        assert "urgency" not in found
