"""A machine as one text file of sorted `path: value` lines: for reading, for test data, and for bug reports.

The paths are those of sysfs below its root. A directory that holds nothing else is a line with a final slash.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from sidecar.host.machine.core_kinds import HYBRID
from sidecar.host.machine.devices import BLOCK_DIR, NAME, NET_DIR, PCI_DIR, local_lists
from sidecar.host.machine.numa_nodes import NODE_DIR
from sidecar.host.machine.sources import Files, Live, numbered
from sidecar.host.machine.sysfs import CPU_DIR, understand
from sidecar.host.machine.values import MachineFiles
from state import files
from state.errors import StateError
from state.topology import Topology

_MACHINE_FILES: Final = (
    *(f"{CPU_DIR}/{name}" for name in ("online", "present", "possible", "offline", "isolated", "nohz_full")),
    f"{CPU_DIR}/smt/active",
    f"{CPU_DIR}/smt/control",
    *(f"{NODE_DIR}/{name}" for name in ("online", "has_cpu", "has_memory", "has_normal_memory")),
    *HYBRID,
)
_CPU_FILES: Final = (
    "online",
    "cpu_capacity",
    "acpi_cppc/highest_perf",
    "topology/core_id",
    "topology/physical_package_id",
    "topology/die_id",
    "topology/cluster_id",
    *(f"topology/{name}_cpus_list" for name in ("core", "cluster", "die", "package")),
    *(f"topology/{name}_siblings_list" for name in ("thread", "core")),
)
_CACHE_FILES: Final = ("level", "type", "id", "size", "shared_cpu_list")
_NODE_FILES: Final = ("cpulist", "distance")
"""All files that are read, and those that a bug report should show in addition."""

_CPU_MASKS: Final = {
    **{f"topology/{name}_cpus": f"topology/{name}_cpus_list" for name in ("core", "cluster", "die", "package")},
    **{f"topology/{name}_siblings": f"topology/{name}_siblings_list" for name in ("thread", "core")},
}
_CACHE_MASKS: Final = {"shared_cpu_map": "shared_cpu_list"}
"""Masks, and the lists that are equal to them: a mask is recorded only if its list does not contain the CPU itself."""

_FORMER: Final = {
    "topology/thread_siblings_list": "topology/core_cpus_list",
    "topology/core_siblings_list": "topology/package_cpus_list",
}
"""Names of kernels before 5.2, which later ones have in addition (Documentation/admin-guide/cputopology.rst)."""

_DEVICE: Final = rf"(?:{PCI_DIR}/{NAME}|(?:{NET_DIR}|{BLOCK_DIR})/{NAME}/device)/local_cpulist"
_LINE: Final = re.compile(rf"((?:devices/(?:[A-Za-z0-9_]+/)*[A-Za-z0-9_]*)|{_DEVICE}): ?([^\x00-\x1f\x7f]*)")
MAX_CHARACTERS: Final = 32 * 1024 * 1024
"""A machine of 8192 CPUs takes about 16 MiB."""


def record(root: str | Path = "/sys") -> str:
    """Return the machine below `root` as text; equal machines give equal text. Raise StateError if there is none."""
    files = collect(root)
    understand(files)
    parents = {f"{path.rsplit('/', depth)[0]}/" for path in files if not path.endswith("/") for depth in (1, 2, 3)}
    lines = [f"{path}: {files[path]}".rstrip() for path in sorted(files, key=_natural) if path not in parents]
    return "".join(f"{line}\n" for line in lines)


def collect(root: str | Path) -> dict[str, str]:
    """Return the files that describe the machine below `root`: relative path to stripped value.

    A CPU's directory has a final slash and no value, since its mere presence is information. Files that are missing,
    unreadable, or not one line of text are left out.
    """
    with Live(str(root)) as files:
        found = _found(files)
        found.update(local_lists(files))
    return found


def read_record(text: str) -> Topology:
    """Return the Topology of a recorded machine. Raise StateError, naming the line, if it is not one."""
    return understand(_files(text))


def unpack(text: str, directory: str | Path) -> None:
    """Write a recorded machine below `directory` as sysfs has it. Raise StateError, naming the line, if it is none."""
    base = Path(directory)
    for path, value in _files(text).items():
        try:
            if path.endswith("/"):
                (base / path).mkdir(parents=True, exist_ok=True)
            else:
                (base / path).parent.mkdir(parents=True, exist_ok=True)
                (base / path).write_text(value + "\n", encoding="ascii")
        except OSError as error:
            raise StateError(f"{path[:100]} of the record cannot be written: {files.reason(error)}") from error


def _found(files: Files) -> dict[str, str]:
    found: dict[str, str] = {}
    told = MachineFiles(files)

    def take(directory: str, names: Iterable[str]) -> None:
        for name in names:
            path = f"{directory}/{name}" if directory else name
            if (value := files.value(path)) is not None:
                found[path] = value

    def take_masks(directory: str, masks: Mapping[str, str], cpu: int) -> None:
        take(directory, (mask for mask, named in masks.items() if not told.naming(cpu, directory, (named,), ())))

    take("", _MACHINE_FILES)
    for cpu in numbered(files, CPU_DIR, "cpu"):
        at = f"{CPU_DIR}/cpu{cpu}"
        found[f"{at}/"] = ""
        take(at, _CPU_FILES)
        take_masks(at, _CPU_MASKS, cpu)
        for former, present in _FORMER.items():
            same = found.get(f"{at}/{former}") == found.get(f"{at}/{present}")
            if same and told.naming(cpu, at, (present,), ()):
                del found[f"{at}/{former}"]
        for index in numbered(files, f"{at}/cache", "index"):
            take(f"{at}/cache/index{index}", _CACHE_FILES)
            take_masks(f"{at}/cache/index{index}", _CACHE_MASKS, cpu)
    for node in numbered(files, NODE_DIR, "node"):
        at = f"{NODE_DIR}/node{node}"
        take(at, _NODE_FILES)
        if not told.cpus(f"{at}/cpulist"):
            take(at, ("cpumap",))
    return found


def _files(text: str) -> dict[str, str]:
    if len(text) > MAX_CHARACTERS:
        raise StateError(f"a record of {len(text)} characters is too long to be one machine")
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None or not line.isascii():
            raise StateError(
                f"line {number} of the record is {line[:60]!r}: expected `devices/...: value`, "
                "as `cpuset-sidecar topology --record` writes it"
            )
        found[match[1]] = match[2].strip()
    return found


def _natural(path: str) -> list[tuple[int, str]]:
    """Return a sort key that puts cpu2 before cpu10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path)]
