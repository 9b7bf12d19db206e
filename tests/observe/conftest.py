"""What most tests of this room look with."""

from __future__ import annotations

import pytest
import trio

from tests.observe.bench import Bench


@pytest.fixture
def bench(nursery: trio.Nursery) -> Bench:
    """Return a looker and the stream on a simulated engine."""
    return Bench(nursery)
