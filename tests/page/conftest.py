"""A browser for each test, and hosts that are ended.

Playwright keeps an event loop running in its thread for as long as it lives: whatever else the worker plays meanwhile
could start none of its own. So a browser lasts a test, and no longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.page.browser import Simulated, browsing, chromium


@pytest.fixture
def browser() -> Iterator[Any]:
    """Provide a Chromium."""
    with browsing() as found:
        yield found


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[Callable[..., Simulated]]:
    """Provide a maker of simulated hosts: sockets, nodes, cores, threads, and keys of the configuration."""
    chromium()
    made: list[Simulated] = []

    def make(*shape: int, **options: Any) -> Simulated:
        sockets, nodes, cores, threads = shape
        host = Simulated(tmp_path / f"host{len(made)}", (sockets, nodes, cores, threads), **options)
        made.append(host)
        return host

    yield make
    for host in made:
        host.end()
