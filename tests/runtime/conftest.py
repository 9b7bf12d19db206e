"""Fixtures of the runtime's tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.bench import Workbench


@pytest.fixture
def bench() -> Iterator[Workbench]:
    """Provide an installed runtime, in a folder whose path fits a socket's."""
    with tempfile.TemporaryDirectory(prefix="cpuset-runc-") as folder:
        made = Workbench(Path(folder))
        try:
            yield made
        finally:
            made.sidecar.close()
