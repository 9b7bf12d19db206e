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
from sidecar.status.document import ContainerStatus, SharingStatus
from state.cpuset import CPUSet
from state.errors import StateError
from state.projection import Projection, read
from tests.live.containers import Containers
from tests.live.hostjudge import intruders, seen
from tests.live.kernelview import online
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
NOBODY: Final = "\0"
"""An owner in no path of a cgroup: all processes intrude upon it."""


@pytest.fixture
def as_shipped() -> Iterator[None]:
    """Give what the tests start the weight that the shipped unit gives the sidecar."""
    unit = Path("/proc/self/cgroup").read_text().strip().rpartition("/")[2]
    set_weight = ("systemctl", "set-property", "--runtime", unit)
    subprocess.run([*set_weight, "CPUWeight=1000"], check=True, capture_output=True)
    yield
    subprocess.run([*set_weight, "CPUWeight="], check=True, capture_output=True)


@pytest.fixture
def confining(as_shipped: None, own_engine: PrivateEngine, sidecar: SidecarProcess) -> Iterator[SidecarProcess]:
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
    there = set(seen(NOBODY, online()))
    owner = owner_alone(confining, workloads)
    # What systemd starts at this instant may be there for a moment.
    assert [told for key, told in seen(owner).items() if key in there] == []
    see_that_none_intrudes(confining, owner)
    for name in busy[1:]:
        spin(name)
    see_that_none_intrudes(confining, owner)
    subprocess.run(["systemctl", "restart", "cron.service"], check=False, capture_output=True)
    subprocess.run(["systemctl", "daemon-reload"], check=True, capture_output=True)
    see_that_none_intrudes(confining, owner)


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


@pytest.fixture
def owning(busy: list[str]) -> Iterator[str]:
    """The name of a service that asks for a CPU by a drop-in, and is not started yet; its files go at the end."""
    name = busy[0]
    folder = Path("/run/systemd/system")
    unit, drop_in = folder / name, folder / f"{name}.d" / "cpus.conf"
    unit.write_text("[Service]\nExecStart=/bin/sh -c 'while :; do :; done'\n")
    drop_in.parent.mkdir(exist_ok=True)
    drop_in.write_text("[Service]\nX-CpusetExclusive=1\n")
    systemctl("daemon-reload")
    yield name
    subprocess.run(["systemctl", "stop", name], check=False, capture_output=True)
    drop_in.unlink()
    drop_in.parent.rmdir()
    unit.unlink()
    subprocess.run(["systemctl", "daemon-reload"], check=False, capture_output=True)


def systemctl(*words: str) -> str:
    return subprocess.run(["systemctl", *words], check=True, capture_output=True, text=True).stdout


def unit_of(sidecar: SidecarProcess, name: str) -> ContainerStatus | None:
    return next((each for each in sidecar.status().units if each.name == name), None)


def cpus_of(name: str) -> CPUSet:
    """Return where each process of a service may run, by the kernel."""
    processes = (ROOT / "system.slice" / name / "cgroup.procs").read_text().split()
    found = [Path(f"/proc/{each}/status").read_text().partition("Cpus_allowed_list:")[2] for each in processes]
    assert found, f"{name} runs nothing"
    [cpus] = {text.split()[0] for text in found}
    return CPUSet.parse(cpus)


def until_alone(sidecar: SidecarProcess, name: str) -> CPUSet:
    """Wait until a service has a CPU to itself; return it."""
    found = eventually(
        lambda: it if (it := unit_of(sidecar, name)) and it.is_alone else None, f"{name} is alone", seconds=20
    )
    assert found.sharing is SharingStatus.EXCLUSIVE
    assert cpus_of(name) == found.granted
    return found.granted


def test_a_service_that_asks_has_a_cpu_of_its_own(
    confining: SidecarProcess, workloads: Containers, busy: list[str], owning: str
) -> None:
    """No other process may run there, neither a container's nor the host's; its directory tells it; a release gives
    back what it had.
    """
    systemctl("start", owning)
    own = until_alone(confining, owning)
    assert own == LAST
    spin(busy[1])
    workloads.run("plain")
    group = f"/system.slice/{owning}"

    try:
        eventually(lambda: not intruders(group), "none intrudes", seconds=10)
    except AssertionError:
        raise AssertionError(f"{intruders(group)} may run there; the log: {confining.log()[-4000:]}") from None
    # A service that starts may be there for a moment: it is told alone again once that is confined.
    directory = f"{confining.projections}/by-unit/{owning}"

    def told_alone() -> Projection | None:
        with suppress(StateError):
            found = read(directory)
            return found if found.alone else None
        return None

    told = eventually(told_alone, "it is told alone")
    assert (told.cpus, told.name) == (own, owning)
    confining.terminate()
    assert cpus_of(owning) == own, "a stop of the sidecar changes nothing"
    assert confining.command("release").returncode == 0
    assert cpus_of(owning) == online()
    assert systemctl("show", "-P", "AllowedCPUs", owning).split() == []


def test_a_restart_of_an_owning_service_keeps_its_cpu_and_a_stop_gives_it_up(
    confining: SidecarProcess, workloads: Containers, owning: str
) -> None:
    """As of a container: within `linger` (10 s) it is the same CPU, from the first instruction on."""
    systemctl("start", owning)
    own = until_alone(confining, owning)
    systemctl("restart", owning)
    assert cpus_of(owning) == own
    assert until_alone(confining, owning) == own
    systemctl("kill", "--signal=KILL", owning)
    eventually(lambda: not (found := unit_of(confining, owning)) or not found.granted, "it gave it up", seconds=40)
    systemctl("reset-failed", owning)
    systemctl("start", owning)
    assert len(until_alone(confining, owning)) == 1


def test_a_service_that_asks_while_it_runs_is_served_by_a_reload(
    confining: SidecarProcess, owning: str, workloads: Containers
) -> None:
    """And one that asks no more is confined as before. Containers are not moved onto its CPU meanwhile."""
    drop_in = Path("/run/systemd/system") / f"{owning}.d" / "cpus.conf"
    drop_in.write_text("[Service]\n")
    systemctl("daemon-reload")
    systemctl("start", owning)
    eventually(lambda: unit_of(confining, owning), "it is confined", seconds=20)
    drop_in.write_text("[Service]\nX-CpusetExclusive=1\n")
    systemctl("daemon-reload")
    own = until_alone(confining, owning)
    drop_in.write_text("[Service]\n")
    systemctl("daemon-reload")
    eventually(lambda: (found := unit_of(confining, owning)) and not found.granted, "it is confined again", seconds=20)
    eventually(lambda: own <= cpus_of(owning), "its CPU is in the shared pool again", seconds=10)


def test_a_sidecar_that_was_killed_finds_its_owning_service_again(
    confining: SidecarProcess, workloads: Containers, owning: str
) -> None:
    systemctl("start", owning)
    own = until_alone(confining, owning)
    confining.kill()
    assert cpus_of(owning) == own
    confining.start()
    assert until_alone(confining, owning) == own
