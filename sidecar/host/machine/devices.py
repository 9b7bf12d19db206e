"""Which CPUs are near which device: PCI functions, network interfaces, block devices; by the kernel's `local_cpulist`.

Only PCI functions have that file. An interface or a disk is as near as the nearest directory above it that has one, so
a virtio disk, or an NVMe name space, is where its controller is. A device on no bus (bridges, loops, bonds, the
interfaces of containers) is near nothing, and is left out.

In a record each device has one path, whatever the way to it was on the machine:
`bus/pci/devices/0000:3b:00.0/local_cpulist`, `class/net/eth0/device/local_cpulist`, `block/sda/device/local_cpulist`.
"""

from __future__ import annotations

import re
from typing import Final

from sidecar.host.machine.sources import Files
from sidecar.host.machine.values import MachineFiles
from state.cpuset import CPUSet

PCI_DIR: Final = "bus/pci/devices"
NET_DIR: Final = "class/net"
BLOCK_DIR: Final = "block"

NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.:@!+-]{0,62}"
"""A device's name: short, and nothing that could be a path, an option, or more than one word."""

_PCI_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NAME: Final = re.compile(NAME)

_MAX_OF_A_SORT: Final = 4096
"""Names read of each sort of device: a host of many virtual functions has a thousand."""

_MAX_DEPTH: Final = 16
"""Directories above a device that are read: bridges behind bridges make about ten."""


def devices(told: MachineFiles, online: CPUSet) -> dict[str, CPUSet]:
    """Return the online CPUs near each device, by its PCI address, interface or disk name.

    Devices without such CPUs are left out.
    """
    found: dict[str, CPUSet] = {}
    for path, text in local_lists(told.files).items():
        name = path.removesuffix("/local_cpulist").removesuffix("/device").rpartition("/")[2]
        cpus = told.parsed(path, text)
        if cpus and (near := cpus & online):
            found.setdefault(name, near)
    return found


def local_lists(files: Files) -> dict[str, str]:
    """Return the list of each device, its own or one from above it, by its path in a record."""
    found = _pci(files)
    # Directories that were already read: a card of a hundred interfaces sits below one.
    seen: dict[str, str | None] = {}
    for directory in (NET_DIR, BLOCK_DIR):
        for name in files.children(directory)[:_MAX_OF_A_SORT]:
            if _NAME.fullmatch(name) and (text := _nearest(files, f"{directory}/{name}", seen)) is not None:
                found[f"{directory}/{name}/device/local_cpulist"] = text
    return found


def _pci(files: Files) -> dict[str, str]:
    """Return the list of each PCI function: from the bus, or, if a copy has no bus, from the tree of bridges."""
    found: dict[str, str] = {}
    for name in files.children(PCI_DIR)[:_MAX_OF_A_SORT]:
        path = f"{PCI_DIR}/{name}/local_cpulist"
        if _PCI_ADDRESS.fullmatch(name) and (text := files.value(path)) is not None:
            found[path] = text
    waiting = [f"devices/{name}" for name in files.children("devices") if name.startswith("pci") and not found]
    for _ in range(_MAX_DEPTH):
        below: list[str] = []
        for directory in waiting:
            for name in files.children(directory):
                if not _PCI_ADDRESS.fullmatch(name) or len(found) >= _MAX_OF_A_SORT:
                    continue
                below.append(f"{directory}/{name}")
                if (text := files.value(f"{directory}/{name}/local_cpulist")) is not None:
                    found.setdefault(f"{PCI_DIR}/{name}/local_cpulist", text)
        waiting = below
    return found


def _nearest(files: Files, path: str, seen: dict[str, str | None]) -> str | None:
    """Return the nearest list at or above a device; None if it sits on no bus."""
    target = files.target(path) or files.target(f"{path}/device")
    if target is None:
        return files.value(f"{path}/device/local_cpulist")
    above = target.split("/")
    if above[0] != "devices" or above[1:2] == ["virtual"]:
        return None
    for depth in range(len(above), max(1, len(above) - _MAX_DEPTH), -1):
        at = "/".join(above[:depth])
        if at not in seen:
            seen[at] = files.value(f"{at}/local_cpulist")
        if (text := seen[at]) is not None:
            return text
    return None
