"""Strict start on a real Podman: the same runtime, and the precreate hook."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.host.install.podman_files import podman_files
from sidecar.host.install.runtime_files import Installation, Places, carry_out, find_real, runtime_files
from sidecar.status.document import SharingStatus
from state.cpuset import CPUSet
from tests.live.alonejudge import judged_alone
from tests.live.image import ensure_image
from tests.live.kernelview import KernelView, online, quota_of
from tests.live.privateengine import NoPrivateEngine, running
from tests.live.privatepodman import PrivatePodman
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.stricthost import SHOW, STAY
from tests.live.waiting import eventually

pytestmark = [pytest.mark.live, pytest.mark.slow]

EXCLUSIVE = ("--label", "cpuset.exclusive=1", "--annotation", "cpuset.exclusive=1")


class Podman:
    """Podman's own client, with the drop-in that `install-runtime` writes into its configuration."""

    def __init__(self, engine: PrivatePodman, folder: Path, *, with_hook: bool) -> None:
        self.engine = engine
        self.image = ensure_image(engine.api)
        self.sidecar = SidecarProcess(folder, engine.socket_path)
        places = Places(str(engine.folder / "strict"), str(engine.folder / "containers"))
        used = "crun" if 'runtime = "crun"' in engine.configuration.read_text() else "runc"
        made = Installation(
            real=find_real("/", used),
            python=sys.executable,
            socket=str(self.sidecar.state_dir / "api.sock"),
            projections=str(self.sidecar.projections),
            patience=3,
        )
        carry_out("/", [*runtime_files(places, made), *podman_files(places, with_hook=with_hook)])
        # CONTAINERS_CONF names the only file that is read: the drop-in is appended to it.
        dropped = Path(places.podman_settings).read_text().partition("[engine]\n")[2]
        engine.configuration.write_text(engine.configuration.read_text() + dropped)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Call `podman run`, in the network of the host."""
        command = [*self.engine.command, "run", "--network", "host", *words]
        return subprocess.run(
            command, env=self.engine.environment, capture_output=True, text=True, timeout=120, check=False
        )

    def strict(self, *words: str, script: str = SHOW) -> subprocess.CompletedProcess[str]:
        """Do the same, under the strict runtime."""
        return self.run("--runtime", "cpuset", *words, self.image, "sh", "-c", script)


@pytest.fixture
def podman(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Podman]:
    """Yield a Podman of the test's own, with the strict runtime, with or without the hook; a sidecar that is not
    started.
    """
    try:
        engine = PrivatePodman()
    except NoPrivateEngine as error:
        pytest.skip(str(error))
    try:
        running(engine)
        made = Podman(engine, tmp_path, with_hook=request.param)
        try:
            with judged_alone(made.sidecar, intrudes=False):
                yield made
        finally:
            made.sidecar.kill()
    except NoPrivateEngine as error:
        pytest.skip(str(error))
    finally:
        engine.close()


def cpus(printed: str) -> CPUSet:
    """Return the CPUs on which it began."""
    return CPUSet.parse(printed.split()[1])


@pytest.mark.parametrize("podman", [False], indirect=True)
def test_it_begins_on_its_cpus_and_the_excess_one_reads_why(podman: Podman) -> None:
    """As with Docker; without a sidecar no container of this runtime starts, and all others do."""
    podman.sidecar.start()
    first = podman.strict("-d", "--name", "one", *EXCLUSIVE, script=STAY)
    assert first.returncode == 0, first.stderr
    # Its first line comes before the others.
    is_whole = lambda: '"sharing":"exclusive"' in podman.engine.run("logs", "one")  # noqa: E731
    eventually(is_whole, "it printed its CPUs and what is told of it")
    assert cpus(podman.engine.run("logs", "one")) == LAST
    shared = podman.strict("--rm")
    assert (shared.returncode, cpus(shared.stdout)) == (0, REST), shared.stderr
    refused = podman.strict("--rm", *EXCLUSIVE)
    assert refused.returncode == 126
    assert "cpuset-sidecar: not started: asked for 1 exclusive CPU, 0 free" in refused.stderr
    podman.sidecar.kill()
    nobody = podman.strict("--rm")
    assert nobody.returncode == 126
    assert "nothing answers on" in nobody.stderr
    assert podman.run("--rm", podman.image, "true").returncode == 0


@pytest.mark.parametrize("podman", [True], indirect=True)
def test_the_hook_does_the_same_for_containers_that_ask_in_annotations(podman: Podman) -> None:
    """Under the usual runtime; a refusal keeps it from starting, though Podman does not say why."""
    podman.sidecar.start()
    first = podman.run("-d", "--name", "one", *EXCLUSIVE, podman.image, "sh", "-c", STAY)
    assert first.returncode == 0, first.stderr
    assert cpus(eventually(lambda: podman.engine.run("logs", "one"), "it printed its CPUs")) == LAST, (
        podman.sidecar.log()
    )
    assert podman.run("--rm", *EXCLUSIVE, podman.image, "true").returncode == 126
    assert podman.run("--rm", podman.image, "true").returncode == 0


@pytest.mark.parametrize("podman", [False], indirect=True)
def test_what_the_runtime_wrote_is_no_pin(podman: Podman) -> None:
    """Podman shows the bundle's CPUs as if the container was created with them, also where tenants may pin. It is in
    the pool at each start, and follows when that grows.
    """
    podman.sidecar.configure(tenants_may=["pin"])
    podman.sidecar.start()
    owner = podman.strict("-d", "--name", "one", *EXCLUSIVE, script=STAY)
    assert owner.returncode == 0, owner.stderr
    plain, kernel = podman.strict("-d", "--name", "plain", script=STAY).stdout.strip(), KernelView()
    for _ in range(2):
        podman.sidecar.until(
            plain, lambda each: each.sharing is SharingStatus.SHARED and each.is_settled, "in the pool"
        )
        assert kernel.once_running(plain) == REST
        podman.engine.run("restart", "-t0", "plain")
    podman.engine.run("rm", "-f", "-t0", "one")
    eventually(lambda: kernel.allowed(plain) == online(), "it has the CPU that came free")


@pytest.mark.parametrize("podman", [False], indirect=True)
def test_the_limit_that_a_start_lifted_comes_back(podman: Podman) -> None:
    """Podman shows the bundle's limit, too: what people asked for is recorded from the runtime's question."""
    # The service knows the runtime from its next start on.
    podman.engine.stop()
    podman.engine.start()
    podman.sidecar.start()
    owner = podman.strict("-d", "--name", "one", "--cpus", "1", *EXCLUSIVE, script=STAY)
    assert owner.returncode == 0, owner.stderr
    pid = int(podman.engine.run("inspect", "--format", "{{.State.Pid}}", "one"))
    podman.sidecar.until(owner.stdout.strip(), lambda each: each.is_settled and each.is_quota_lifted, "lifted")
    assert podman.sidecar.terminate() == 0
    podman.sidecar.release()
    assert quota_of(pid) == 1
