"""The sidecar as a user of its own, without capabilities: it does all that an engine can be asked for."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.status.document import SharingStatus
from tests.live.alonejudge import judged_alone
from tests.live.containers import Containers
from tests.live.engineapi import ApiError, api_at
from tests.live.kernelview import KernelView
from tests.live.privateengine import PrivateEngine
from tests.live.privatepodman import asked_engine
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.unprivileged import USER, open_folder, unprivileged
from tests.live.waiting import eventually
from tests.support.haproxy import haproxy

pytestmark = pytest.mark.live


@pytest.fixture
def folder() -> Iterator[Path]:
    """Provide a folder that the sidecar's user may enter."""
    with open_folder() as made:
        yield made


@pytest.fixture
def process(folder: Path, own_engine: PrivateEngine) -> Iterator[SidecarProcess]:
    """Provide a sidecar of that user; its `engine` is still to be set."""
    if asked_engine() == "rootless":
        pytest.skip("a rootless engine is its user's, and so is the sidecar; the other engines have this test")
    home = folder / "home"
    home.mkdir()
    os.chown(home, USER, USER)
    made = SidecarProcess(home, own_engine.socket_path)
    made.wrapper = unprivileged(folder)
    made.configure(hand="off")
    (home / "sidecar.toml").chmod(0o644)
    with judged_alone(made, intrudes=False):
        yield made
        made.kill()


def grant_and_release(process: SidecarProcess, workloads: Containers, kernel: KernelView) -> None:
    """Have a container get a CPU of its own beside another, and give it back."""
    plain = workloads.run("plain")
    process.start()
    powers = Path(f"/proc/{process.pid}/status").read_text()
    assert f"Uid:\t{USER}\t{USER}\t{USER}\t{USER}\n" in powers
    assert "CapEff:\t0000000000000000\n" in powers
    assert "NoNewPrivs:\t1\n" in powers
    alone = workloads.run("alone", labels={"cpuset.exclusive": "1"})
    status = process.until(alone, lambda each: each.is_alone, "it is alone")
    assert status.sharing is SharingStatus.EXCLUSIVE
    assert (kernel.once_running(alone), kernel.allowed(plain)) == (LAST, REST)
    # Files follow the status.
    eventually(lambda: (told := process.projection(alone)) is not None and told.cpus == LAST, "it is told")
    workloads.api.remove(alone)
    process.until(plain, lambda each: each.cpus == LAST | REST, "the other has all CPUs")
    assert process.terminate() == 0


def test_through_the_proxy_it_pins_and_can_do_nothing_else(
    process: SidecarProcess, folder: Path, own_engine: PrivateEngine, workloads: Containers, kernel: KernelView
) -> None:
    """Its socket is one of the proxy's, at which no container can be made or entered."""
    socket = folder / "engine.sock"
    with haproxy(Path(own_engine.socket_path), socket):
        process.configure(engine=f"unix://{socket}")
        grant_and_release(process, workloads, kernel)
        behind = api_at(str(socket))
        [other] = workloads.made[:1]
        assert behind.ask("GET", f"containers/{other}/json")["Id"] == other
        for method, path in (("POST", "containers/create"), ("POST", f"containers/{other}/exec")):
            with pytest.raises(ApiError) as refused:
                behind.ask(method, path)  # a body would be refused before it is sent
            assert refused.value.status == 403


def test_the_group_of_the_socket_is_enough(
    process: SidecarProcess, own_engine: PrivateEngine, workloads: Containers, kernel: KernelView
) -> None:
    """Without a proxy, a member of that group does all of it, too."""
    socket = Path(own_engine.socket_path)
    before = socket.stat()
    os.chown(socket, -1, USER)
    socket.chmod(0o660)
    own_engine.folder.chmod(0o711)
    try:
        grant_and_release(process, workloads, kernel)
    finally:
        own_engine.folder.chmod(0o700)
        os.chown(socket, -1, before.st_gid)
        socket.chmod(stat.S_IMODE(before.st_mode))
