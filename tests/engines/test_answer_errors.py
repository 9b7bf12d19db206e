"""The engine's refusals come with a cure where people need one."""

from __future__ import annotations

import json

from sidecar.engines.answer_errors import error_of
from sidecar.failures import EngineRefused


def test_cpus_that_came_after_the_engines_start_are_explained() -> None:
    """Docker 23 and later read the machine only when they start; their own message names no cure."""
    words = "Requested CPUs are not available - requested 6, available: 0-5"
    error = error_of(400, json.dumps({"message": words}).encode())
    assert isinstance(error, EngineRefused)
    assert str(error).startswith(f"{words}; Docker 23 and later know only the CPUs that were online")
    assert "restart the engine" in str(error)
    assert "restart" not in str(error_of(400, b'{"message": "Invalid value abc"}'))
