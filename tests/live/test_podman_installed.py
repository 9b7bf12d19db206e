"""`install-runtime --for podman` itself, on a Podman that has /etc/containers for itself: used, renewed, taken away."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sidecar.host.install.front_program import find_program, is_compiled
from sidecar.host.install.podman_runtimes import ENGINE
from sidecar.host.install.runtime_files import Places
from tests.live.alonejudge import judged_alone
from tests.live.image import ensure_image
from tests.live.kernelview import KernelView
from tests.live.privateengine import NoPrivateEngine, running
from tests.live.privatepodman import PrivatePodman
from tests.live.sidecarprocess import LAST, REST, ROOT, SidecarProcess
from tests.live.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.live, pytest.mark.slow]

EXCLUSIVE: Final = ("--label", "cpuset.exclusive=1", "--annotation", "cpuset.exclusive=1")
STAY: Final = ("sleep", "1000")
SHOW: Final = ("grep", "Cpus_allowed_list", "/proc/self/status")

LOGGED: Final = "logged"
"""The default runtime of before: a script that logs its calls, and calls the real one."""

_HOLD: Final = 'mount --bind "$1" /etc/containers && touch "$1/held" && exec sleep infinity'


class OwnSettingsPodman(PrivatePodman):
    """A Podman that reads its settings where Podman usually does, in a mount namespace with another /etc/containers."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = self.folder / "etc"
        shutil.copytree("/etc/containers", self.settings)
        self.log, script = self.folder / "calls", self.folder / "logged-runtime"
        self.log.write_text("")
        written = self.configuration.read_text()
        real = "crun" if 'runtime = "crun"' in written else "runc"
        script.write_text(f'#!/bin/sh\necho "$@" >>{self.log}\nexec {real} "$@"\n')
        script.chmod(0o755)
        own = written.replace(f'runtime = "{real}"', f'runtime = "{LOGGED}"')
        table = f'[engine.runtimes]\n{LOGGED} = ["{script}"]\n'
        (self.settings / "containers.conf").write_text(own + table)
        hold = ("unshare", "--mount", "--propagation", "private", "sh", "-c", _HOLD, "sh", str(self.settings))
        self._holder = subprocess.Popen(hold)
        eventually((self.settings / "held").exists, "it has its own settings")
        (self.settings / "held").unlink()

    @property
    def environment(self) -> dict[str, str]:
        return {key: value for key, value in os.environ.items() if not key.startswith("CONTAINERS_")}

    @property
    def within(self) -> tuple[str, ...]:
        """Return what is put before a command that shall see these settings."""
        return ("nsenter", "--mount", "--target", str(self._holder.pid), f"--wd={ROOT}")

    @property
    def command(self) -> tuple[str, ...]:
        return (*self.within, *super().command)

    def close(self) -> None:
        super().close()
        self._holder.kill()
        self._holder.wait()

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the command; return what came of it."""
        command, environment = [*self.command, *words], self.environment
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)

    def creations(self) -> int:
        """Return how many containers the runtime of before was called to create."""
        return sum("create" in line.split() for line in self.log.read_text().splitlines())


@pytest.fixture
def podman() -> Iterator[OwnSettingsPodman]:
    """Yield a Podman of the test's own, with a default runtime of its own."""
    try:
        engine = OwnSettingsPodman()
    except NoPrivateEngine as error:
        pytest.skip(str(error))
    try:
        yield running(engine)
    except NoPrivateEngine as error:
        pytest.skip(str(error))
    finally:
        engine.close()


@pytest.fixture
def sidecar(podman: OwnSettingsPodman, tmp_path: Path) -> Iterator[SidecarProcess]:
    """Yield its sidecar, started."""
    made = SidecarProcess(tmp_path, podman.socket_path)
    with judged_alone(made, intrudes=False):
        made.start()
        yield made
        made.kill()


def install(podman: OwnSettingsPodman, sidecar: SidecarProcess, *words: str) -> str:
    """Call the command; return what it says."""
    told = ("--state-dir", str(sidecar.state_dir), "--projections", str(sidecar.projections))
    whole = ("install-runtime", "--for", "podman", "--prefix", str(podman.folder / "strict"), *told, *words)
    command = [*podman.within, sys.executable, "-m", "sidecar", *whole]
    done = subprocess.run(
        command, env=podman.environment, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def restarted(podman: OwnSettingsPodman, name: str) -> None:
    done = podman.call("restart", "-t0", name)
    assert done.returncode == 0, done.stderr


def begins_on(podman: OwnSettingsPodman) -> str:
    """Return the CPUs on which a plain container begins."""
    done = podman.call("run", "--rm", "--network", "host", ensure_image(podman.api), *SHOW)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[1]


@pytest.mark.timeout(300 * PATIENCE)
def test_each_step_twice_and_over_the_script_and_all_is_as_before(
    podman: OwnSettingsPodman, sidecar: SidecarProcess
) -> None:
    """The runtime of before sees each start, behind the script and behind the compiled front, and is the default again
    afterwards; what runs is stopped, entered and started throughout.
    """
    if find_program() is None:
        pytest.skip("needs the compiled front: a C compiler and yajl when the sidecar is installed")
    image, kernel, places = ensure_image(podman.api), KernelView(), Places(str(podman.folder / "strict"))
    before = {path: path.read_bytes() for path in podman.settings.rglob("*") if path.is_file()}
    front, count = places.front(ENGINE, LOGGED), podman.creations()
    for number, which in enumerate(("python", "compiled", "python", "compiled")):
        for _ in range(2):
            install(podman, sidecar, "--default", "--front", which)
        assert is_compiled(front) == (which == "compiled")
        if not number:
            made = podman.call("run", "-d", "--network", "host", "--name", "one", *EXCLUSIVE, image, *STAY)
            assert made.returncode == 0, made.stderr
        else:
            restarted(podman, "one")
        assert kernel.once_running(podman.call("inspect", "--format", "{{.Id}}", "one").stdout.strip()) == LAST
        assert podman.call("exec", "one", "true").returncode == 0
        assert begins_on(podman) == str(REST)
        count += 2
        assert podman.creations() == count
    for _ in range(2):
        assert "passes everything on until a further --remove finds none: one" in install(podman, sidecar, "--remove")
        assert podman.call("exec", "one", "true").returncode == 0
    restarted(podman, "one")
    assert podman.call("inspect", "--format", "{{.OCIRuntime}}", "one").stdout.strip() == LOGGED
    begins_on(podman)
    assert podman.creations() == count + 2
    for _ in range(2):
        assert "under the front" not in install(podman, sidecar, "--remove")
    assert {path: path.read_bytes() for path in podman.settings.rglob("*") if path.is_file()} == before
    assert not Path(front).exists()
    restarted(podman, "one")
    assert podman.call("rm", "-f", "-t0", "one").returncode == 0


def test_hooks_of_before_are_called_beside_ours(podman: OwnSettingsPodman, sidecar: SidecarProcess) -> None:
    """Also where Docker has the same program: that is still there when Podman's part is gone, without a trace."""
    mine, called, docker = podman.folder / "mine", podman.folder / "called", podman.folder / "daemon.json"
    mine.mkdir()
    hook = {"path": "/bin/sh", "args": ["sh", "-c", f"touch {called}; cat"]}
    told = {"version": "1.0.0", "hook": hook, "when": {"always": True}, "stages": ["precreate"]}
    (mine / "mine.json").write_text(json.dumps(told))
    conf, places = podman.settings / "containers.conf", Places(str(podman.folder / "strict"))
    conf.write_text(conf.read_text().replace("[engine]\n", f'[engine]\nhooks_dir = ["{mine}"]\n'))
    before = {path: path.read_bytes() if path.is_file() else b"" for path in podman.settings.rglob("*")}
    words = ("--daemon-json", str(docker))
    docker.write_text(json.dumps({"runtimes": {"cpuset": {"path": places.runtime}}}))
    install(podman, sidecar, "--hook", *words)
    done = podman.call("run", "--rm", "--network", "host", *EXCLUSIVE, ensure_image(podman.api), *SHOW)
    assert (done.stdout.split()[1:], called.exists()) == ([str(LAST)], True), done.stderr
    assert f"{places.runtime}, its program and its settings stay: Docker uses them" in install(
        podman, sidecar, "--remove", *words
    )
    assert {path: path.read_bytes() if path.is_file() else b"" for path in podman.settings.rglob("*")} == before
    assert Path(places.runtime).exists()
    called.unlink()
    begins_on(podman)
    assert called.exists()
