"""Fixtures of the daemon's tests: the whole daemon on the simulated engine."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon.host import Host
from tests.support.hand.kernel_hand import KernelHand


@pytest.fixture
def make_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a maker of hosts. Its options are those of Host."""

    def make(**options: Any) -> Host:
        return Host(tmp_path, monkeypatch, **options)

    return make


@pytest.fixture
def host(make_host: Any) -> Host:
    """Return a host with a hand, on which nothing but events and births leads to a look."""
    made: Host = make_host(version=2, reconcile_seconds=1000.0)
    made.open_hand = partial(KernelHand, made.kernel)
    return made
