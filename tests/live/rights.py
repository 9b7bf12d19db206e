"""What live tests may do to the host only with explicit permission: take its CPUs offline."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from state.cpuset import CPUSet
from tests.live.kernelview import online

MAY_OFFLINE: Final = os.environ.get("CPUSET_TESTS_OFFLINE") == "1" and os.geteuid() == 0
"""Everything else on the machine runs on these CPUs, too: only who owns all of it may say so."""

_CPU: Final = Path("/sys/devices/system/cpu")


@contextmanager
def offline(cpus: CPUSet) -> Iterator[None]:
    """Take these CPUs offline for the length of the block."""
    take_offline(cpus)
    try:
        yield
    finally:
        bring_online(cpus)


def take_offline(cpus: CPUSet) -> float:
    """Take CPUs offline; return when the last was gone, by time.monotonic()."""
    return _switch(cpus, "0")


def bring_online(cpus: CPUSet) -> float:
    """Bring CPUs back; return when the last was back."""
    return _switch(cpus, "1")


def _switch(cpus: CPUSet, to: str) -> float:
    assert MAY_OFFLINE, "nobody gave the tests the right to take CPUs"
    for cpu in cpus:
        (_CPU / f"cpu{cpu}" / "online").write_text(to)
    now = time.monotonic()
    assert (cpus <= online()) if to == "1" else cpus.isdisjoint(online())
    return now
