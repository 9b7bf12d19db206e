"""The worlds that the contract is held against: the simulated engine, and the real one where there is one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from tests.contract.worlds import World, docker_world, simulated_world
from tests.live.fixtures import api, containers, engine_address, image

__all__ = ["api", "containers", "engine_address", "image", "open_world"]

OpenWorld = Callable[[], AbstractAsyncContextManager[World]]


@pytest.fixture(params=["simulated", pytest.param("docker", marks=pytest.mark.live)])
def open_world(request: pytest.FixtureRequest) -> OpenWorld:
    """Opens one world: an engine, and the verbs of its users."""
    if request.param == "simulated":
        return simulated_world
    made = request.getfixturevalue("containers")
    return lambda: docker_world(made)
