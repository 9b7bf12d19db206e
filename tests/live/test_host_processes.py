"""The host's own services and sessions are kept off owners' CPUs by systemd, judged from /proc alone, and put back."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from sidecar.host.units.host_tasks import HostTasks
from sidecar.status.document import SharingStatus
from state.cpuset import CPUSet
from tests.live.containers import Containers
from tests.live.hostjudge import intruders, judged
from tests.live.kernelview import online
from tests.live.lodgers import build, burst, lodgers
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import LAST, SidecarProcess
from tests.live.waiting import PATIENCE, eventually

ROOT: Final = Path("/sys/fs/cgroup")

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(150 * PATIENCE),
    pytest.mark.skipif(
        not Path("/run/systemd/system").is_dir() or (ROOT / "cpuset").is_dir(),
        reason="needs systemd and cgroup v2: see `make vm-test`",
    ),
]

_CONTAINER: Final = re.compile(r"[0-9a-f]{64}")
ONE: Final = {"cpuset.exclusive": "1"}
SERVICES: Final = 10
SPINNING: Final = 3
ROUNDS: Final = 4


@pytest.fixture
def confining(own_engine: PrivateEngine, sidecar: SidecarProcess) -> Iterator[SidecarProcess]:
    """Start a sidecar that confines the host's units. At the end all have what they had: the next one has no record of
    what this one changed.
    """
    sidecar.configure(host_units="auto")
    sidecar.start()
    assert not sidecar.has_logged("the host's own processes are not confined"), sidecar.log()
    yield sidecar
    if sidecar.is_running:
        sidecar.terminate()
        sidecar.release()


@pytest.fixture
def busy() -> Iterator[list[str]]:
    """Names of services to start, each of which spins; they are stopped at the end."""
    names = [f"cpuset-tests-{number}.service" for number in range(SERVICES)]
    yield names
    subprocess.run(["systemctl", "stop", *names], check=False, capture_output=True)


def spin(name: str) -> None:
    """Start a service that computes without end."""
    words = ("systemd-run", "--quiet", "--collect", f"--unit={name}", "sh", "-c", "while :; do :; done")
    subprocess.run(words, check=True, capture_output=True)


def free_threads() -> dict[int, set[int]]:
    """Return where the kernel's threads may run that it lets be moved, by their ids."""
    found = {}
    for task in HostTasks().of_kernel():
        if not task.is_bound and not task.name.startswith("irq/"):
            with suppress(OSError):
                found[task.id] = os.sched_getaffinity(task.id)
    return found


def confined() -> dict[str, str]:
    """Return what is set for each group of the tree that has CPUs of its own."""
    files = ROOT.glob("*.s*/**/cpuset.cpus")
    with suppress(OSError):
        return {str(file.parent): cpus for file in files if (cpus := file.read_text().strip())}
    return confined()


def see_that_none_intrudes(sidecar: SidecarProcess, owner: str) -> None:
    """Wait until no process of the host may run on the owner's CPU."""
    try:
        eventually(lambda: not intruders(owner), "none intrudes", seconds=5)
    except AssertionError:
        raise AssertionError(f"{intruders(owner)} may run there; the log: {sidecar.log()[-4000:]}") from None


def owner_alone(sidecar: SidecarProcess, workloads: Containers) -> str:
    owner = workloads.run("owner", labels=ONE)
    sidecar.until(owner, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_alone, "alone")
    return owner


def test_no_process_of_the_host_may_run_on_an_owners_cpu(
    confining: SidecarProcess, workloads: Containers, busy: list[str]
) -> None:
    """Neither those that were there, nor those that come, in ones and in a burst; alone is told when that is so."""
    spin(busy[0])
    owner = owner_alone(confining, workloads)
    assert intruders(owner) == []
    for name in busy[1:]:
        spin(name)
    see_that_none_intrudes(confining, owner)
    subprocess.run(["systemctl", "restart", "cron.service"], check=False, capture_output=True)
    subprocess.run(["systemctl", "daemon-reload"], check=True, capture_output=True)
    see_that_none_intrudes(confining, owner)


def test_a_busy_host_keeps_off_within_a_second(
    confining: SidecarProcess, own_engine: PrivateEngine, workloads: Containers, busy: list[str], tmp_path: Path
) -> None:
    """Forty services that start processes, some that compute, timers, sessions, bursts and a build; a sidecar that is
    killed in the midst leaves nobody there either, once another one runs.
    """
    owner = owner_alone(confining, workloads)
    for name in busy[:SPINNING]:
        spin(name)
    with judged(owner) as judge, lodgers():
        for number in range(ROUNDS):
            burst()
            build(own_engine, workloads, tmp_path / str(number))
            if number == ROUNDS // 2:
                with judge.looking_away():
                    confining.kill()
                    burst()
                    confining.start()
    print(f"seen {judge.looks} times; the longest that a process was allowed there: {judge.longest:.2f} s")
    assert judge.looks > ROUNDS
    assert judge.late == [], confining.log()[-4000:]


def test_a_second_sidecar_does_not_confine_the_same_units(
    confining: SidecarProcess, own_engine: PrivateEngine, tmp_path: Path
) -> None:
    """Whatever its directory and engine; it names the first."""
    second = SidecarProcess(tmp_path / "second", own_engine.api.socket_path)
    second.configure(host_units="auto")
    refused = second.command("run")
    assert refused.returncode == 1
    assert f"another sidecar confines the host's own processes (process {confining.pid}" in refused.stderr


def test_a_container_that_is_pinned_by_hand_is_no_unit(confining: SidecarProcess, workloads: Containers) -> None:
    """systemd keeps its CPUs as it keeps those of services, and it is below a slice of its own."""
    pinned = workloads.run("pinned", CpusetCpus=str(LAST), CgroupParent="tests-cpuset.slice")
    confining.until(pinned, lambda it: it.cpus == LAST, "it is seen where it is pinned")
    units = [each.name for each in confining.until_quiet().units]
    assert "init.scope" in units
    assert [name for name in units if pinned in name or name.startswith("tests")] == []


def test_a_release_gives_every_unit_back_what_it_had(
    confining: SidecarProcess, workloads: Containers, busy: list[str]
) -> None:
    """Also after the sidecar was killed in the midst, and started again."""
    spin(busy[0])
    owner = owner_alone(confining, workloads)
    confining.kill()
    confining.start()
    see_that_none_intrudes(confining, owner)
    workloads.api.remove(owner)
    confining.until_quiet()
    confining.terminate()
    confining.release()
    kept = {path: cpus for path, cpus in confined().items() if not _CONTAINER.search(path)}
    assert {path: cpus for path, cpus in kept.items() if CPUSet.parse(cpus) != online()} == {}
    shown = subprocess.run(
        ["systemctl", "show", "-P", "AllowedCPUs", busy[0], "user.slice"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == []


def test_what_the_kernel_lets_be_moved_is_moved_and_the_rest_is_named(
    confining: SidecarProcess, workloads: Containers
) -> None:
    """Its unbound work, and each of its threads that may have another CPU; a release restores all of them."""
    queues = Path("/sys/devices/virtual/workqueue/cpumask")
    had, threads = int(queues.read_text().replace(",", ""), 16), free_threads()
    owner_alone(confining, workloads)
    own = next(iter(LAST))
    eventually(lambda: not int(queues.read_text().replace(",", ""), 16) >> own & 1, "workqueues have left", seconds=20)
    status = confining.status()
    assert {"kernel-threads", "workqueues"} <= {each.name for each in status.units}
    assert status.host is not None
    holes = {each.name: each.reason for each in status.host.holes}
    assert "ksoftirqd" in holes["bound-kernel-threads"]
    if "some-kernel-threads" not in holes:
        eventually(lambda: not any(own in cpus for cpus in free_threads().values()), "threads have left", seconds=20)
    confining.terminate()
    confining.release()
    assert int(queues.read_text().replace(",", ""), 16) == had
    now = free_threads()
    assert {id: cpus for id, cpus in threads.items() if id in now and now[id] != cpus} == {}


def test_what_people_confined_themselves_stays(
    own_engine: PrivateEngine, sidecar: SidecarProcess, workloads: Containers, busy: list[str]
) -> None:
    """A unit that had AllowedCPUs when the sidecar came is never moved, and its CPUs are granted to nobody."""
    spin(busy[0])
    subprocess.run(["systemctl", "set-property", "--runtime", busy[0], f"AllowedCPUs={LAST}"], check=True)
    sidecar.configure(host_units="auto")
    sidecar.start()
    owner = workloads.run("owner", labels=ONE)
    sidecar.until(owner, lambda it: it.refusal, "there is no other CPU for it")
    assert (ROOT / "system.slice" / busy[0] / "cpuset.cpus").read_text().strip() == str(LAST)
