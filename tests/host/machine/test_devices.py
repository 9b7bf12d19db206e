"""Devices are near the CPUs that the kernel names, by address, interface or disk; hostile trees do no harm."""

from __future__ import annotations

import os
from pathlib import Path

from sidecar.host.machine.record import read_record, record, unpack
from sidecar.host.machine.sysfs import read_topology
from tests.support.host.trees import CPU, tree

CARD = "devices/pci0000:00/0000:00:01.0/0000:3b:00.0"
DISK = "devices/pci0000:80/0000:80:02.0"


def machine_with_devices(root: Path) -> Path:
    """Return four CPUs; a network card behind a bridge with two interfaces, an NVMe and a virtio disk, a bridge, a
    loop.
    """
    tree(root, "online: 0-3\ncpu0/:")
    for directory, near in ((CARD, "0-1"), ("devices/pci0000:00/0000:00:01.0", "0-3"), (DISK, "2-3,9")):
        (root / directory).mkdir(parents=True, exist_ok=True)
        (root / directory / "local_cpulist").write_text(f"{near}\n")
    for below in (
        f"{CARD}/net/eth0",
        f"{CARD}/net/eth0.100",
        f"{DISK}/nvme/nvme0/nvme0n1",
        f"{DISK}/virtio3/block/vda",
        "devices/virtual/net/br0",
        "devices/virtual/block/loop0",
    ):
        (root / below).mkdir(parents=True)
    for link in (
        *(f"class/net/{name}" for name in ("eth0", "eth0.100", "br0")),
        *(f"block/{name}" for name in ("nvme0n1", "vda", "loop0")),
        *(f"bus/pci/devices/{name}" for name in ("0000:00:01.0", "0000:3b:00.0", "0000:80:02.0")),
    ):
        name = link.rpartition("/")[2]
        target = next(path for path in root.glob("devices/**/*") if path.name == name and path.is_dir())
        (root / link).parent.mkdir(parents=True, exist_ok=True)
        (root / link).symlink_to(os.path.relpath(target, (root / link).parent))
    return root


NEAR = {
    "0000:00:01.0": "0-3",
    "0000:3b:00.0": "0-1",
    "0000:80:02.0": "2-3",
    "eth0": "0-1",
    "eth0.100": "0-1",
    "nvme0n1": "2-3",
    "vda": "2-3",
}


def near(root: Path) -> dict[str, str]:
    """Return each device's CPUs, as text."""
    return {name: str(cpus) for name, cpus in read_topology(root).devices.items()}


def test_a_device_is_near_what_the_nearest_function_above_it_says(tmp_path: Path) -> None:
    """Interfaces and disks are where their controller is; a device on no bus has no place. Only online CPUs count."""
    assert near(machine_with_devices(tmp_path)) == NEAR


def test_a_record_has_the_devices(tmp_path: Path) -> None:
    """Under plain paths, and recording it again gives the same bytes."""
    root = machine_with_devices(tmp_path / "first")
    text = record(root)
    assert "class/net/eth0/device/local_cpulist: 0-1\n" in text
    assert "bus/pci/devices/0000:3b:00.0/local_cpulist: 0-1\n" in text
    assert "block/nvme0n1/device/local_cpulist: 2-3,9\n" in text
    assert read_record(text) == read_topology(root)
    unpack(text, tmp_path / "second")
    assert record(tmp_path / "second") == text
    assert near(tmp_path / "second") == NEAR


def test_a_copy_without_the_bus_has_its_functions_by_their_bridges(tmp_path: Path) -> None:
    """Some recordings have the tree of devices, and not the links to it."""
    root = machine_with_devices(tmp_path)
    for link in (root / "bus/pci/devices").iterdir():
        link.unlink()
    assert near(root) == NEAR


def test_links_that_dangle_loop_or_leave_are_nothing(tmp_path: Path) -> None:
    """So are named pipes, directories in place of files, and invalid names."""
    root = machine_with_devices(tmp_path / "root")
    (tmp_path / "local_cpulist").write_text("0-3\n")
    (root / "class/net/dangling").symlink_to("../../devices/nowhere")
    (root / "class/net/leaving").symlink_to("../../../..")
    (root / "class/net/absolute").symlink_to(tmp_path)
    (root / "class/net/turning").symlink_to("turning")
    (root / "class/net/with space").symlink_to(f"../../{CARD}/net/eth0")
    (root / "class/net/-rf").symlink_to(f"../../{CARD}/net/eth0")
    (root / "block" / ("x" * 200)).symlink_to(f"../{DISK}")
    (root / "bus/pci/devices/0000:99:00.0").symlink_to("0000:99:00.0")
    (root / "bus/pci/devices/nonsense").symlink_to(f"../../../{CARD}")
    os.mkfifo(root / CPU / "isolated")
    (root / CPU / "present").mkdir()
    (root / CPU / "cpu0/topology").symlink_to(".")
    assert near(root) == NEAR
    assert read_record(record(root)) == read_topology(root)


def test_a_list_that_is_none_is_a_note_under_the_name_that_a_record_has(tmp_path: Path) -> None:
    """The device is left out; live and recorded say the same."""
    root = machine_with_devices(tmp_path)
    (root / CARD / "local_cpulist").write_text("all of them\n")
    (root / DISK / "local_cpulist").write_text("\n")
    machine = read_topology(root)
    assert set(machine.devices) == {"0000:00:01.0"}
    assert any(note.startswith("class/net/eth0/device/local_cpulist is ignored") for note in machine.notes)
    assert read_record(record(root)) == machine
