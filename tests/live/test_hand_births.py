"""Births beside an owner, on real engines: no newcomer is ever on the owner's CPU, whoever brings it and however."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from sidecar.status.document import SharingStatus
from state.cpuset import CPUSet
from tests.live.births import FIRST, Newcomers, command_line, judged
from tests.live.containers import Containers
from tests.live.kernelview import KernelView, online
from tests.live.privateengine import PrivateEngine
from tests.live.privatepodman import PrivatePodman
from tests.live.sidecarprocess import LAST, SidecarProcess
from tests.live.waiting import PATIENCE, eventually

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(120 * PATIENCE),
]

ONE: Final = {"cpuset.exclusive": "1"}
COUNT: Final = 8
"""Newcomers of each way."""


@pytest.fixture
def owner(own_engine: PrivateEngine, sidecar: SidecarProcess, workloads: Containers) -> str:
    """Start a sidecar with a hand, and an owner that is alone; return its id."""
    # Its CPUs are kept while it restarts, however long the engine takes.
    sidecar.configure(hand="auto", linger="1m")
    sidecar.start()
    assert not sidecar.has_logged("the engine alone changes CPUs"), sidecar.log()
    id = workloads.run("owner", labels=ONE)
    sidecar.until(id, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
    return id


@pytest.fixture
def newcomers(own_engine: PrivateEngine, workloads: Containers) -> Newcomers:
    return Newcomers(workloads, own_engine)


def right(found: list[CPUSet]) -> int:
    """Return how many began off the owner's CPU."""
    return sum(not each & LAST for each in found)


@pytest.mark.parametrize("clients", [1, 4])
def test_newcomers_begin_elsewhere(
    clients: int, owner: str, newcomers: Newcomers, kernel: KernelView, tmp_path: Path
) -> None:
    """Created and started at once, or by the command line; one after the other, or four at once."""
    with judged(kernel, owner, tmp_path) as seen:
        found = newcomers.bring(COUNT, clients)
    assert right(found) == COUNT
    seen.is_clean()
    assert seen.exposure.newcomers
    assert kernel.allowed(owner) == LAST


def test_an_owner_is_born_on_its_cpu(
    owner: str, sidecar: SidecarProcess, workloads: Containers, kernel: KernelView, tmp_path: Path
) -> None:
    """A restart is a birth: it begins where it was, and nowhere else."""
    with judged(kernel, owner, tmp_path) as seen:
        workloads.api.act(owner, "restart", t="0")
        assert kernel.once_running(owner) == LAST, sidecar.log()
    seen.is_clean()


def test_a_step_of_a_build_keeps_off(
    owner: str, own_engine: PrivateEngine, workloads: Containers, kernel: KernelView, tmp_path: Path
) -> None:
    """The engine reports no container for it: its cgroup is all that shows it."""
    if workloads.api.is_podman:
        pytest.skip("steps of a build by Podman are born beside the command, below no parent of the engine")
    if not has_buildkit():
        pytest.skip("docker has no buildx here")
    if has_systemd() and kernel.parent(owner).name != "system.slice":
        pytest.skip("under systemd steps of a build are born in system.slice, whatever parent the containers have")
    steps = ("build", "--no-cache", "--network", "none", "--progress", "plain")
    context = tmp_path / "context"
    context.mkdir()
    command = f"{' '.join(FIRST)}; sleep 1"
    (context / "Dockerfile").write_text(f"FROM {workloads.image}\nRUN {command}; echo turn\nRUN {command}\n")
    with judged(kernel, owner, tmp_path) as seen:
        printed = command_line(own_engine, *steps, str(context))
    began = [CPUSet.parse(line.split()[-1]) for line in printed.splitlines() if "Cpus_allowed_list:" in line]
    assert (right(began), len(began)) == (2, 2), printed
    seen.is_clean()
    assert seen.exposure.newcomers


BURN: Final = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
"""Computes for a second or so, on each CPU that it may use."""


def test_a_build_that_burns_keeps_off(
    owner: str,
    own_engine: PrivateEngine,
    workloads: Containers,
    kernel: KernelView,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the classic builder, whose steps are containers that ask for nothing; four processes compute in each."""
    if workloads.api.is_podman:
        pytest.skip("steps of a build by Podman are born beside the command, below no parent of the engine")
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    context = tmp_path / "context"
    context.mkdir()
    burn = f"{' '.join(FIRST)}; for n in 1 2 3 4; do ({BURN}) & done; wait"
    (context / "Dockerfile").write_text(f"FROM {workloads.image}\nRUN {burn}; echo turn\nRUN {burn}\n")
    with judged(kernel, owner, tmp_path) as seen:
        printed = command_line(own_engine, "build", "--no-cache", "--network", "none", str(context))
    began = [CPUSet.parse(line.split()[-1]) for line in printed.splitlines() if "Cpus_allowed_list:" in line]
    assert (right(began), len(began)) == (2, 2), printed
    seen.is_clean()
    assert seen.exposure.newcomers
    assert kernel.allowed(owner) == LAST


def test_a_build_by_podman_keeps_off_where_it_is_told_to(
    owner: str, own_engine: PrivateEngine, workloads: Containers, kernel: KernelView, tmp_path: Path
) -> None:
    """Its steps are born beside the command: `--cpuset-cpus` confines them, and nothing else does without systemd."""
    if not isinstance(own_engine, PrivatePodman):
        pytest.skip("it is about Podman")
    # Where also a user's own Podman can read it.
    context = Path(own_engine.api.socket_path).with_name("context")
    context.mkdir()
    (context / "Dockerfile").write_text(f"FROM {workloads.image}\nRUN {' '.join(FIRST)}; {BURN}\n")
    where = str(online() - LAST)
    words = ("build", "--no-cache", "--network", "none", "--pull=never", "--cpuset-cpus", where, str(context))
    with judged(kernel, owner, tmp_path) as seen:
        printed = own_engine.run(*words)
    began = [CPUSet.parse(line.split()[-1]) for line in printed.splitlines() if "Cpus_allowed_list:" in line]
    assert [str(each) for each in began] == [where], printed
    seen.is_clean()


def test_containers_of_a_pod_keep_off(
    owner: str,
    own_engine: PrivateEngine,
    workloads: Containers,
    newcomers: Newcomers,
    kernel: KernelView,
    tmp_path: Path,
) -> None:
    """A pod has a cgroup of its own, in which its containers are born; the first of them is there for the pod alone."""
    if not isinstance(own_engine, PrivatePodman):
        pytest.skip("only Podman has pods")
    pod = f"{workloads.prefix}-pod"
    with judged(kernel, owner, tmp_path) as seen:
        own_engine.run("pod", "create", "--name", pod, *infra())
        try:
            found = [newcomers.by_command(f"in-pod-{number}", "--pod", pod) for number in range(4)]
        finally:
            own_engine.run("pod", "rm", "-f", "-t", "0", pod)
    assert right(found) == 4
    seen.is_clean()
    assert seen.exposure.newcomers


def test_no_service_is_needed(
    owner: str,
    own_engine: PrivateEngine,
    newcomers: Newcomers,
    sidecar: SidecarProcess,
    kernel: KernelView,
    tmp_path: Path,
) -> None:
    """Podman's command brings containers while the service that the sidecar listens to is dead."""
    if not isinstance(own_engine, PrivatePodman):
        pytest.skip("Docker has no containers without its service")
    own_engine.kill()
    with judged(kernel, owner, tmp_path) as seen:
        found = [newcomers.by_command(f"alone-{number}") for number in range(COUNT)]
    assert right(found) == COUNT
    seen.is_clean()
    assert seen.exposure.newcomers
    assert kernel.allowed(owner) == LAST
    own_engine.start()
    eventually(lambda: sidecar.status().is_ready, "the sidecar has its engine again")


def has_buildkit() -> bool:
    """Return whether the command can build by BuildKit."""
    return not subprocess.run(("docker", "buildx", "version"), capture_output=True, check=False).returncode


def has_systemd() -> bool:
    """Return whether an engine has systemd's driver here."""
    return Path("/run/systemd/system").is_dir()


def infra() -> tuple[str, ...]:
    """Return options for a pod: without the program for it, it has no container of its own."""
    places = [shutil.which("catatonit"), *map(str, Path("/usr/libexec").glob("*/catatonit"))]
    return ("--network", "none") if any(places) else ("--infra=false",)
