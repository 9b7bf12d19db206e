"""The runtime that asks before Podman's own: under its name, also for containers that were created before."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from sidecar.cli.setup.podman_monitors import monitored
from sidecar.host.install.fronts import front_files, gone_files, passing_files
from sidecar.host.install.podman_runtimes import ENGINE, PodmanRuntimes, drop_in, front_before
from sidecar.host.install.runtime_files import Installation, Places, carry_out, runtime_files
from tests.live.alonejudge import judged_alone
from tests.live.image import ensure_image
from tests.live.kernelview import KernelView, online, quota_of
from tests.live.privateengine import NoPrivateEngine, running
from tests.live.privatepodman import PrivatePodman
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import eventually

pytestmark = [pytest.mark.live, pytest.mark.slow]

EXCLUSIVE = ("--label", "cpuset.exclusive=1", "--annotation", "cpuset.exclusive=1")
STAY = ("sleep", "1000")


class Podman:
    """Podman's own client, on an engine whose default runtime can be put behind a front."""

    def __init__(self, engine: PrivatePodman, folder: Path) -> None:
        self.engine = engine
        self.image = ensure_image(engine.api)
        self.sidecar = SidecarProcess(folder, engine.socket_path)
        self.places = Places(str(engine.folder / "strict"), str(engine.folder / "containers"))
        self.before = engine.configuration.read_text()
        self.log = engine.folder / "calls"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [*self.engine.command, "run", "--network", "host", *words]
        return subprocess.run(
            command, env=self.engine.environment, capture_output=True, text=True, timeout=120, check=False
        )

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [*self.engine.command, *words]
        return subprocess.run(
            command, env=self.engine.environment, capture_output=True, text=True, timeout=120, check=False
        )

    def install(self, monkeypatch: pytest.MonkeyPatch) -> str:
        """Put the default runtime behind a front; return its name. The service reads that when it starts again."""
        with monkeypatch.context() as patch:
            patch.setenv("CONTAINERS_CONF", str(self.engine.configuration))
            found = PodmanRuntimes("/", self.places)
        self.front = front_before(found, found.usual())
        made = Installation(
            real=self.front.real,
            python=sys.executable,
            socket=str(self.sidecar.state_dir / "api.sock"),
            projections=str(self.sidecar.projections),
            patience=3,
        )
        planned = drop_in(self.places, [self.front])
        files = (*runtime_files(self.places, made), *front_files(self.places, made, self.front), planned)
        carry_out("/", list(files))
        # CONTAINERS_CONF names the only file that is read: the drop-in is appended to it.
        assert planned.content is not None
        self.engine.configuration.write_text(self.before + planned.content.decode())
        self.restart()
        return self.front.name

    def restart(self) -> None:
        self.engine.stop()
        self.engine.start()


@pytest.fixture
def podman(tmp_path: Path) -> Iterator[Podman]:
    """Yield a Podman of the test's own; its sidecar is not started."""
    try:
        engine = PrivatePodman()
    except NoPrivateEngine as error:
        pytest.skip(str(error))
    try:
        running(engine)
        made = Podman(engine, tmp_path)
        try:
            with judged_alone(made.sidecar, intrudes=False):
                yield made
        finally:
            made.sidecar.kill()
    except NoPrivateEngine as error:
        pytest.skip(str(error))
    finally:
        engine.close()


def test_all_of_them_start_where_they_belong_under_the_name_that_they_have(
    podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Podman records the name with each container, and decides by it what a runtime can do."""
    assert podman.run("-d", "--name", "old", podman.image, *STAY).returncode == 0
    name = podman.install(monkeypatch)
    podman.sidecar.start()
    one = podman.run("-d", "--name", "one", *EXCLUSIVE, podman.image, *STAY)
    assert one.returncode == 0, one.stderr
    kernel = KernelView()
    assert kernel.once_running(one.stdout.strip()) == LAST
    plain = podman.run("--rm", podman.image, "grep", "Cpus_allowed_list", "/proc/self/status")
    assert plain.stdout.split()[1:] == [str(REST)], plain.stderr
    assert podman.call("restart", "-t0", "old").returncode == 0
    assert podman.call("inspect", "--format", "{{.OCIRuntime}}", "old").stdout.strip() == name
    front = podman.places.front(ENGINE, name)
    # The monitor of one that has ended may still clean up behind it.
    eventually(lambda: monitored(front) == ["old", "one"], "these two have monitors")
    refused = podman.run("--rm", *EXCLUSIVE, "--annotation", "cpuset.on-shortage=stop", podman.image, "true")
    assert "asked for 1 exclusive CPU, 0 free" in refused.stderr


def has_limit(pid: int, cpus: float) -> bool:
    return quota_of(pid) == cpus


def test_the_limit_that_a_start_lifted_comes_back(podman: Podman, monkeypatch: pytest.MonkeyPatch) -> None:
    """Podman shows the limit that the runtime wrote, so what people asked for is recorded from the runtime's question:
    for one that is released alone, and for one that is released when the daemon has ended.
    """
    podman.install(monkeypatch)
    podman.sidecar.start()
    for ends in (False, True):
        done = podman.run("-d", "--name", "own", "--cpus", "1", *EXCLUSIVE, podman.image, *STAY)
        assert done.returncode == 0, done.stderr
        own, pid = done.stdout.strip(), int(podman.call("inspect", "--format", "{{.State.Pid}}", "own").stdout)
        podman.sidecar.until(own, lambda it: it.is_settled and it.is_quota_lifted, "alone, without a limit")
        assert (quota_of(pid) or len(online())) >= len(online())
        if ends:
            assert podman.sidecar.terminate() == 0
        released = podman.sidecar.command("release", *([] if ends else ["own"]))
        assert released.returncode == 0, released.stdout + released.stderr
        eventually(partial(has_limit, pid, 1.0), "it has its limit again")
        assert podman.call("rm", "-f", "-t0", "own").returncode == 0


def test_without_a_sidecar_plain_ones_start_and_what_was_taken_away_lives_on(
    podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next path of the name is the real runtime: also if the front's file is gone before Podman knows that."""
    name = podman.install(monkeypatch)
    assert podman.run("-d", "--name", "one", podman.image, *STAY).returncode == 0
    refused = podman.run("--rm", *EXCLUSIVE, podman.image, "true")
    assert "nothing answers on" in refused.stderr
    carry_out("/", list(passing_files(podman.places, podman.front)))
    assert podman.run("--rm", *EXCLUSIVE, podman.image, "true").returncode == 0
    carry_out("/", list(gone_files(podman.places, podman.front)))
    assert podman.call("exec", "one", "true").returncode == 0
    assert podman.call("restart", "-t0", "one").returncode == 0
    eventually(lambda: not monitored(podman.places.front(ENGINE, name)), "the monitor of its last run has ended")
    podman.engine.configuration.write_text(podman.before)
    podman.restart()
    assert podman.call("restart", "-t0", "one").returncode == 0
    eventually(lambda: podman.run("--rm", podman.image, "true").returncode == 0, "Podman starts containers")


def test_exec_begins_where_the_label_says(podman: Podman, monkeypatch: pytest.MonkeyPatch) -> None:
    """The label is in no bundle, and the sidecar knows it. Nothing changes while no sidecar runs."""
    podman.install(monkeypatch)
    podman.sidecar.start()
    made = podman.run("-d", "--name", "judged", "--label", "cpuset.exec=last", podman.image, *STAY)
    assert made.returncode == 0, made.stderr
    show = ("exec", "judged", "grep", "Cpus_allowed_list", "/proc/self/status")
    eventually(lambda: podman.call(*show).stdout.split()[1:] == [str(LAST)], "a process begins on its last CPU")
    podman.sidecar.kill()
    assert podman.call(*show).stdout.split()[1:] == [str(LAST)]
    assert KernelView().once_running(made.stdout.strip()) == LAST | REST
