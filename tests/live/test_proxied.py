"""The least that is shipped (compose/proxied.yaml), as it is: its images, its proxy, and a sidecar that is no root."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from compose.host.base import make_proxy
from compose.host.commands import HostLacks
from compose.host.image import build_images
from state.errors import StateError
from state.projection import Projection, read
from tests.live.kernelview import KernelView
from tests.live.privateengine import PrivateEngine
from tests.live.privatepodman import asked_engine
from tests.live.sidecarprocess import LAST, REST
from tests.live.unprivileged import USER, open_folder
from tests.live.waiting import eventually
from tests.support.composed import composer

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(300)]

FILE = Path(__file__).parents[2] / "compose/proxied.yaml"


class Project:
    """The project of the file, on an engine of the tests' own, with directories below a folder."""

    def __init__(self, words: tuple[str, ...], folder: Path, engine: PrivateEngine) -> None:
        self._command = (*words, "-p", f"proxied{uuid.uuid4().hex[:8]}", "-f", str(FILE))
        self.state_dir, self.projections = folder / "state", folder / "projections"
        self._environment = {
            **os.environ,
            "DOCKER_HOST": f"unix://{engine.socket_path}",
            "DOCKER_SOCKET": engine.socket_path,
            "STATE_DIR": str(self.state_dir),
            "PROJECTIONS": str(self.projections),
            # docker-compose 1.29 is a Python program: it must not see modules of ours.
            "PYTHONPATH": "",
        }
        # As the file itself says at its beginning.
        for each in (self.state_dir, self.projections, self.projections / "by-name", self.own):
            each.mkdir()
            os.chown(each, USER, USER)
        self.state_dir.chmod(0o700)

    @property
    def own(self) -> Path:
        """The directory of the workload's files."""
        return self.projections / "by-name/exclusive"

    def told(self) -> Projection | None:
        """Return what the workload is told; None as long as that is nothing."""
        try:
            return read(self.own)
        except StateError:
            return None

    def run(self, *words: str) -> str:
        """Run a command of Docker Compose; return what it printed."""
        done = subprocess.run(
            [*self._command, *words], env=self._environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def id(self, service: str) -> str:
        """Return the ID of a service's container."""
        return self.run("ps", "-q", service).strip()


@pytest.fixture
def project(own_engine: PrivateEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """Provide the project with its images built; it is taken down afterwards, with its volume."""
    if asked_engine():
        pytest.skip("the file is for Docker; the run without CPUSET_TESTS_ENGINE has it")
    words = composer()
    if words is None or shutil.which("docker") is None:
        pytest.skip("needs Docker Compose and the program docker (Debian: apt-get install docker-compose)")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{own_engine.socket_path}")
    try:
        make_proxy()
        build_images()
    except HostLacks as lacks:
        pytest.skip(f"its images cannot be built here: {lacks}")
    with open_folder() as folder:
        made = Project(words, folder, own_engine)
        try:
            yield made
        finally:
            made.run("down", "--volumes", "--timeout", "2")


def owners(folder: Path) -> set[int]:
    """Return the users whose files are in a folder. The daemon replaces them meanwhile."""
    found = set()
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            found.add(path.stat().st_uid)
    return found


def test_the_shipped_sidecar_without_root_places_a_workload(project: Project, kernel: KernelView) -> None:
    """Behind the shipped proxy: no user's, no capability's power, the state directory its own, and the promise kept."""
    project.run("up", "--detach", "--no-build")
    exclusive, sidecar, proxy = (project.id(each) for each in ("exclusive", "sidecar", "proxy"))
    eventually(lambda: (told := project.told()) and told.settled and told.alone, "it is told to be alone", seconds=30)
    told = project.told()
    assert told is not None
    assert (told.cpus, kernel.allowed(exclusive)) == (LAST, LAST)
    # Without a hand, what starts beside it is moved once the engine has told of its start.
    eventually(lambda: (kernel.allowed(sidecar), kernel.allowed(proxy)) == (REST, REST), "both are in the pool")
    pid = kernel.members(sidecar)[0]
    powers = Path(f"/proc/{pid}/status").read_text()
    assert f"Uid:\t{USER}\t{USER}\t{USER}\t{USER}\n" in powers
    assert "CapEff:\t0000000000000000\n" in powers
    assert "CapBnd:\t0000000000000000\n" in powers
    assert "NoNewPrivs:\t1\n" in powers
    assert owners(project.state_dir) == {USER}
    assert project.state_dir.stat().st_mode & 0o777 == 0o700
