"""`disturbed` on a real engine: an intruder on the owner's CPU is told by name, and the owner itself is not."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sidecar.disturbance.account import GONE
from sidecar.disturbance.switch_positions import read_positions
from sidecar.status.document import SharingStatus
from tests.live.containers import Containers
from tests.live.sidecarprocess import LAST, SidecarProcess
from tests.live.stage import ask
from tests.live.waiting import eventually
from tests.live.watching import until_shared
from tests.support.tracefs import instances, mounted, waker

pytestmark = pytest.mark.live


def test_an_intruder_is_told_by_name_and_the_owner_is_not(
    running: SidecarProcess, workloads: Containers, tmp_path: Path
) -> None:
    """The owner makes short processes of its own all the time: its children are its own as well. They have a name that
    no other container of the host's has.
    """
    busy = ["sh", "-c", "cp /bin/busybox /childofowner; while :; do /childofowner 2>/dev/null; done"]
    id = workloads.run("owner", *busy, labels={"cpuset.exclusive": "1"})
    running.until(id, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
    [cpu] = LAST
    with mounted(tmp_path / "tracefs") as tracefs, waker(cpu, tmp_path, pause=0.009, work=0.001):
        done = running.command("disturbed", id, "--seconds", "2", "--json", "--tracefs", tracefs)
        assert done.returncode == 0, done.stderr
        [told] = json.loads(done.stdout)["containers"]
        page = running.command("disturbed", id, "--seconds", "500ms", "--tracefs", tracefs)
    names = {each["name"]: each for each in told["by"]}
    assert (told["id"], told["cpus"]) == (id, str(cpu))
    assert names["disturber"]["count"] > 20
    assert names["disturber"]["total_ms"] > 20
    strangers = [each for each in told["by"] if each["name"] == "childofowner"]
    # One may have run already when the trace began, and ended before it was asked.
    assert [each["of"] for each in strangers] in ([], [GONE])
    assert sum(each["total_ms"] for each in strangers) < 10
    assert told["waited_ms"] > 0
    assert page.returncode == 0
    assert f"owner, CPU {cpu}, 0.5 s; others ran there for " in page.stdout
    assert "disturber" in page.stdout


def test_an_owner_that_ends_in_the_midst_is_measured_until_then(
    running: SidecarProcess, workloads: Containers, tmp_path: Path
) -> None:
    """Whatever runs there afterwards; without the daemon, a program is told that nobody vouches for it."""
    id = workloads.run("owner", labels={"cpuset.exclusive": "1"})
    running.until(id, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
    with mounted(tmp_path / "tracefs") as tracefs, ThreadPoolExecutor(1) as pool:
        words = ("disturbed", id, "--seconds", "60", "--json", "--tracefs", tracefs)
        measuring = pool.submit(running.command, *words)
        try:
            eventually(lambda: instances(tracefs) or measuring.done(), "it is measured")
        finally:
            workloads.api.act(id, "kill")
        done = measuring.result()
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert report["containers"][0]["seconds"] < 30
        assert re.fullmatch(r"\S*owner ended: it was measured for [0-9.]+ s", report["notes"][-1])


def test_doctor_tells_what_would_silence_an_intruder_and_changes_nothing(
    running: SidecarProcess, workloads: Containers, tmp_path: Path
) -> None:
    """The commands name CPUs of this host that no container has for its own."""
    id = workloads.run("owner", labels={"cpuset.exclusive": "1"})
    running.until(id, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
    with mounted(tmp_path / "tracefs") as tracefs, waker(LAST.lowest(), tmp_path, pause=0.009, work=0.001):
        before = read_positions(LAST)
        done = running.command("doctor", "--quiet", id, "--seconds", "1", "--json", "--tracefs", tracefs)
        page = running.command("doctor", "--quiet", id, "--seconds", "500ms", "--tracefs", tracefs)
        assert read_positions(LAST) == before
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["container"]["id"], told["method"]) == (id, "trace")
    [found] = [
        each for each in told["remedies"] if [it for it in each["silences"] if it.startswith("process disturber")]
    ]
    assert not found["needs_reboot"]
    assert found["command"].split()[-1].removeprefix("AllowedCPUs=") == str(before.others)
    assert page.returncode == 0, page.stderr
    assert "at once:" in page.stdout
    assert "process disturber" in page.stdout
    plain = workloads.run("plain")
    until_shared(running, plain)
    refused = running.command("doctor", "--quiet", plain)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "has no CPUs of its own" in refused.stderr


def test_the_daemon_samples_what_disturbs_and_a_killed_one_leaves_nothing_for_long(
    sidecar: SidecarProcess, workloads: Containers, tmp_path: Path
) -> None:
    """The metrics have an intruder's time; the instance of a daemon that was killed is gone once the next one runs.
    On a machine so busy that events are lost, a sample is incomplete, counts as that, and has no time.
    """
    mount = 'mount -t tracefs tracefs /sys/kernel/tracing && exec "$@"'
    sidecar.wrapper = ("unshare", "--mount", "sh", "-c", mount, "sh", *sidecar.wrapper)
    sidecar.configure(disturbed_period="1s")
    with mounted(tmp_path / "tracefs") as tracefs:
        sidecar.start()
        id = workloads.run("owner", labels={"cpuset.exclusive": "1"})
        sidecar.until(id, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
        with waker(LAST.lowest(), tmp_path, pause=0.009, work=0.001):
            eventually(
                lambda: sampled(sidecar).get("process", 0) > 0.05 or incomplete(sidecar) >= 10,
                "an intruder is in the metrics",
                seconds=60,
            )
        found = sampled(sidecar)
        assert found.get("process", 0) > 0 or found[""] == 0
        assert sum(seconds for kind, seconds in found.items() if kind) <= found[""] + 0.001
        eventually(lambda: is_frozen_in_a_sample(sidecar, tracefs), "a sample is under way")
        sidecar.kill()
        assert instances(tracefs)
        sidecar.configure(disturbed_period="0s")
        sidecar.start()
        eventually(lambda: not instances(tracefs), "what was left is gone")


def is_frozen_in_a_sample(sidecar: SidecarProcess, tracefs: str) -> bool:
    """Freeze it if a sample is under way, so that this one does not end before the kill; return whether that is so."""
    if not instances(tracefs):
        return False
    sidecar.freeze()
    eventually(lambda: not sidecar.is_awake, "it is frozen")
    if instances(tracefs):
        return True
    sidecar.thaw()
    return False


def sampled(sidecar: SidecarProcess) -> dict[str, float]:
    """Return the sampled seconds by kind, and by "" how many there were."""
    lines = ask(sidecar.state_dir, "GET", "/metrics").splitlines()
    found = [re.fullmatch(r"cpuset_sidecar_disturbed_(?:sampled_)?seconds_total\{(.*)\} (\S+)", each) for each in lines]
    return {each[1].partition('kind="')[2].rstrip('"'): float(each[2]) for each in found if each}


def incomplete(sidecar: SidecarProcess) -> float:
    """Return how many samples were incomplete, of all containers together."""
    lines = ask(sidecar.state_dir, "GET", "/metrics").splitlines()
    name = "cpuset_sidecar_disturbed_incomplete_samples_total{"
    return sum(float(each.rpartition(" ")[2]) for each in lines if each.startswith(name))


def test_a_container_without_cpus_of_its_own_has_nothing_to_measure(
    running: SidecarProcess, workloads: Containers
) -> None:
    id = workloads.run("plain")
    until_shared(running, id)
    done = running.command("disturbed", id, "--seconds", "100ms")
    assert (done.returncode, done.stdout) == (1, "")
    assert "has no CPUs of its own" in done.stderr
    assert "no container has CPUs of its own" in running.command("disturbed").stderr
