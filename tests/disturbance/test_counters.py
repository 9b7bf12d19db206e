"""The kernel's tables, as two machines print them."""

from __future__ import annotations

import os
from pathlib import Path

from sidecar.disturbance.counters import Counted, count
from sidecar.disturbance.trace_lines import RunnerKind, Source

INTERRUPTS = """           CPU0       CPU2
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
NMI:          7          8   Non-maskable interrupts
ERR:          3
"""
SOFTIRQS = """                    CPU0       CPU2
          HI:          0          0
       TIMER:         10         20
"""
STAT = "cpu  1 2 3 4 5 6 7 8 9 0\ncpu0 1 2 3 4 5 6 7 100 0 0\ncpu2 1 2 3 4 5 6 7 0 0 0\nintr 5 1\n"


def written(directory: Path, **files: str) -> str:
    for name, text in files.items():
        (directory / name).write_text(text)
    return str(directory)


def test_the_tables_are_read(tmp_path: Path) -> None:
    found = count(written(tmp_path, interrupts=INTERRUPTS, softirqs=SOFTIRQS, stat=STAT))
    assert found.interrupts[0, Source(RunnerKind.INTERRUPT, "24 ACPI:Ged")] == 1
    assert found.interrupts[2, Source(RunnerKind.VECTOR, "Non-maskable interrupts")] == 8
    assert found.interrupts[2, Source(RunnerKind.SOFTIRQ, "TIMER")] == 20
    assert not any("ERR" in source.name for _, source in found.interrupts)
    assert found.stolen == {0: 100_000 / os.sysconf("SC_CLK_TCK"), 2: 0.0}


def test_what_cannot_be_read_is_missing(tmp_path: Path) -> None:
    assert count(written(tmp_path, interrupts="", stat="cpu\n\x00")) == Counted({}, {})


def test_only_what_came_since_is_told() -> None:
    disk, timer = Source(RunnerKind.INTERRUPT, "36 disk"), Source(RunnerKind.SOFTIRQ, "TIMER")
    before = Counted({(1, disk): 5, (1, timer): 2}, {1: 10.0})
    now = Counted({(1, disk): 7, (1, timer): 2, (2, disk): 1}, {1: 12.0, 2: 5.0})
    assert now.since(before) == Counted({(1, disk): 2, (2, disk): 1}, {1: 2.0, 2: 0.0})
