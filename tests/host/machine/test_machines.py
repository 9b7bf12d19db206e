"""Recorded machines of all kinds, from phones to mainframes, if the shared collection is available."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from sidecar.host.machine.lscpu import read_lscpu
from sidecar.host.machine.sysfs import read_topology
from tests.machines.archive import expectations, unpacked
from tests.machines.running import EXPECTED, TARBALL, deviations
from tests.support.host.trees import members

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("recorded")]

ODD = {
    "pytorch-cpuinfo/galaxy-s5-global",
    "pytorch-cpuinfo/huawei-mate-8",
    "pytorch-cpuinfo/oppo-r15",
    "util-linux/rv64-visionfive2",
}
"""Machines of which lscpu 2.38 tells nonsense: cores numbered anew in each cluster, or CPUs without a number."""


@pytest.fixture(scope="module")
def recorded(memory: Path | None, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Unpack the recorded machines once; return the `sys` of each by its name."""
    if not TARBALL.exists():
        pytest.skip("needs the recorded machines: `python -m tests.machines TARBALL EXPECTED` compares them")
    folder = tmp_path_factory.mktemp("recorded") if memory is None else memory / "recorded"
    return unpacked(TARBALL, folder)


def with_files_beside_sys(recorded: Mapping[str, Path]) -> Mapping[str, Path]:
    """Unpack the other files of these machines as well, such as `proc/cpuinfo`; return the directory of each."""
    [(name, root), *_] = recorded.items()
    folder = Path(str(root.parent).removesuffix(name))
    with tarfile.open(TARBALL) as packed:
        # The first versions of Python 3.11 have no filters.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder, members=[each for each in packed if each.isfile() and "/sys/" not in each.name])
    return {name: root.parent for name, root in recorded.items()}


def test_no_recorded_machine_is_misread(recorded: Mapping[str, Path]) -> None:
    """Each is read, survives its record, and is what hwloc and lscpu report, except deviations with a named reason."""
    wanted = expectations(EXPECTED)
    assert set(recorded) >= set(wanted)
    faults = [
        f"{name}: {found.text}"
        for name, root in sorted(recorded.items())
        for found in deviations(root, wanted.get(name, {}))
        if not found.reason
    ]
    assert faults == []


@pytest.mark.skipif(shutil.which("lscpu") is None, reason="lscpu (util-linux) is not installed")
def test_recorded_machines_are_read_as_from_sysfs(recorded: Mapping[str, Path]) -> None:
    """The output of this machine's lscpu for them has the same CPUs, and the same cores."""
    read = 0
    for name, folder in sorted(with_files_beside_sys(recorded).items()):
        command = ["lscpu", "-J", "-e", "-a", "-s", str(folder)]
        shown = subprocess.run(command, capture_output=True, text=True, check=False)
        # Many records lack files that lscpu needs.
        if shown.returncode or name in ODD:
            continue
        told, here = read_lscpu(shown.stdout), read_topology(recorded[name])
        assert (told.online, members(told, "cores")) == (here.online, members(here, "cores")), name
        read += 1
    assert read >= 20
