"""What only Podman does: containers without a service, values that poison, a lock that blocks lists."""

from __future__ import annotations

import shutil
import stat
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio

from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.orders import Update
from sidecar.engines.answer_bounds import Patience
from sidecar.engines.open_engine import open_engine
from sidecar.failures import EngineFailed, EngineSilent
from sidecar.host.cgroup.host_kernel import HostKernel
from sidecar.status.document import SharingStatus
from state.cpuset import CPUSet
from state.topology import Topology
from tests.live.alonejudge import judged_alone
from tests.live.containers import SLEEP, Containers
from tests.live.image import ensure_image
from tests.live.kernelview import KernelView, online, quota_of
from tests.live.privateengine import NoPrivateEngine, running
from tests.live.privatepodman import PrivatePodman
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import PATIENCE, eventually

pytestmark = pytest.mark.live

BRIEF = Patience(look=3.0 * PATIENCE, introduction=15.0 * PATIENCE)
"""Longer than Podman takes for what needs no lock, on a machine that is busy with other tests."""
ABSENT = CPUSet.of(4000)


@pytest.fixture(scope="module")
def engine() -> Iterator[PrivatePodman]:
    """Provide a Podman for these tests."""
    if len(online()) < 2:
        pytest.skip("a machine with one CPU has none to give")
    try:
        made = PrivatePodman()
        running(made)
    except NoPrivateEngine as error:
        pytest.skip(str(error))
    yield made
    made.close()


@pytest.fixture
def made(engine: PrivatePodman) -> Iterator[Containers]:
    """Yield a maker of containers, and remove them at the end of the test."""
    containers = Containers(engine.api, ensure_image(engine.api))
    yield containers
    containers.remove_all()


@pytest.fixture
def sidecar(engine: PrivatePodman, tmp_path: Path) -> Iterator[SidecarProcess]:
    """Yield a daemon that is not started; what it tells is judged."""
    process = SidecarProcess(tmp_path, engine.socket_path)
    with judged_alone(process, intrudes=False):
        yield process
        process.kill()


class Credulous:
    """A machine that accepts CPUs that do not exist."""

    def online(self) -> CPUSet:
        return online() | ABSENT

    def topology(self) -> Topology:
        return HostKernel().topology()

    def limit_of(self, view: ContainerView) -> int | None:
        return HostKernel().limit_of(view)


def test_containers_of_the_command_line_are_confined_too(
    engine: PrivatePodman, made: Containers, sidecar: SidecarProcess, kernel: KernelView
) -> None:
    """They bypass the service that the sidecar listens to; but every Podman process writes its events to one log."""
    names = [f"{made.prefix}-{name}" for name in ("plain", "owner")]
    try:
        sidecar.start()
        plain = engine.run("run", "-d", "--name", names[0], made.image, *SLEEP).strip()
        owner = engine.run("run", "-d", "--label", "cpuset.exclusive=1", "--name", names[1], made.image, *SLEEP).strip()
        sidecar.until(owner, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
        assert (kernel.once_running(owner), kernel.once_running(plain)) == (LAST, REST)
        engine.run("rm", "-f", "-t0", names[1])
        eventually(lambda: kernel.allowed(plain) == online(), "given back")
    finally:
        engine.run("rm", "-f", "-t0", "--ignore", *names)


def test_a_successor_that_starts_right_after_a_removal_gets_the_cpus(
    engine: PrivatePodman, made: Containers, sidecar: SidecarProcess, kernel: KernelView
) -> None:
    """Podman tells late of the removal, and the start is not refused for what is gone."""
    sidecar.start()
    owner = made.run("owner-0", labels={"cpuset.exclusive": "1"})
    for turn in range(1, 13):
        eventually(partial(runs_on, kernel, owner, LAST), "granted")
        successor = made.create(f"owner-{turn}", labels={"cpuset.exclusive": "1"})
        sidecar.until(successor, lambda it: bool(it.refusal), "refused before its start")
        # Podman's log of events is read more seldom when nothing comes.
        time.sleep(0.6)
        engine.api.remove(owner)
        engine.api.act(successor, "start")
        owner = successor
    eventually(partial(runs_on, kernel, owner, LAST), "granted")


def runs_on(kernel: KernelView, id: str, cpus: CPUSet) -> bool:
    """Return whether the kernel allows a container just these CPUs."""
    return kernel.allowed(id) == cpus


def test_a_limit_that_an_update_brings_is_lifted_though_podman_does_not_tell_it(
    engine: PrivatePodman, made: Containers, sidecar: SidecarProcess
) -> None:
    """Before 5.1 no event and no inspect shows it: the kernel does. Until it is lifted the container is not alone."""
    sidecar.configure(reconcile_period="2s")
    sidecar.start()
    owner = made.run("owner", labels={"cpuset.exclusive": "1"})
    sidecar.until(owner, lambda it: it.is_settled and it.is_alone, "alone")
    pid = engine.api.inspect(owner)["State"]["Pid"]
    # Awake it could lift the limit before that is read here.
    sidecar.freeze()
    engine.run("update", "--cpus", "0.5", owner)
    updated = quota_of(pid)
    sidecar.thaw()
    assert updated == 0.5
    eventually(lambda: (quota_of(pid) or len(online())) >= len(online()), "it is lifted")
    sidecar.until(owner, lambda it: it.is_settled and it.is_alone, "alone again")


@pytest.mark.trio
async def test_a_value_that_the_runtime_refuses_does_not_stay(engine: PrivatePodman, made: Containers) -> None:
    """Podman keeps it, and would never start the container again: the old value is written over it."""
    one = await trio.to_thread.run_sync(lambda: made.run("one"))
    async with open_engine(f"unix://{engine.socket_path}", machine=Credulous()) as podman:
        await podman.update(one, Update(cpus=REST))
        with pytest.raises(EngineFailed):
            await podman.update(one, Update(cpus=ABSENT))
        assert (await podman.inspect(one)).cpuset == str(REST)
        await trio.to_thread.run_sync(lambda: engine.api.act(one, "restart", t="0"))
        assert (await podman.inspect(one)).phase is Phase.RUNNING


@pytest.mark.trio
async def test_a_start_that_hangs_hides_nobody(engine: PrivatePodman, made: Containers, tmp_path: Path) -> None:
    """While it holds its lock, no look at it is possible; but a glance and a list are, and others are looked at and
    updated.
    """
    other = await trio.to_thread.run_sync(lambda: made.run("other"))
    async with open_engine(f"unix://{engine.socket_path}", BRIEF, machine=HostKernel()) as podman:
        info = await podman.info()
        assert other in await podman.containers()
        name = f"{made.prefix}-slow"
        words = ("create", "--label", "cpuset.exclusive=1", "--name", name, made.image, *SLEEP)
        runtime, go = slow_runtime(tmp_path), tmp_path / "go"
        slow = (await trio.to_thread.run_sync(lambda: engine.run("--runtime", str(runtime), *words))).strip()
        starting = threading.Thread(target=lambda: engine.run("start", slow))
        starting.start()
        try:
            await trio.to_thread.run_sync(lambda: eventually((tmp_path / "held").exists, "the lock is held"))
            with pytest.raises(EngineSilent):
                await podman.inspect(slow)
            glance = await podman.glance(slow)
            assert (glance.name, glance.labels) == (name, {"cpuset.exclusive": "1"})
            assert {slow, other} <= set(await podman.containers())
            assert await podman.info() == info
            await podman.update(other, Update(cpus=REST))
            assert (await podman.inspect(other)).cpuset == str(REST)
        finally:
            go.touch()
            await trio.to_thread.run_sync(starting.join)
            await trio.to_thread.run_sync(lambda: engine.run("rm", "-f", "-t0", slow))


def slow_runtime(folder: Path) -> Path:
    """Return an OCI runtime that prints `held` when it is asked to create, and waits for `go`."""
    real = shutil.which("runc") or shutil.which("crun")
    assert real is not None
    script = folder / "slow-runtime"
    waits = f'*" create "*) touch {folder}/held; while [ ! -e {folder}/go ]; do sleep 0.05; done;;'
    script.write_text(f'#!/bin/sh\ncase " $* " in {waits} esac\nexec {real} "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script
