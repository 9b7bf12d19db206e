"""Fixtures of the daemon's tests: the whole daemon on the simulated engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon.host import Host


@pytest.fixture
def make_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a maker of hosts. Its options are those of Host."""

    def make(**options: Any) -> Host:
        return Host(tmp_path, monkeypatch, **options)

    return make
