"""How the switches of this host stand that decide what runs on a CPU. Read from files; nothing is written."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from sidecar.disturbance.bitmaps import read_bitmap
from state.cpuset import EMPTY, CPUSet
from state.errors import StateError

WORKQUEUES: Final = "/sys/devices/virtual/workqueue/cpumask"
HUGE_PAGES: Final = "/sys/kernel/mm/transparent_hugepage/enabled"

_FLAGS: Final = re.compile(r"^(?:(?:nohz|domain|managed_irq),)+")
"""Of `isolcpus=`, before its CPUs."""

_QUEUES: Final = ("rx-*/rps_cpus", "tx-*/xps_cpus")


class Positions(NamedTuple):
    """What is set. A field that could not be read is None, or empty.

    `others` are the online CPUs that no container has for its own: what is moved goes there. `nohz_full` is what the
    kernel took, None if it was built without; `boot` has the parameters of its command line. `interrupts` are CPU sets
    by number, `steering` those of network queues by file, without those that are off.
    """

    others: CPUSet
    boot: Mapping[str, str] = {}
    nohz_full: CPUSet | None = None
    interrupts: Mapping[int, CPUSet] = {}
    steering: Mapping[str, CPUSet] = {}
    workqueues: CPUSet | None = None
    timer_migration: bool | None = None
    huge_pages: str = ""
    confines_units: bool = False

    def asked(self, parameter: str) -> CPUSet:
        """Return the CPUs of a parameter of the kernel's command line, without its flags; those that can be read."""
        return cpus_in(_FLAGS.sub("", self.boot.get(parameter, "")))


def read_positions(exclusive: CPUSet, root: str = "/") -> Positions:
    """Return how the switches stand. `exclusive` are the CPUs of all owners; `root` is where /proc and /sys are."""
    at = root.rstrip("/")
    migration = _text(f"{at}/proc/sys/kernel/timer_migration")
    nohz_full = f"{at}/sys/devices/system/cpu/nohz_full"
    return Positions(
        others=cpus_in(_text(f"{at}/sys/devices/system/cpu/online")) - exclusive,
        boot=_parameters(_text(f"{at}/proc/cmdline")),
        nohz_full=cpus_in(_text(nohz_full)) if os.path.exists(nohz_full) else None,
        interrupts=dict(_interrupts(f"{at}/proc/irq")),
        steering={file.removeprefix(at): cpus for file, cpus in _steering(f"{at}/sys/class/net") if cpus},
        workqueues=read_bitmap(_text(f"{at}{WORKQUEUES}")),
        timer_migration=migration != "0" if migration else None,
        huge_pages=_text(f"{at}{HUGE_PAGES}").partition("[")[2].partition("]")[0],
        confines_units="cpuset" in _text(f"{at}/sys/fs/cgroup/cgroup.controllers").split()
        and os.path.isdir(f"{at}/run/systemd/system"),
    )


def cpus_in(text: str) -> CPUSet:
    """Return a list of CPUs as the kernel writes it; empty if it is none, as `(null)`."""
    try:
        return CPUSet.parse(text.strip())
    except StateError:
        return EMPTY


def _parameters(line: str) -> Mapping[str, str]:
    """Return the parameters with a value; of one that is repeated, the last."""
    return {name: value for name, equals, value in (word.partition("=") for word in line.split()) if equals}


def _interrupts(folder: str) -> Iterator[tuple[int, CPUSet]]:
    for file in glob.iglob(f"{folder}/[0-9]*/smp_affinity_list"):
        number = os.path.basename(os.path.dirname(file))
        if number.isdigit() and (cpus := cpus_in(_text(file))):
            yield int(number), cpus


def _steering(folder: str) -> Iterator[tuple[str, CPUSet]]:
    for queues in _QUEUES:
        for file in sorted(glob.iglob(f"{folder}/*/queues/{queues}")):
            yield file, read_bitmap(_text(file)) or EMPTY


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
