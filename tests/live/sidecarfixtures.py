"""Fixtures of live tests that run a sidecar: an engine, of its own if possible, workloads, and the daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from sidecar.host.cgroup.host_kernel import find_hierarchy
from sidecar.status.document import SharingStatus
from tests.live.alonejudge import judged_alone
from tests.live.containers import Containers
from tests.live.engineapi import ApiError, EngineApi, api_at
from tests.live.image import ensure_image
from tests.live.kernelview import KernelView, online
from tests.live.privateengine import PrivateEngine, opened
from tests.live.rootlesspodman import private_kind
from tests.live.sidecarprocess import SidecarProcess, all_but


class Ground(msgspec.Struct, frozen=True):
    """The engine under test. If it is not private, a sidecar must leave other users' containers alone."""

    api: EngineApi
    image: str
    is_private: bool


@pytest.fixture(scope="session")
def private_engine() -> Iterator[PrivateEngine | str]:
    """Yield an engine of the tests' own, or the reason why there is none."""
    with opened(private_kind()) as engine:
        yield engine


@pytest.fixture
def dockers_routes(ground: Ground) -> None:
    """Skip where the acts of a test are not possible: they are Docker's routes, on an engine of the tests' own."""
    if ground.api.is_podman or not ground.is_private:
        pytest.skip("these are acts by Docker's routes")


@pytest.fixture
def dockers_nesting(dockers_routes: None, own_engine: PrivateEngine) -> None:
    """Skip as well where such an engine puts no container into another one's cgroup."""
    if own_engine.cgroup_parent.endswith(".slice"):
        pytest.skip("systemd takes no cgroup of a container as a parent")


@pytest.fixture
def own_engine(private_engine: PrivateEngine | str) -> Iterator[PrivateEngine]:
    """Yield an engine that the test may restart and kill; skip with the reason if there is none."""
    if isinstance(private_engine, str):
        pytest.skip(private_engine)
    yield private_engine
    if not private_engine.is_as_new:
        private_engine.stop()
        private_engine.start()
    # An engine that was killed while it removed a container leaves it half-removed: unfit for the next test.
    stuck = []
    for each in private_engine.api.ask("GET", "containers/json", all="1"):
        try:
            private_engine.api.remove(each["Id"])
        except ApiError:
            stuck.append(each["Id"])
    if stuck and not private_engine.api.is_podman:
        private_engine.forget(stuck)


@pytest.fixture(scope="session")
def ground(private_engine: PrivateEngine | str, request: pytest.FixtureRequest) -> Ground:
    """Return the private engine; else the host's, where all containers but the tests' own are left alone."""
    if len(online()) < 2:
        pytest.skip("a machine with one CPU has none to give")
    if find_hierarchy() is None:
        pytest.skip("no cgroup hierarchy with cpusets is visible here")
    if isinstance(private_engine, PrivateEngine):
        return Ground(private_engine.api, ensure_image(private_engine.api), is_private=True)
    api = api_at(request.getfixturevalue("engine_address"))
    return Ground(api, ensure_image(api), is_private=False)


@pytest.fixture
def workloads(ground: Ground) -> Iterator[Containers]:
    """Yield a maker of containers on the engine under test, and remove them at the end of the test."""
    made = Containers(ground.api, ground.image)
    yield made
    made.remove_all()


@pytest.fixture
def sidecar(
    ground: Ground,
    private_engine: PrivateEngine | str,
    workloads: Containers,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[SidecarProcess]:
    """Yield a daemon that is configured and not started; killed at the end, before the containers are removed. What it
    tells meanwhile is judged.
    """
    unmanaged = () if ground.is_private else all_but(workloads.prefix)
    folder = tmp_path if isinstance(private_engine, str) else private_engine.sidecar_folder(tmp_path)
    process = SidecarProcess(folder, ground.api.socket_path, unmanaged)
    if not isinstance(private_engine, str):
        process.wrapper = private_engine.sidecar_wrapper
    with judged_alone(process, intrudes=request.node.get_closest_marker("intrudes") is not None):
        yield process
        process.kill()


@pytest.fixture
def running(sidecar: SidecarProcess) -> SidecarProcess:
    """Return a daemon that is ready."""
    sidecar.start()
    return sidecar


@pytest.fixture
def guarded_pair(own_engine: PrivateEngine, sidecar: SidecarProcess, workloads: Containers) -> tuple[str, str]:
    """Start a sidecar with a hand that takes no inventory for an hour, an owner that is alone, and a neighbour."""
    sidecar.configure(hand="auto", reconcile_period="1h")
    sidecar.start()
    assert not sidecar.has_logged("the engine alone changes CPUs"), sidecar.log()
    neighbour, owner = workloads.run("neighbour"), workloads.run("owner", labels={"cpuset.exclusive": "1"})
    sidecar.until(owner, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
    sidecar.until_quiet()
    return owner, neighbour


@pytest.fixture
def kernel() -> KernelView:
    """Return the kernel's view."""
    return KernelView()
