"""The engine's socket: moved away, removed, replaced by another engine's, closed to the sidecar; and restored."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.containers import Containers
from tests.live.image import ensure_image
from tests.live.kernelview import KernelView
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import eventually
from tests.live.watching import ONE, WAITING, given_back, problems, saved_books, until_alone, until_shared, watched

pytestmark = pytest.mark.live


@pytest.fixture
def other_engine(own_engine: PrivateEngine) -> Iterator[PrivateEngine]:
    """Provide a second engine of the same kind."""
    engine = type(own_engine)()
    try:
        engine.start()
        yield engine
    finally:
        engine.close()


@pytest.fixture
def door(own_engine: PrivateEngine, sidecar: SidecarProcess, tmp_path: Path) -> Iterator[Path]:
    """Provide the path where the sidecar looks for the socket: present at first, and restored at the end."""
    path = Path(own_engine.socket_path)
    away = path.with_name("away.sock")
    yield path
    if away.exists():
        away.replace(path)


def test_a_socket_that_is_moved_away_is_waited_for(
    door: Path, sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """Nothing is forgotten meanwhile, and what happened meanwhile is seen afterwards."""
    sidecar.start()
    neighbour, owner = workloads.run("neighbour"), workloads.run("owner", labels=ONE)
    until_alone(sidecar, owner)
    away = door.with_name("away.sock")
    with watched(sidecar, neighbour, owner):
        door.rename(away)
        eventually(lambda: "no such socket" in problems(sidecar), "said")
        eventually(lambda: not sidecar.status().is_ready, "the sidecar knows")
        eventually(lambda: sidecar.has_logged("the engine cannot be reached"), "logged")
        workloads.api.socket_path = str(away)
        try:
            workloads.api.remove(owner)
            heir = workloads.run("heir", labels=ONE)
        finally:
            workloads.api.socket_path = str(door)
        away.rename(door)
        until_alone(sidecar, heir)
        until_shared(sidecar, neighbour)
    assert (kernel.allowed(heir), kernel.allowed(neighbour)) == (LAST, REST)
    eventually(lambda: not problems(sidecar), "the stream is back, too")
    given_back(sidecar, workloads, {heir: {}, neighbour: {}})


@pytest.mark.slow
def test_a_socket_that_is_removed_is_back_with_the_engines_restart(
    own_engine: PrivateEngine, door: Path, sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """An engine does not recreate it by itself. Its containers live on."""
    own_engine.stop()
    own_engine.start(live_restore=True)
    sidecar.start()
    neighbour, owner = workloads.run("neighbour"), workloads.run("owner", labels=ONE)
    until_alone(sidecar, owner)
    door.unlink()
    eventually(lambda: "no such socket" in problems(sidecar), "said")
    assert kernel.allowed(owner) == LAST
    own_engine.stop()
    own_engine.start(live_restore=True)
    until_alone(sidecar, owner)
    until_shared(sidecar, neighbour)
    assert (kernel.allowed(owner), kernel.allowed(neighbour)) == (LAST, REST)
    given_back(sidecar, workloads, {owner: {}, neighbour: {}})


def test_another_engine_behind_the_socket_is_not_believed(
    own_engine: PrivateEngine,
    other_engine: PrivateEngine,
    door: Path,
    sidecar: SidecarProcess,
    workloads: Containers,
    kernel: KernelView,
) -> None:
    """It lists none of the containers: they are not taken for gone. Its own are left alone."""
    if own_engine.api.is_podman:
        pytest.skip("two Podmans cannot be told apart: they have no lasting id")
    sidecar.start()
    neighbour, owner = workloads.run("neighbour"), workloads.run("owner", labels=ONE)
    until_alone(sidecar, owner)
    until_shared(sidecar, neighbour)
    before = saved_books(sidecar, neighbour, owner)
    elsewhere = Containers(other_engine.api, ensure_image(other_engine.api))
    stranger = elsewhere.run("stranger")
    away = door.with_name("away.sock")
    door.rename(away)
    door.symlink_to(other_engine.socket_path)
    eventually(lambda: "another engine answers" in problems(sidecar), "said")
    assert sidecar.books().assignments == before.assignments
    assert sidecar.books().originals == before.originals
    assert kernel.allowed(owner) == LAST
    assert sidecar.projection(owner).cpus == LAST  # type: ignore[union-attr]
    assert elsewhere.api.inspect(stranger)["HostConfig"]["CpusetCpus"] == ""
    away.replace(door)
    until_alone(sidecar, owner)
    until_shared(sidecar, neighbour)
    assert (kernel.allowed(owner), kernel.allowed(neighbour)) == (LAST, REST)
    given_back(sidecar, workloads, {owner: {}, neighbour: {}})


def test_a_socket_that_is_shut_to_the_sidecar_is_waited_for(
    door: Path, sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """It reports the missing permission. Root ignores file modes, so this sidecar is root without that capability."""
    if os.geteuid() != 0:
        pytest.skip("a sidecar with fewer powers is started by root")
    sidecar.wrapper = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all")
    sidecar.start()
    first, second = workloads.run("first", labels=ONE), workloads.run("second", labels=WAITING)
    until_alone(sidecar, first)
    mode = door.stat().st_mode
    with watched(sidecar, first, second):
        door.chmod(0)
        try:
            # An open connection needs no new permission: this many looks at once need new ones.
            late = workloads.run("late")
            more = [workloads.create(f"more-{number}") for number in range(12)]
            sidecar.hang_up()
            eventually(lambda: "permission denied" in problems(sidecar), "said", seconds=30)
            assert kernel.allowed(first) == LAST
        finally:
            door.chmod(mode)
        for each in more:
            workloads.api.remove(each)
        workloads.api.remove(first)
        until_alone(sidecar, second)
        until_shared(sidecar, late)
    assert (kernel.allowed(second), kernel.allowed(late)) == (LAST, REST)
    given_back(sidecar, workloads, {second: {}, late: {}})
