"""The worlds that must fulfil the contract: the simulated engine, and the real ones where available."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager

import pytest

from tests.contract.worlds import World, docker_world, podman_world, simulated_world
from tests.live.containers import Containers
from tests.live.fixtures import api, containers, engine_address, image, room
from tests.live.image import ensure_image
from tests.live.privateengine import opened
from tests.live.privatepodman import PrivatePodman, asked_engine
from tests.live.sidecarfixtures import private_engine

__all__ = [
    "api",
    "containers",
    "engine_address",
    "image",
    "open_world",
    "podman",
    "private_engine",
    "private_podman",
    "room",
]

OpenWorld = Callable[[], AbstractAsyncContextManager[World]]


@pytest.fixture(scope="session")
def private_podman() -> Iterator[PrivatePodman | str]:
    """Yield a Podman of the tests' own, or the reason why there is none."""
    with opened(PrivatePodman) as engine:
        yield engine


@pytest.fixture
def podman(private_podman: PrivatePodman | str) -> Iterator[Containers]:
    """Yield a maker of containers on Podman, which are removed at the end; skip with the reason if there is none."""
    if isinstance(private_podman, str):
        pytest.skip(private_podman)
    made = Containers(private_podman.api, ensure_image(private_podman.api))
    yield made
    made.remove_all()


@pytest.fixture(
    params=[
        "simulated",
        pytest.param("docker", marks=[pytest.mark.live, pytest.mark.lane("contract")]),
        pytest.param("podman", marks=[pytest.mark.live, pytest.mark.lane("podman")]),
    ]
)
def open_world(request: pytest.FixtureRequest) -> OpenWorld:
    """Return a function that opens one world: an engine, and the verbs of its users."""
    if request.param == "simulated":
        return simulated_world
    if request.param == "podman":
        on_podman = request.getfixturevalue("podman")
        return lambda: podman_world(on_podman)
    if asked_engine() in ("podman", "rootless"):
        pytest.skip("CPUSET_TESTS_ENGINE asks for Podman")
    made = request.getfixturevalue("containers")
    return lambda: docker_world(made)


@pytest.fixture
def checking_world(open_world: OpenWorld, request: pytest.FixtureRequest) -> OpenWorld:
    """Return a function that opens a world whose engine checks values; skip Podman, which checks none."""
    if request.node.callspec.params["open_world"] == "podman":
        pytest.skip("Podman checks no value: what the sidecar sends it is in tests/live/test_podman.py")
    return open_world
