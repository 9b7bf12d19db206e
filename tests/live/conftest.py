"""The fixtures of live tests."""

from tests.live.fixtures import api, containers, engine_address, image, room
from tests.live.sidecarfixtures import ground, kernel, own_engine, private_engine, running, sidecar, workloads

__all__ = [
    "api",
    "containers",
    "engine_address",
    "ground",
    "image",
    "kernel",
    "own_engine",
    "private_engine",
    "room",
    "running",
    "sidecar",
    "workloads",
]
