"""Fixtures of live tests: an engine, an image, and containers that are removed after the test."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from tests.live.containers import Containers
from tests.live.engineapi import EngineApi, api_at
from tests.live.image import ensure_image
from tests.live.lanes import HOST, LANES, room_on_host
from tests.live.privatepodman import asked_engine


@pytest.fixture(autouse=True)
def room(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests that need the whole host apart from live tests in other processes; without these there is no need."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    shared_by_all = tmp_path_factory.getbasetemp().parent
    with room_on_host(shared_by_all, is_alone=request.path.stem in LANES[HOST]):
        yield


@pytest.fixture(scope="session")
def engine_address(request: pytest.FixtureRequest) -> str:
    """Return the path of the engine's Unix socket; skip if none answers.

    If CPUSET_TESTS_ENGINE names an engine, it is one of the tests' own.
    """
    if asked_engine():
        own = request.getfixturevalue("private_engine")
        if isinstance(own, str):
            pytest.skip(own)
        return str(own.socket_path)
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not host.startswith("unix://"):
        pytest.skip(f"live tests want a Unix socket, and DOCKER_HOST is {host}")
    path = host.removeprefix("unix://")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except OSError as error:
            pytest.skip(f"no engine at {path}: {error}")
    return path


@pytest.fixture(scope="session")
def api(engine_address: str) -> EngineApi:
    """Return the engine, as its users see it."""
    return api_at(engine_address)


@pytest.fixture(scope="session")
def image(api: EngineApi) -> str:
    """Return the name of the tiny test image."""
    return ensure_image(api)


@pytest.fixture
def containers(api: EngineApi, image: str) -> Iterator[Containers]:
    """Yield a maker of containers, which are removed at the end of the test."""
    made = Containers(api, image)
    yield made
    made.remove_all()
