"""Any conceivable machine is read as what it is; broken in any way, it is read as something lawful."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.host.machine.record import read_record, record, unpack
from sidecar.host.machine.sources import Live
from sidecar.host.machine.sysfs import read_topology
from state.errors import StateError
from state.topology import Topology
from tests.machines.case import Case
from tests.machines.laws import lawful, round_trip
from tests.support.host.generated import machines, written
from tests.support.long_examples import UNSHRUNK

RUBBISH = (
    b"",
    b"\n",
    b"-1\n",
    b"0-\n",
    b"nonsense\n",
    b"\xff\xfe\n",
    b"0\n1\n",
    b"8192\n",
    b"0-8191\n",
    b"(null)\n",
    b"7\n",
    b"0" * 70_000,
)


@pytest.mark.slow
@settings(max_examples=30, deadline=None, phases=UNSHRUNK)
@given(machines())
def test_a_machine_is_read_as_what_it_is(machine: Topology) -> None:
    """From its files, and from its record: equal on every level."""
    with tempfile.TemporaryDirectory() as directory:
        unpack(written(machine), directory)
        assert read_topology(directory) == machine
        assert list(round_trip(Path(directory), machine)) == []


@pytest.mark.slow
@settings(max_examples=50, deadline=None, phases=UNSHRUNK)
@given(machines(), st.data())
def test_a_broken_machine_is_read_as_something_lawful(machine: Topology, data: st.DataObject) -> None:
    """Missing files, or files with any content, cause no crash: each CPU is once in each level, or the machine is
    refused.
    """
    with tempfile.TemporaryDirectory() as directory:
        unpack(written(machine), directory)
        files = sorted(path for path in Path(directory).rglob("*") if path.is_file())
        for path in data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=12, unique=True)):
            rubbish = data.draw(st.none() | st.sampled_from(RUBBISH))
            if rubbish is None:
                path.unlink()
            else:
                path.write_bytes(rubbish)
        try:
            read = read_topology(directory)
        except StateError:
            return
        with Live(directory) as tree:
            found = [each.text for each in lawful(Case(read, tree, {})) if " is in " not in each.text]
            crossing = [each for each in lawful(Case(read, tree, {})) if " is in " in each.text and not each.reason]
        assert found == []
        assert not crossing or read.notes or read.online != machine.online
        recorded = read_record(record(directory))
        # A record leaves out what is not one line of text, so nothing is said of that.
        assert set(recorded.notes) <= set(read.notes)
        assert msgspec.structs.replace(recorded, notes=read.notes) == read


@settings(max_examples=60, deadline=None)
@given(machines(), st.data())
def test_a_level_that_is_gone_is_a_note(machine: Topology, data: st.DataObject) -> None:
    """If any level is missing, the notes say so, and it falls back."""
    gone = data.draw(
        st.sampled_from(["topology/core_cpus_list", "physical_package_id", "node/", "cache/", "cpu/online"])
    )
    text = "".join(line for line in written(machine).splitlines(keepends=True) if gone not in line)
    if gone == "physical_package_id":
        text = "".join(line for line in text.splitlines(keepends=True) if "package_cpus_list" not in line)
    read = read_record(text)
    words = {
        "topology/core_cpus_list": "thread siblings are unknown for CPU",
        "physical_package_id": "packages are missing",
        "node/": "nodes are missing",
        "cache/": "caches are missing",
        "cpu/online": "the list of online CPUs is missing",
    }[gone]
    assert any(note.startswith(words) for note in read.notes)
    assert read.online == machine.online
