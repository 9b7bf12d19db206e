"""Strict start on a real engine: on its CPUs from the first instruction, or not at all, with the reason."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.live.kernelview import quota_of
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.stricthost import STAY, Docker, docker, first_cpus, is_unthrottled, shell
from tests.live.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.live, pytest.mark.slow]

__all__ = ["docker"]


def test_it_begins_on_its_own_cpus_without_a_quota_and_with_its_projection(
    docker: Docker, sidecar: SidecarProcess
) -> None:
    """It never runs elsewhere, and its file names only CPUs that are in force."""
    sidecar.start()
    done = shell(docker, "one", STAY, exclusive=1, options=("-d", "--cpus", "1"))
    assert done.returncode == 0, done.stderr
    assert first_cpus(docker, "one") == [LAST]
    _, told, cpus, limit = eventually(lambda: (lines := docker.logs("one"))[3:] and lines, "it printed all it has")
    assert f'"cpus":"{LAST}"' in told
    assert '"sharing":"exclusive"' in told
    assert cpus == str(LAST)
    assert is_unthrottled(limit)
    id = str(docker.inspect("one")["Id"])
    sidecar.until(id, lambda seen: seen.is_settled, "it is settled")
    # The directory that it mounts is the one that is kept up to date. Files follow the status.
    read = ("exec", docker.full("one"), "cat", "/run/cpuset-sidecar/status.json")
    eventually(lambda: '"settled":true' in docker.call(*read).stdout, "it is told that it is settled")
    # And the engine's own records came to agree.
    eventually(lambda: docker.inspect("one")["HostConfig"]["CpusetCpus"] == str(LAST), "the engine knows")


def test_the_limit_that_a_start_lifted_comes_back(docker: Docker, sidecar: SidecarProcess) -> None:
    """Docker shows the limit that people asked for all the same."""
    sidecar.start()
    assert shell(docker, "one", STAY, exclusive=1, options=("-d", "--cpus", "1")).returncode == 0
    seen = docker.inspect("one")
    sidecar.until(str(seen["Id"]), lambda each: each.is_settled and each.is_quota_lifted, "lifted")
    assert sidecar.terminate() == 0
    sidecar.release()
    assert quota_of(seen["State"]["Pid"]) == 1
    assert docker.inspect("one")["HostConfig"]["NanoCpus"] == 1_000_000_000


def test_a_shared_container_begins_in_the_pool(docker: Docker, sidecar: SidecarProcess) -> None:
    """It never runs on CPUs of others, not for ten milliseconds."""
    sidecar.start()
    assert shell(docker, "one", STAY, exclusive=1, options=("-d",)).returncode == 0
    assert shell(docker, "shared", STAY, options=("-d",)).returncode == 0
    assert first_cpus(docker, "shared") == [REST]


def test_a_refusal_reaches_whoever_starts_it_and_nothing_runs(docker: Docker, sidecar: SidecarProcess) -> None:
    """With the reason of the decision itself."""
    sidecar.start()
    assert shell(docker, "one", STAY, exclusive=1, options=("-d",)).returncode == 0
    done = shell(docker, "two", STAY, exclusive=1)
    assert done.returncode == 125
    assert "cpuset-sidecar: not started: asked for 1 exclusive CPU, 0 free" in done.stderr
    assert docker.full("one") in done.stderr
    assert done.stdout == ""
    assert docker.inspect("two")["State"]["Status"] == "created"
    docker.call("rm", "--force", docker.full("one"))
    eventually(lambda: docker.call("start", docker.full("two")).returncode == 0, "it starts once they are free")
    assert first_cpus(docker, "two") == [LAST]


def test_without_a_sidecar_only_containers_of_this_runtime_do_not_start(
    docker: Docker, sidecar: SidecarProcess
) -> None:
    """Fail-closed only for containers that chose it; running containers can be stopped and removed."""
    sidecar.start()
    assert shell(docker, "one", STAY, exclusive=1, options=("-d",)).returncode == 0
    sidecar.kill()
    done = shell(docker, "two", STAY)
    assert done.returncode == 125
    assert f"nothing answers on {sidecar.state_dir}/api.sock" in done.stderr
    assert "cpuset-sidecar doctor" in done.stderr
    plain = shell(docker, "plain", "echo here", runtime="runc")
    assert (plain.returncode, plain.stdout) == (0, "here\n")
    assert docker.call("exec", docker.full("one"), "true").returncode == 0
    assert docker.call("rm", "--force", docker.full("one")).returncode == 0


def test_a_start_that_is_held_outlives_the_sidecar_that_held_it(docker: Docker, sidecar: SidecarProcess) -> None:
    """It was killed before its answer; the next one is asked again, and answers from the same State."""
    sidecar.start()
    assert shell(docker, "one", STAY, exclusive=1, options=("-d",)).returncode == 0
    sidecar.freeze()
    held = docker.begin("two", "sh", "-c", STAY)
    eventually(lambda: is_asking(held, docker, sidecar), "the runtime waits for an answer")
    sidecar.kill()
    sidecar.start()
    _, said = held.communicate(timeout=60 * PATIENCE)
    assert (held.returncode, said) == (0, "")
    assert first_cpus(docker, "two") == [REST]


def test_a_start_that_is_held_is_refused_where_nobody_comes_to_answer(docker: Docker, sidecar: SidecarProcess) -> None:
    """Killed for good: after the timeout the runtime refuses with the reason, and the engine goes on."""
    sidecar.start()
    sidecar.freeze()
    held = docker.begin("one", "sh", "-c", STAY, exclusive=1)
    eventually(lambda: is_asking(held, docker, sidecar), "the runtime waits for an answer")
    sidecar.kill()
    _, said = held.communicate(timeout=60 * PATIENCE)
    assert held.returncode == 125
    assert "nothing answers on" in said


def is_asking(held: subprocess.Popen[str], docker: Docker, sidecar: SidecarProcess) -> bool:
    """Return whether a runtime asks this sidecar: its socket is among the arguments of the front in Python, and the
    compiled one has a socket open.
    """
    assert held.poll() is None
    asked = f"{sidecar.state_dir}/api.sock".encode()
    compiled = f"{Path(docker.api.socket_path).parent}/strict/bin/cpuset-runc\0".encode()
    return any(
        asked in told or (told.startswith(compiled) and b"\0create\0" in told and has_socket(process))
        for process in Path("/proc").glob("[0-9]*")
        if (told := words(process))
    )


def has_socket(process: Path) -> bool:
    """Return whether a process has a socket open."""
    with suppress(OSError):
        return any(os.readlink(each).startswith("socket:") for each in (process / "fd").iterdir())
    return False


def words(process: Path) -> bytes:
    """Return the arguments that a process was started with; none for one that has gone."""
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def test_every_later_start_is_asked_for_and_every_update_counts(docker: Docker, sidecar: SidecarProcess) -> None:
    """By users, and by the restart policy; a later update overrides the bundle."""
    sidecar.start()
    options = ("-d", "--restart", "always")
    assert shell(docker, "one", STAY, exclusive=1, options=options).returncode == 0
    assert docker.call("restart", "--time", "0", docker.full("one")).returncode == 0
    eventually(lambda: len(first_cpus(docker, "one")) == 2, "it was started by people")
    id = str(docker.inspect("one")["Id"])
    sidecar.until(id, lambda seen: seen.is_settled, "it is settled")
    os.kill(docker.inspect("one")["State"]["Pid"], signal.SIGKILL)
    eventually(lambda: len(first_cpus(docker, "one")) == 3, "it was started by its policy")
    assert first_cpus(docker, "one") == [LAST] * 3
    assert docker.call("update", "--memory", "64m", "--memory-swap", "64m", docker.full("one")).returncode == 0
    read = docker.call("exec", docker.full("one"), "grep", "Cpus_allowed_list", "/proc/self/status").stdout
    assert read.split()[1] == str(LAST)
    sidecar.kill()
    assert docker.call("update", "--cpuset-cpus", str(REST), docker.full("one")).returncode == 0
    read = docker.call("exec", docker.full("one"), "grep", "Cpus_allowed_list", "/proc/self/status").stdout
    assert read.split()[1] == str(REST)


def test_many_at_once_start_without_a_deadlock(docker: Docker, sidecar: SidecarProcess) -> None:
    """One gets the CPU, ten share the pool, and the excess ones are refused; none hangs."""
    sidecar.start()
    began = time.monotonic()
    alone = [docker.begin(f"alone-{number}", "sh", "-c", STAY, exclusive=1) for number in range(4)]
    pool = [docker.begin(f"pool-{number}", "sh", "-c", STAY) for number in range(10)]
    ended = [(each.communicate(timeout=100)[1], each.returncode) for each in (*alone, *pool)]
    assert time.monotonic() - began < 100
    assert sorted(code for _, code in ended[:4]) == [0, 125, 125, 125]
    assert all("asked for 1 exclusive CPU, 0 free" in said for said, code in ended[:4] if code)
    assert ended[4:] == [("", 0)] * 10
    for number in range(10):
        # None was ever on the owner's CPU after it was granted; before that, all CPUs were shared.
        assert first_cpus(docker, f"pool-{number}")[0] in (REST, REST | LAST)
    winner = next(number for number, (_, code) in enumerate(ended[:4]) if code == 0)
    assert first_cpus(docker, f"alone-{winner}") == [LAST]
