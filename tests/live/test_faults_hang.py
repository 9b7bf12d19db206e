"""Engines that hang: frozen with SIGSTOP for longer than the sidecar's timeouts; or one container's runtime hangs.

The sidecar of these tests has timeouts of two and three seconds where the real one has ten and thirty, except in the
test of its end.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.churn import Churn
from tests.live.containers import Containers
from tests.live.kernelview import KernelView, online
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarfixtures import Ground
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.stage import ask
from tests.live.waiting import PATIENCE, eventually
from tests.live.watching import NANO, ONE, WAITING, given_back, problems, reasons, until_alone, until_shared, watched
from tests.support.keys import by_id

pytestmark = pytest.mark.live

CPUS = {"NanoCpus": NANO}
SILENT = "did not answer within"


@pytest.fixture
def impatient(sidecar: SidecarProcess) -> SidecarProcess:
    """Return such a sidecar, not started yet."""
    sidecar.module = "tests.live.impatient"
    return sidecar


def test_an_engine_that_hangs_is_said_and_caught_up_with(
    own_engine: PrivateEngine, impatient: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """No container is moved and no projection changes. Users' requests from that time take effect afterwards, all at
    once.
    """
    impatient.start()
    neighbour, owner = workloads.run("neighbour"), workloads.run("owner", labels=ONE, **CPUS)
    heir = workloads.run("heir", labels=WAITING)
    until_alone(impatient, owner)
    with watched(impatient, neighbour, owner, heir):
        own_engine.freeze()
        try:
            removing = threading.Thread(target=workloads.api.remove, args=(owner,))
            removing.start()
            eventually(lambda: not impatient.status().is_ready, "the sidecar knows")
            eventually(lambda: SILENT in problems(impatient), "said")
            logged = eventually(lambda: reasons(impatient, "the engine cannot be reached"), "logged")
            assert SILENT in logged[0]
            assert "error" in ask(impatient.state_dir, "GET", "/readyz")
            doctor = impatient.command("doctor")
            assert doctor.returncode == 1
            assert SILENT in doctor.stdout
            assert SILENT in impatient.command("status").stdout
            assert kernel.allowed(owner) == LAST
            assert impatient.projection(owner).cpus == LAST  # type: ignore[union-attr]
        finally:
            own_engine.thaw()
        removing.join(60)
        until_alone(impatient, heir)
        until_shared(impatient, neighbour)
    impatient.until_quiet()
    eventually(lambda: not problems(impatient), "nothing is wrong any more")
    assert (kernel.allowed(heir), kernel.allowed(neighbour)) == (LAST, REST)
    assert set(by_id(impatient.books().assignments)) == {heir}
    given_back(impatient, workloads, {heir: {}, neighbour: {}})


@contextmanager
def static_from_now_on(
    engine: PrivateEngine, sidecar: SidecarProcess, workloads: Containers, **settings: str
) -> Iterator[tuple[str, str]]:
    """Start a neighbour and an owner under the policy none; yield their ids while the engine hangs and the policy is
    static. Then the owner is alone, and everything can be given back.
    """
    kernel = KernelView()
    sidecar.configure(policy="none", **settings)
    sidecar.start()
    neighbour, owner = workloads.run("neighbour"), workloads.run("owner", labels=ONE, **CPUS)
    for each in (neighbour, owner):
        sidecar.until(each, lambda it: it.phase == "running", "seen")
    with watched(sidecar, neighbour, owner):
        engine.freeze()
        try:
            # The connection is fine as far as anybody knows, so the new policy's orders are sent.
            sidecar.configure(policy="static")
            sidecar.reload()
            yield neighbour, owner
        finally:
            engine.thaw()
        until_alone(sidecar, owner)
        until_shared(sidecar, neighbour)
    assert (kernel.allowed(owner), kernel.allowed(neighbour)) == (LAST, REST)
    given_back(sidecar, workloads, {owner: CPUS, neighbour: {}})


def test_orders_that_a_hanging_engine_has_are_neither_lost_nor_doubled(
    own_engine: PrivateEngine, impatient: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """The engine alone moves containers: its orders are given up after a while, and carried out all the same once it
    goes on. In the end the State prevails.
    """
    with static_from_now_on(own_engine, impatient, workloads, hand="off") as (neighbour, owner):
        eventually(lambda: reasons(impatient, "an order failed"), "given up")
        assert SILENT in reasons(impatient, "an order failed")[0]
        assert kernel.allowed(neighbour) == kernel.allowed(owner) == online()
        told = impatient.projection(owner)
        assert told is None or not told.settled


def test_an_engine_that_hangs_holds_up_no_move(
    own_engine: PrivateEngine, impatient: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """The hand needs no engine to move containers. Its records follow once the engine goes on, and limits with them."""
    with static_from_now_on(own_engine, impatient, workloads) as (neighbour, owner):
        eventually(lambda: (kernel.allowed(owner), kernel.allowed(neighbour)) == (LAST, REST), "moved")


def test_a_sidecar_is_told_to_end_while_its_engine_hangs(
    own_engine: PrivateEngine, sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """It waits briefly for the answer to its outstanding order, and ends. The next one repairs the rest."""
    sidecar.configure(policy="none", hand="off")
    sidecar.start()
    neighbour, owner = workloads.run("neighbour"), workloads.run("owner", labels=ONE, **CPUS)
    sidecar.until(owner, lambda it: it.phase == "running", "seen")
    own_engine.freeze()
    try:
        sidecar.configure(policy="static")
        sidecar.reload()
        eventually(lambda: sidecar.container(neighbour).pending, "an order is sent")  # type: ignore[union-attr]
        assert sidecar.terminate() == 0
        assert sidecar.has_logged("stopping")
        assert kernel.allowed(owner) == online()
        assert set(by_id(sidecar.books().originals)) == {neighbour, owner}
        # A sidecar that starts now reports what is wrong, and waits.
        sidecar.module = "tests.live.impatient"
        sidecar.start(until_ready=False)
        eventually(lambda: SILENT in sidecar.log(), "said")
        assert not sidecar.has_logged("ready")
    finally:
        own_engine.thaw()
    sidecar.until_ready()
    until_alone(sidecar, owner)
    until_shared(sidecar, neighbour)
    assert (kernel.allowed(owner), kernel.allowed(neighbour)) == (LAST, REST)
    given_back(sidecar, workloads, {owner: CPUS, neighbour: {}})


def test_a_container_whose_runtime_hangs_holds_up_no_other(
    own_engine: PrivateEngine, impatient: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """Requests about it hang, and it keeps its CPUs. Its name is reported; all others are served."""
    impatient.configure(policy="none")
    impatient.start()
    stuck = workloads.run("stuck")
    impatient.until(stuck, lambda it: it.phase == "running", "seen")
    shim = _shim(stuck)
    os.kill(shim, signal.SIGSTOP)
    # It waits in vain with the container's lock held, for which every inspect waits.
    pausing = threading.Thread(target=workloads.api.act, args=(stuck, "pause"))
    try:
        pausing.start()
        impatient.configure(policy="static")
        impatient.reload()
        name = f"{workloads.prefix}-stuck"
        eventually(lambda: f"cannot be inspected: {name}" in problems(impatient), "it is said")
        owner, late = workloads.run("owner", labels=ONE), workloads.run("late")
        until_shared(impatient, late)
        assert kernel.once_running(late) == REST
        # It waits for its own order first.
        impatient.until(owner, lambda it: name in it.waits_for, "what it waits for is said")
        assert not eventually(lambda: impatient.projection(owner), "it is told").settled
        assert impatient.status().is_ready
    finally:
        os.kill(shim, signal.SIGCONT)
    pausing.join(60)
    until_alone(impatient, owner)
    until_shared(impatient, stuck)
    assert (kernel.allowed(owner), kernel.allowed(stuck)) == (LAST, REST)
    eventually(lambda: not problems(impatient), "nothing is wrong any more")
    workloads.api.act(stuck, "unpause")
    given_back(impatient, workloads, {stuck: {}, owner: {}, late: {}})


@pytest.mark.slow
def test_an_engine_hangs_again_and_again_under_churn(ground: Ground, own_engine: PrivateEngine, tmp_path: Path) -> None:
    """For less and for more than the sidecar's timeout, at any moment: State, files and kernel agree afterwards, and no
    container was ever called alone wrongly.
    """
    churn = Churn(ground.api, tmp_path, seed=25, is_private=True)
    churn.sidecar.module = "tests.live.impatient"

    def hang() -> None:
        churn.sidecar.until_ready()
        for seconds in (0.5, 5.0, 1.0):
            time.sleep(1.0 * PATIENCE)
            own_engine.freeze()
            time.sleep(seconds * PATIENCE)
            own_engine.thaw()

    report = churn.run(meanwhile=hang)
    assert report.violations == []
    assert report.containers > 5
    assert churn.sidecar.has_logged("the engine cannot be reached")


def _shim(id: str) -> int:
    """Return the process through which the engine's containerd controls a container."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_text(errors="replace").split("\0")
        except OSError:
            continue
        if "-id" in words and words[words.index("-id") + 1] == id and "shim" in words[0]:
            return int(entry.parent.name)
    pytest.skip("this engine runs its containers without a shim that could be found")
