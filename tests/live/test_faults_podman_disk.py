"""Podman's own storage is full: it starts, ends and forgets nothing, and still moves what runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.live.alonejudge import judged_alone
from tests.live.containers import Containers
from tests.live.engineapi import ApiError
from tests.live.image import ensure_image
from tests.live.kernelview import KernelView, online
from tests.live.privateengine import NoPrivateEngine, running
from tests.live.privatepodman import PrivatePodman
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.smalldisk import SmallDisk, small_disk
from tests.live.waiting import eventually
from tests.live.watching import ONE, until_alone, until_shared, watched

pytestmark = pytest.mark.live


class Ground:
    """A Podman whose storage, run folder and log of events are on small file systems."""

    def __init__(self, engine: PrivatePodman, disks: tuple[SmallDisk, ...]) -> None:
        self.engine = engine
        self.made = Containers(engine.api, ensure_image(engine.api))
        self._disks = disks

    def fill(self) -> None:
        """Leave no room on any of them."""
        for disk in self._disks:
            disk.fill()

    def free(self) -> None:
        """Free the room again."""
        for disk in self._disks:
            disk.free()


@pytest.fixture
def ground() -> Iterator[Ground]:
    """Yield one, with room."""
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    if len(online()) < 2:
        pytest.skip("a machine with one CPU has none to give")
    try:
        engine = PrivatePodman()
    except NoPrivateEngine as error:
        pytest.skip(str(error))
    with ExitStack() as stack:
        sizes = {"root": "64m", "tmp": "8m"}
        disks = tuple(stack.enter_context(small_disk(engine.folder / name, size)) for name, size in sizes.items())
        stack.callback(engine.close)
        try:
            running(engine)
        except NoPrivateEngine as error:
            pytest.skip(str(error))
        made = Ground(engine, disks)
        yield made
        made.free()


@pytest.fixture
def sidecar(ground: Ground, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SidecarProcess]:
    """Yield a daemon that is not started; what it tells is judged."""
    process = SidecarProcess(tmp_path, ground.engine.socket_path)
    with judged_alone(process, intrudes=request.node.get_closest_marker("intrudes") is not None):
        yield process
        process.kill()


@pytest.mark.intrudes("a neighbour is updated onto the CPU of the owner")
@pytest.mark.parametrize("hand", ["auto", "off"])
def test_an_engine_that_finds_no_room_is_told_where_its_containers_run(
    ground: Ground, sidecar: SidecarProcess, kernel: KernelView, hand: str
) -> None:
    """It refuses starts, and what is moved behind the back is put back. One that ends is called running on, until the
    engine can write that down: it keeps its CPUs. With room again all goes on.
    """
    made = ground.made
    sidecar.configure(hand=hand)
    sidecar.start()
    neighbour, owner = made.run("neighbour"), made.run("owner", labels=ONE)
    until_alone(sidecar, owner)
    waiting = made.create("waiting", labels=ONE)
    until_shared(sidecar, neighbour)
    with watched(sidecar, neighbour, owner) as watcher:
        ground.fill()
        with pytest.raises(ApiError, match="no space left"):
            made.run("refused", labels=ONE)
        with watcher.pause:
            ground.engine.run("update", "--cpuset-cpus", str(LAST), neighbour)
            eventually(lambda: kernel.allowed(neighbour) == REST, "it is put back")
        assert kernel.allowed(owner) == LAST
        watcher.forget(owner)
        kernel.end(owner)
        eventually(lambda: not kernel.members(owner), "it has ended")
        with pytest.raises(ApiError, match="no space left"):
            ground.engine.api.act(waiting, "start")
        assert ground.engine.api.inspect(owner)["State"]["Status"] == "running"
        assert kernel.allowed(neighbour) == REST
        ground.free()
        eventually(lambda: is_removed(ground.engine, owner), "it can be removed")
        # Podman tells of a removal late, and a start that comes before it is refused for good.
        eventually(lambda: sidecar.container(owner) is None, "the sidecar has heard of it")
        ground.engine.api.act(waiting, "start")
        until_alone(sidecar, waiting)
        until_shared(sidecar, neighbour)
        # It was granted CPUs before its start, and this Podman starts it outside of them.
        eventually(lambda: kernel.allowed(waiting) == LAST, "it runs on its CPUs")
    assert kernel.allowed(neighbour) == REST
    assert sidecar.is_running
    made.made.remove(owner)
    made.remove_all()


def is_removed(engine: PrivatePodman, id: str) -> bool:
    """Remove a container by the command, as people do that find it stuck; return whether it is gone."""
    try:
        engine.run("rm", "-f", "-t0", id)
    except AssertionError:
        return False
    return True
