"""Recorded machines of all kinds, from phones to mainframes, where the shared collection is at hand."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from sidecar.host.record import read_record, record
from sidecar.host.sysfs import read_topology
from state.errors import StateError

SHARED = Path(__file__).parents[3] / "shared" / "machines"


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = SHARED / "machines.tar.xz"
    if not archive.exists():
        pytest.skip("the collection of recorded machines (../shared/machines) is not here")
    directory = tmp_path_factory.mktemp("machines")
    with tarfile.open(archive) as packed:
        wanted = (m for m in packed if "/sys/devices/" in m.name and (m.isfile() or m.isdir()))
        packed.extractall(directory, members=wanted, filter="data")
    return directory


@pytest.mark.slow
def test_no_recorded_machine_is_misread(machines: Path) -> None:
    """Each is read, survives its record, and has the cores that hwloc sees, but where hwloc is known to be wrong."""
    expected = json.loads((SHARED / "expected.json").read_text())
    # hwloc splits modules of the Bulldozer family, which the kernel calls siblings.
    others = {"hwloc/64amd64-4p2n4ca2co"}
    read = 0
    for name, seen in sorted(expected.items()):
        root = machines / name / "sys"
        try:
            machine = read_topology(root)
        except StateError as error:
            pytest.fail(f"{name}: {error}")
        assert read_record(record(root)) == machine, name
        if seen and name not in others:
            assert [list(core.cpus) for core in machine.cores] == sorted(seen["hwloc"]["core"]), name
        read += 1
    assert read == len(expected) >= 62
