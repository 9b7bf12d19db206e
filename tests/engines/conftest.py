"""The shared fixture of the adapters' tests: a daemon of raw bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon.rawdaemon import RawDaemon


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[RawDaemon]:
    """Provide an engine of raw bytes on a socket of its own."""
    with RawDaemon(tmp_path / "d.sock") as running:
        yield running
