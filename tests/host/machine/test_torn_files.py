"""A file with a byte that no kernel writes never changes what is read without a note."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sidecar.host.machine.record import unpack
from sidecar.host.machine.sysfs import read_topology
from state.errors import StateError
from state.topology import Topology, uniform
from tests.support.host.trees import rendered


def torn(content: bytes, byte: bytes) -> bytes:
    """Return the content with a byte replaced in its middle."""
    return content[: len(content) // 2] + byte + content[len(content) // 2 + 1 :]


def unnoted(machine: Topology) -> Topology:
    return msgspec.structs.replace(machine, notes=())


@pytest.mark.parametrize("byte", [b"\0", b"\x1b", b"\x9b", b"\n\n"])
def test_a_torn_file_is_noted_by_name_wherever_it_matters(tmp_path: Path, byte: bytes) -> None:
    """One file after the other, of a machine with two packages, nodes and hyperthreads."""
    unpack(rendered(uniform(packages=2, cores=2, threads=2)), tmp_path)
    whole = read_topology(tmp_path)
    changed = 0
    for path in sorted(path for path in tmp_path.rglob("*") if path.is_file()):
        content = path.read_bytes()
        path.write_bytes(torn(content, byte))
        try:
            read = read_topology(tmp_path)
        except StateError:
            read = whole
        if unnoted(read) != unnoted(whole):
            changed += 1
            assert any(note.startswith(str(path.relative_to(tmp_path))) for note in read.notes), (path, read.notes)
        path.write_bytes(content)
    assert changed


@pytest.mark.parametrize(
    ("file", "content", "word"),
    [
        ("cpu0/topology/physical_package_id", b"0x1\n", "'0x1' is not a number"),
        ("cpu0/topology/physical_package_id", b"\n", "'' is not a number"),
        ("cpu0/cache/index0/level", b"L1\n", "'L1' is not the level of a cache"),
        ("cpu0/cache/index0/type", b"Instru\n", "'Instru' is not the type of a cache"),
        ("cpu0/cache/index0/level", b"1" * 70_000, "it has more than 65536 bytes"),
    ],
)
def test_a_value_that_no_kernel_writes_is_noted(tmp_path: Path, file: str, content: bytes, word: str) -> None:
    unpack(rendered(uniform(packages=2, cores=2, threads=2)), tmp_path)
    path = tmp_path / "devices/system/cpu" / file
    path.write_bytes(content)
    notes = read_topology(tmp_path).notes
    assert any(str(path.relative_to(tmp_path)) in note and word in note for note in notes), notes
