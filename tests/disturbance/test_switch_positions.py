"""How the switches stand is read from the kernel's files, and what is missing or strange is no value."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.disturbance.bitmaps import bitmap, read_bitmap
from sidecar.disturbance.switch_positions import Positions, read_positions
from state.cpuset import EMPTY, CPUSet

FILES = {
    "proc/cmdline": "quiet nohz_full=2-3 isolcpus=domain,managed_irq,2-3 rcu_nocbs=all\n",
    "proc/irq/36/smp_affinity_list": "0-3\n",
    "proc/irq/37/smp_affinity_list": "\n",
    "proc/irq/default_smp_affinity": "f\n",
    "proc/sys/kernel/timer_migration": "1\n",
    "sys/devices/system/cpu/online": "0-3\n",
    "sys/devices/system/cpu/nohz_full": "2-3\n",
    "sys/devices/virtual/workqueue/cpumask": "f\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/class/net/eth0/queues/rx-0/rps_cpus": "00000000,0000000c\n",
    "sys/class/net/eth0/queues/rx-1/rps_cpus": "0\n",
    "sys/class/net/eth0/queues/tx-0/xps_cpus": "4\n",
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io\n",
    "run/systemd/system/.keep": "",
}


def host(root: Path, **changed: str) -> Positions:
    for path, text in {**FILES, **changed}.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return read_positions(CPUSet.of(2), str(root))


def test_every_switch_is_read(tmp_path: Path) -> None:
    assert host(tmp_path) == Positions(
        others=CPUSet.of(0, 1, 3),
        boot={"nohz_full": "2-3", "isolcpus": "domain,managed_irq,2-3", "rcu_nocbs": "all"},
        nohz_full=CPUSet.of(2, 3),
        interrupts={36: CPUSet.parse("0-3")},
        steering={
            "/sys/class/net/eth0/queues/rx-0/rps_cpus": CPUSet.of(2, 3),
            "/sys/class/net/eth0/queues/tx-0/xps_cpus": CPUSet.of(2),
        },
        workqueues=CPUSet.parse("0-3"),
        timer_migration=True,
        huge_pages="madvise",
        confines_units=True,
    )


def test_where_nothing_can_be_read_nothing_is_known(tmp_path: Path) -> None:
    assert read_positions(CPUSet.of(2), str(tmp_path)) == Positions(others=EMPTY)


def test_this_host_can_be_read() -> None:
    """Whatever kernel it has."""
    assert read_positions(EMPTY).others


def test_a_kernel_with_no_cpus_under_nohz_full_says_null(tmp_path: Path) -> None:
    assert host(tmp_path, **{"sys/devices/system/cpu/nohz_full": "  (null)\n"}).nohz_full == EMPTY


@pytest.mark.parametrize(
    ("text", "cpus"), [("2-3", "2-3"), ("domain,2-3", "2-3"), ("managed_irq,domain,2", "2"), ("1-8:2/4", ""), ("", "")]
)
def test_the_cpus_of_a_parameter_come_after_its_flags(text: str, cpus: str) -> None:
    assert str(Positions(others=EMPTY, boot={"isolcpus": text}).asked("isolcpus")) == cpus


@pytest.mark.parametrize(
    ("cpus", "text"), [("0-1", "3"), ("32", "1,00000000"), ("0,63", "80000000,00000001"), ("", "0")]
)
def test_a_bitmap_has_words_of_32_bits(cpus: str, text: str) -> None:
    found = CPUSet.parse(cpus)
    assert bitmap(found) == text
    assert read_bitmap(text) == found


@pytest.mark.parametrize("text", ["", "x", "(null)"])
def test_what_is_no_bitmap_is_none(text: str) -> None:
    assert read_bitmap(text) is None
