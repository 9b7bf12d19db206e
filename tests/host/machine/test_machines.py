"""Recorded machines of all kinds, from phones to mainframes, if the shared collection is available."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.machines.archive import expectations, unpacked
from tests.machines.running import EXPECTED, TARBALL, deviations


@pytest.mark.slow
def test_no_recorded_machine_is_misread(tmp_path: Path) -> None:
    """Each is read, survives its record, and is what hwloc and lscpu report, except deviations with a named reason."""
    if not TARBALL.exists():
        pytest.skip("needs the recorded machines: `python -m tests.machines TARBALL EXPECTED` compares them")
    wanted = expectations(EXPECTED)
    roots = unpacked(TARBALL, tmp_path)
    assert set(roots) >= set(wanted)
    faults = [
        f"{name}: {found.text}"
        for name, root in sorted(roots.items())
        for found in deviations(root, wanted.get(name, {}))
        if not found.reason
    ]
    assert faults == []
