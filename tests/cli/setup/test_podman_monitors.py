"""Podman's containers that run under a runtime, by their monitors."""

from __future__ import annotations

from pathlib import Path

from sidecar.cli.setup.podman_monitors import monitored

OURS = "/usr/local/bin/cpuset-runc"
ID = "a" * 64


def process(proc: Path, pid: str, *words: str) -> None:
    (proc / pid).mkdir(parents=True)
    (proc / pid / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))


def monitor(proc: Path, pid: str, runtime: str, *name: str) -> None:
    process(proc, pid, "/usr/bin/conmon", "--api-version", "1", "-c", ID, "-u", ID, "-r", runtime, *name, "--exit-dir")


def test_a_running_container_is_found_without_podman(tmp_path: Path) -> None:
    """By its name, or by its id if the monitor has none."""
    monitor(tmp_path, "10", OURS, "-n", "voice")
    monitor(tmp_path, "11", OURS)
    assert monitored(OURS, str(tmp_path)) == ["a" * 12, "voice"]


def test_another_runtime_and_another_program_do_not_count(tmp_path: Path) -> None:
    monitor(tmp_path, "10", "/usr/bin/runc", "-n", "plain")
    process(tmp_path, "11", "/usr/bin/less", "-r", OURS)
    process(tmp_path, "12")
    (tmp_path / "13").mkdir()
    (tmp_path / "self").mkdir()
    assert monitored(OURS, str(tmp_path)) == []


def test_a_flag_at_the_end_has_no_value(tmp_path: Path) -> None:
    process(tmp_path, "10", "conmon", "-c", ID, "-r")
    assert monitored(OURS, str(tmp_path)) == []
