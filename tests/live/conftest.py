"""The fixtures of live tests; and what the daemon logged, beside each failure."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import pytest

from tests.live.fixtures import api, containers, engine_address, image, room
from tests.live.sidecarfixtures import (
    dockers_nesting,
    dockers_routes,
    ground,
    guarded_pair,
    kernel,
    own_engine,
    private_engine,
    running,
    sidecar,
    workloads,
)
from tests.live.sidecarprocess import SidecarProcess

__all__ = [
    "api",
    "containers",
    "dockers_nesting",
    "dockers_routes",
    "engine_address",
    "ground",
    "guarded_pair",
    "image",
    "kernel",
    "own_engine",
    "private_engine",
    "room",
    "running",
    "sidecar",
    "workloads",
]

_MOST_LINES: Final = 400
"""Lines of a log that are shown: the last ones."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the log of the daemon when its test fails: in a virtual machine that goes away, nobody can read it later."""
    report = yield
    daemon = getattr(item, "funcargs", {}).get("sidecar")
    if report.failed and isinstance(daemon, SidecarProcess):
        report.sections.append(("log of the sidecar", "\n".join(daemon.log().splitlines()[-_MOST_LINES:])))
    return report
