"""A machine on paper is the machine: recorded, read, unpacked and recorded again."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.host.machine.machine_file import machine_in
from sidecar.host.machine.record import read_record, record, unpack
from sidecar.host.machine.sysfs import read_topology
from state.errors import StateError
from state.topology import uniform
from tests.support.host.trees import bare, rendered


def test_this_machine_survives_the_paper(tmp_path: Path) -> None:
    """A record, unpacked, is read as the same machine, and recorded as the same bytes."""
    text = record("/sys")
    assert read_record(text) == read_topology("/sys")
    unpack(text, tmp_path)
    assert read_topology(tmp_path) == read_topology("/sys")
    assert record(tmp_path) == text


def test_a_record_is_sorted_lines_that_people_can_read(tmp_path: Path) -> None:
    """CPU 10 comes after CPU 2, whatever the order of the directory."""
    unpack(rendered(uniform(cores=11)), tmp_path)
    lines = record(tmp_path).splitlines()
    assert lines[0] == "devices/system/cpu/cpu0/cache/index0/level: 1"
    numbers = [int(line.split("/")[3][3:]) for line in lines if line.startswith("devices/system/cpu/cpu")]
    assert numbers == sorted(numbers)
    assert "devices/system/cpu/online: 0-10" in lines
    assert all(": " in line or line.endswith(("/:", ":")) for line in lines)


def test_a_cpu_of_which_nothing_is_told_keeps_its_place(tmp_path: Path) -> None:
    """An empty directory is a line of its own: it shows that the CPU exists."""
    (tmp_path / "devices/system/cpu/cpu3").mkdir(parents=True)
    assert record(tmp_path) == "devices/system/cpu/cpu3/:\n"
    assert str(read_record(record(tmp_path)).online) == "3"


def test_comments_and_empty_lines_are_passed_over() -> None:
    """People may write notes into a record."""
    text = "# a board from the attic\n\n" + rendered(uniform(cores=2))
    assert bare(read_record(text)) == bare(uniform(cores=2))


@pytest.mark.parametrize(
    "line",
    [
        "hello",
        "/etc/passwd: root",
        "devices/../../etc/passwd: root",
        "devices/system/cpu/online:\x1b[31m 0-1",
        "devices/system/cpu/online: ０",
        "devices//online: 0",
    ],
)
def test_a_record_that_is_not_one_is_refused_by_line(line: str, tmp_path: Path) -> None:
    """No path leaves the directory, and no control character gets in."""
    text = f"devices/system/cpu/online: 0\n{line}\n"
    for read in (read_record, lambda text: unpack(text, tmp_path)):
        with pytest.raises(StateError, match="line 2 of the record is"):
            read(text)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_record_is_no_machine() -> None:
    """An empty file is refused."""
    with pytest.raises(StateError, match="not the sysfs of a machine"):
        read_record("")
    with pytest.raises(StateError, match="too long"):
        read_record("#" * (33 * 1024 * 1024))


@pytest.mark.parametrize(
    "path",
    [
        "bus/pci/devices/../../../etc/local_cpulist",
        "bus/pci/devices/../local_cpulist",
        "class/net/../device/local_cpulist",
        "class/net/a/b/device/local_cpulist",
        "class/net/eth0/device/uevent",
        "class/net/.ssh/device/local_cpulist",
        "class/net/" + "x" * 64 + "/device/local_cpulist",
        "block/sda/device/local_cpulist/x",
        "block//device/local_cpulist",
        "bus/usb/devices/1-1/local_cpulist",
        "etc/passwd",
    ],
)
def test_the_path_of_a_device_cannot_leave_either(path: str, tmp_path: Path) -> None:
    """Only three shapes of path are a device's."""
    with pytest.raises(StateError, match="line 1 of the record is"):
        unpack(f"{path}: 0\n", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_record_that_contradicts_itself_about_directories_is_refused(tmp_path: Path) -> None:
    """A path cannot be both a file and a directory."""
    with pytest.raises(StateError, match="devices/a/b of the record cannot be written: "):
        unpack("devices/a: 1\ndevices/a/b: 1\n", tmp_path)


def test_a_mask_is_recorded_only_where_its_list_does_not_tell(tmp_path: Path) -> None:
    """People read records, and cannot read masks of a thousand CPUs."""
    at = "devices/system/cpu/cpu0/topology"
    base = f"devices/system/cpu/online: 0-1\n{at}/core_cpus: 3\n{at}/thread_siblings: 3\n"
    for listed, kept in (("0-1", False), ("1", True), ("", True), ("x", True)):
        unpack(f"{base}{at}/core_cpus_list: {listed}\n{at}/thread_siblings_list: {listed}\n", tmp_path)
        text = record(tmp_path)
        assert (f"{at}/core_cpus: 3\n" in text) == kept
        assert str(read_record(text).cores[0].cpus) == "0-1"
        assert read_record(text) == read_topology(tmp_path)


def test_a_file_may_hold_a_machine_in_any_form(tmp_path: Path) -> None:
    """The first character tells which; an unreadable file is refused with a reason."""
    file = tmp_path / "machine"
    file.write_text("\n" + rendered(uniform(cores=2)))
    assert bare(machine_in(str(file))) == bare(uniform(cores=2))
    file.write_text('\ufeff {"cpus": [{"cpu": 0, "core": 0, "socket": 0, "node": 0}]}', encoding="utf-8")
    assert str(machine_in(str(file)).online) == "0"
    for text, words in (
        ("<topology", "hwloc"),
        ("{}", "lscpu"),
        ("hello", "line 1 of the record"),
        ("", "not the sysfs"),
    ):
        file.write_text(text)
        with pytest.raises(StateError, match=f"^{file} cannot be used: .*{words}"):
            machine_in(str(file))
    with pytest.raises(StateError, match="it is not a regular file"):
        machine_in("/dev/zero")
