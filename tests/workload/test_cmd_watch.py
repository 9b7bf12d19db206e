"""The command `watch`, as a process of its own."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
import pytest

from sidecar.config.config import Config
from sidecar.config.running_settings import write_settings
from sidecar.projection.projections import Projections
from sidecar.workload import cmd_watch
from sidecar.workload.gates import Until
from state.cpuset import CPUSet
from state.projection import Projection, Reading, Sharing
from tests.support.schemas import misfits

A, B = "a" * 64, "b" * 64
PROGRAM = """
import argparse, sys
from sidecar.workload import cmd_watch
parser = argparse.ArgumentParser(prog="cpuset-sidecar")
cmd_watch.add_parser(parser.add_subparsers())
arguments = parser.parse_args(sys.argv[1:])
sys.exit(arguments.func(arguments))
"""


def told(cpus: str, *, settled: bool = True, alone: bool | None = None) -> Projection:
    return Projection(
        container=A,
        name="voice",
        sharing=Sharing.EXCLUSIVE,
        cpus=CPUSet.parse(cpus),
        settled=settled,
        alone=settled if alone is None else alone,
    )


@pytest.fixture
def projections(tmp_path: Path) -> Projections:
    return Projections(tmp_path, clock=time.time, lease_seconds=3600)


@contextmanager
def watching(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run the command as a process, killed at the end if it still runs."""
    command = [sys.executable, "-W", "error", "-c", PROGRAM, "watch", *map(str, arguments)]
    pipe = subprocess.PIPE
    # Tests that run in the background ignore Ctrl-C, and a child would inherit that.
    hear = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=hear) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    """Return the next line, waited for."""
    assert process.stdout
    return process.stdout.readline().rstrip("\n")


def complaint(process: subprocess.Popen[str]) -> str:
    """Return the next line on stderr, waited for."""
    assert process.stderr
    return process.stderr.readline().rstrip("\n")


def test_each_change_is_a_line_and_an_interrupt_is_clean(projections: Projections, tmp_path: Path) -> None:
    projections.write(A, [], told("2-3", settled=False))
    with watching(tmp_path / "by-id" / A[:12]) as process:
        assert line(process)[12:] == "  exclusive  cpus 2-3  not settled"
        projections.write(A, [], told("2-3"))
        assert line(process)[12:] == "  exclusive  cpus 2-3  alone"
        projections.write(A, [], told("3-5"))
        assert line(process)[12:] == "  exclusive  cpus 3-5  +4-5  -2  alone"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert complaint(process) == ""


def test_a_containers_name_goes_before_a_directory_of_that_name(
    projections: Projections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory can be said with a slash."""
    projections.write(A, ["voice"], told("2-3"))
    (tmp_path / "here" / "voice").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    with watching("--projections", tmp_path, "voice") as process:
        assert "cpus 2-3" in line(process)


def test_a_name_that_no_container_uses_any_more_is_told(projections: Projections, tmp_path: Path) -> None:
    """The last line is not that of a container that is gone."""
    projections.write(A, ["voice"], told("2-3"))
    projections.retain(())
    with watching(tmp_path / "by-name" / "voice") as process:
        assert "unmanaged  cpus   was not settled  unvouched" in line(process)


def test_a_container_that_is_gone_is_told_though_its_directory_went_with_it(
    projections: Projections, tmp_path: Path
) -> None:
    """One that is watched by its id has no directory by name that stays."""
    projections.write(A, [], told("2-3"))
    with watching(tmp_path / "by-id" / A[:12]) as process:
        assert "exclusive" in line(process)
        projections.retain(())
        lines = [line(process)]
        while "unmanaged" not in lines[-1]:
            lines.append(line(process))
        assert "unmanaged  cpus   -2-3  not settled  (no container uses this projection now)" in lines[-1]


def test_what_a_workload_wrote_controls_no_terminal(
    projections: Projections, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its directory may be its own: a reason with escape codes, line ends and marks of direction is one plain line, and
    so is what is told of it on stderr.
    """
    hostile = "\x1b]0;owned\x07\r\n2026 forged\u2028\u202e"
    projections.write(A, ["voice"], msgspec.structs.replace(told("1-2"), reason=hostile))
    assert cmd_watch.run(str(tmp_path / "by-name/voice"), as_json=False, until=Until.SETTLED) == 0
    shared = msgspec.structs.replace(told("1-2", alone=False), sharing=Sharing.SHARED, reason=hostile)
    projections.write(A, ["voice"], shared)
    assert cmd_watch.run(str(tmp_path / "by-name/voice"), as_json=False, until=Until.ALONE, timeout=0.01) == 1
    out, err = capsys.readouterr()
    assert "forged" in out
    assert "forged" in err
    for text in (out, err):
        assert all(line.isprintable() for line in text.split("\n"))


def test_json_is_the_whole_state(projections: Projections, tmp_path: Path) -> None:
    projections.write(A, [], told("2-3"))
    directory = tmp_path / "by-id" / A[:12]
    with watching("--json", directory) as process:
        told_in_full = {**json.loads((directory / "status.json").read_bytes()), "vouched": True}
        shown = line(process)
        assert json.loads(shown) == told_in_full
        assert misfits("reading", shown) == []


def test_a_directory_that_is_not_there_yet_is_waited_for_aloud(projections: Projections, tmp_path: Path) -> None:
    with watching(tmp_path / "by-id" / A[:12]) as process:
        assert complaint(process).endswith("waiting for it")
        projections.write(A, [], told("2"))
        assert line(process)[12:] == "  exclusive  cpus 2  alone"


def test_a_file_is_wrong_usage(projections: Projections, tmp_path: Path) -> None:
    projections.write(A, [], told("2"))
    with watching(tmp_path / "by-id" / A[:12] / "cpuset") as process:
        assert process.wait(20) == 2
        assert "is not a directory" in complaint(process)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to step down from it")
def test_a_directory_that_may_not_be_entered_is_told(projections: Projections, tmp_path: Path) -> None:
    """Waiting would not help."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    # What is imported only then may lie where that user may not read.
    step_down = f"import difflib, os; os.chdir({str(tmp_path)!r}); os.setuid(65534)\n"
    tmp_path.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("parser = ", step_down + "parser = "), "watch", "closed"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 1
    assert "permission denied" in done.stderr


def test_a_reader_that_has_seen_enough_is_no_error(projections: Projections, tmp_path: Path) -> None:
    projections.write(A, [], told("2"))
    with watching(tmp_path / "by-id" / A[:12]) as process:
        assert process.stdout
        assert line(process)
        process.stdout.close()
        projections.write(A, [], told("3"))
        assert process.wait(20) == 0
        assert complaint(process) == ""


def test_a_line_says_what_is_coming_and_why() -> None:
    now = Reading(
        sharing=Sharing.EXCLUSIVE,
        cpus=CPUSet.parse("2-5"),
        leaving=CPUSet.parse("4-5"),
        arriving=CPUSet.of(8),
        deadline_seconds=1.5,
        reason="voice-2 has a floor",
    )
    assert cmd_watch.change_line(now, None, datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)) == (
        "03:04:05.678  exclusive  cpus 2-5  arriving 8  leaving 4-5 within 1.5 s  was not settled  unvouched  "
        "(voice-2 had a floor)"
    )


def test_the_parser_hands_over_what_it_read(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def run(directory: str, as_json: bool, until: Until | None, timeout: float, _: object) -> int:
        seen.append((directory, as_json, until, timeout))
        return 0

    monkeypatch.setattr(cmd_watch, "run", run)
    monkeypatch.setenv("CPUSET_SIDECAR_DIR", "/own")
    parser = argparse.ArgumentParser()
    cmd_watch.add_parser(parser.add_subparsers())
    for words in (["watch"], ["watch", "/x", "--json", "--until", "settled", "--timeout", "5"]):
        arguments = parser.parse_args(words)
        assert arguments.func(arguments) == 0
    assert seen == [("/own", False, None, math.inf), ("/x", True, Until.SETTLED, 5.0)]


def test_it_ends_once_the_workload_is_alone(tmp_path: Path, projections: Projections) -> None:
    """The gate of an entrypoint: no work begins before its CPUs are its own. Settled is not enough."""
    projections.write(A, (), told("2-3", settled=False))
    with watching(tmp_path / "by-id" / A[:12], "--until", "alone") as process:
        assert "not settled" in line(process)
        projections.write(A, (), told("2-3", alone=False))
        assert line(process)[12:] == "  exclusive  cpus 2-3  settled"
        projections.write(A, (), told("2-3"))
        assert "alone" in line(process)
        assert process.wait(20) == 0


def test_it_ends_once_cpus_are_granted_though_nothing_runs_yet(tmp_path: Path, projections: Projections) -> None:
    """The gate before a start: a container that does not run has no CPUs in force."""
    projections.write(A, (), Projection(container=A, sharing=Sharing.SHARED, reason="in the shared pool: 0 free"))
    with watching(tmp_path / "by-id" / A[:12], "--until", "granted", "--timeout", "60") as process:
        projections.write(A, (), Projection(container=A, sharing=Sharing.EXCLUSIVE, desired=CPUSet.of(2)))
        assert "exclusive" in line(process)
        assert process.wait(20) == 0


@pytest.mark.parametrize("until", Until)
def test_what_does_not_come_in_time_is_a_failure_with_the_reason(
    tmp_path: Path, projections: Projections, until: Until
) -> None:
    """It tells users why their service does not start."""
    projections.write(A, (), Projection(container=A, sharing=Sharing.SHARED, reason="in the shared pool: 0 free"))
    with watching(tmp_path / "by-id" / A[:12], "--until", until, "--timeout", "0.2") as process:
        assert process.wait(20) == 1
        assert process.stderr
        assert process.stderr.read() == f"cpuset-sidecar watch: not {until} in time: in the shared pool: 0 free\n"


@pytest.mark.parametrize("until", ["alone", "granted"])
def test_what_never_comes_is_a_failure_at_once(tmp_path: Path, projections: Projections, until: str) -> None:
    """There is no timeout: it would wait for good."""
    refused = Projection(
        container=A, cpus=CPUSet.of(0), settled=True, never_alone=True, reason="in the shared pool: no"
    )
    projections.write(A, (), refused)
    with watching(tmp_path / "by-id" / A[:12], "--until", until) as process:
        assert process.wait(20) == 1
        assert process.stderr
        assert process.stderr.read() == f"cpuset-sidecar watch: never {until}: in the shared pool: no\n"


def test_a_dead_daemons_word_opens_no_gate(tmp_path: Path, projections: Projections) -> None:
    """Nor does it end the wait: the next daemon says what is true."""
    directory = tmp_path / "by-id" / A[:12]
    projections.write(A, (), told("2-3"))
    os.utime(directory / "lease", (0, 0))
    with watching(directory, "--until", "alone") as process:
        assert line(process)[12:] == "  exclusive  cpus 2-3  was alone  unvouched"
        Projections(tmp_path, clock=time.time, lease_seconds=3600).write(A, (), told("2-3"))
        assert line(process)[12:] == "  exclusive  cpus 2-3  alone"
        assert process.wait(20) == 0


def test_a_limit_without_an_end_is_wrong_usage(tmp_path: Path) -> None:
    with watching(tmp_path, "--timeout", "5") as process:
        shown = process.communicate(timeout=20)
    assert (process.returncode, shown[0]) == (2, "")
    assert shown[1].startswith("usage: cpuset-sidecar watch ")


@pytest.mark.parametrize("name", ["voice", A[:8]])
def test_a_container_is_watched_by_its_name_or_id(tmp_path: Path, projections: Projections, name: str) -> None:
    projections.write(A, (), told("2"))
    with watching("--projections", tmp_path, name) as process:
        assert line(process)[12:] == "  exclusive  cpus 2  alone"


def test_a_name_that_no_container_has_is_told_at_once(tmp_path: Path, projections: Projections) -> None:
    projections.write(A, (), told("2"))
    with watching("--projections", tmp_path, "vioce") as process:
        assert process.wait(20) == 1
        assert complaint(process) == (
            "cpuset-sidecar watch: there is no container 'vioce'; did you mean 'voice'?; "
            "containers with a projection: voice"
        )


def test_without_any_projection_it_says_why_there_may_be_none(tmp_path: Path) -> None:
    """Under the policy none `status` lists containers that have no projection."""
    with watching("--projections", tmp_path, "voice") as process:
        assert process.wait(20) == 1
        assert complaint(process) == (
            f"cpuset-sidecar watch: there is no container 'voice' with a projection; there is no projection of any "
            f"container below {tmp_path}: the policy is none, or everything was released, or "
            "the daemon writes elsewhere"
        )


def test_a_dead_daemons_container_is_found_where_that_daemon_wrote(tmp_path: Path) -> None:
    """So a gate by a name outlasts a restart of the daemon, whose directories no other command was told."""
    Projections(tmp_path / "told", clock=time.time, lease_seconds=3600).write(A, (), told("2"))
    (tmp_path / "st").mkdir()
    write_settings(tmp_path / "st", Config(projections=str(tmp_path / "told")))
    with watching("--state-dir", tmp_path / "st", "voice") as process:
        assert line(process)[12:] == "  exclusive  cpus 2  alone"


def test_why_no_daemon_vouches_is_told_beside_the_line(tmp_path: Path) -> None:
    """On a host it can be seen; here none runs on the state directory."""
    Projections(tmp_path / "told", clock=lambda: 1.0, lease_seconds=15).write(A, (), told("2"))
    (tmp_path / "st").mkdir()
    write_settings(tmp_path / "st", Config(projections=str(tmp_path / "told")))
    why = f"no daemon is running on {tmp_path}/st, so none vouches for this"
    with watching("--state-dir", tmp_path / "st", "voice") as process:
        assert line(process)[12:] == "  exclusive  cpus 2  was alone  unvouched"
        assert complaint(process) == f"cpuset-sidecar watch: {why}"
    with watching("--state-dir", tmp_path / "st", "voice", "--until", "alone", "--timeout", "0.1") as process:
        assert complaint(process).startswith(f"cpuset-sidecar watch: not alone in time: {why}; its last word: ")


def test_on_a_host_it_asks_for_a_name_at_once(
    tmp_path: Path, projections: Projections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container the directory of its own ID may still come, so there it waits."""
    projections.write(A, (), told("2"))
    monkeypatch.delenv("CPUSET_SIDECAR_DIR", raising=False)
    monkeypatch.setenv("HOSTNAME", "pc")
    with watching("--projections", tmp_path) as process:
        assert process.wait(20) == 1
        said = complaint(process)
        assert "no container was named, and the host name 'pc' is not a container's ID" in said
        assert said.endswith("containers with a projection: voice")
    monkeypatch.setenv("HOSTNAME", B[:12])
    with watching("--projections", tmp_path) as process:
        assert complaint(process).endswith("waiting for it")
