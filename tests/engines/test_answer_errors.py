"""The engine's refusals come with a cure where people need one."""

from __future__ import annotations

import json

from sidecar.engines.answer_errors import error_of
from sidecar.failures import ContainerGone, EngineFailed, EngineRefused


def test_cpus_that_came_after_the_engines_start_are_explained() -> None:
    """Docker 23 and later read the machine only when they start; their own message names no cure."""
    words = "Requested CPUs are not available - requested 6, available: 0-5"
    error = error_of(400, json.dumps({"message": words}).encode())
    assert isinstance(error, EngineRefused)
    assert str(error).startswith(f"{words}; Docker 23 and later know only the CPUs that were online")
    assert "restart the engine" in str(error)
    assert "restart" not in str(error_of(400, b'{"message": "Invalid value abc"}'))


def test_a_container_that_was_removed_meanwhile_is_gone_whatever_the_status() -> None:
    """Podman answers 500 then; any other 500 is a failure."""
    gone = b'{"cause":"no such container","message":"no container with name or ID \\"f9\\" found","response":500}\n'
    assert isinstance(error_of(500, gone), ContainerGone)
    assert isinstance(error_of(500, gone.replace(b"no such container", b"internal")), EngineFailed)
