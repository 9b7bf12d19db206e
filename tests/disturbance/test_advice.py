"""What silences a disturber: a switch that is not set yet, and the how-to page has the same table."""

from __future__ import annotations

import re
import subprocess

import pytest

from sidecar.disturbance.account import GONE
from sidecar.disturbance.advice import STOLEN, Switch, switches
from sidecar.disturbance.disturbance_report import Disturber
from sidecar.disturbance.switch_positions import Positions
from sidecar.disturbance.trace_lines import VECTORS, RunnerKind
from state.cpuset import EMPTY, CPUSet
from tests.docs.pages import ROOT, names, rows, section

CPUS = CPUSet.of(2, 3)
OTHERS = CPUSet.of(0, 1)
ALL = CPUS | OTHERS

PLAIN = Positions(
    others=OTHERS,
    nohz_full=EMPTY,
    interrupts={36: ALL, 37: OTHERS},
    steering={"/sys/class/net/eth0/queues/rx-0/rps_cpus": ALL, "/sys/class/net/eth0/queues/tx-0/xps_cpus": CPUS},
    workqueues=ALL,
    timer_migration=True,
    huge_pages="madvise",
    confines_units=True,
)
"""A host on which nothing was set for quietness."""

QUIET = Positions(
    others=OTHERS,
    boot={"nohz_full": "2-3", "rcu_nocbs": "2-3", "isolcpus": "managed_irq,2-3"},
    nohz_full=CPUS,
    interrupts={36: OTHERS},
    steering={"/sys/class/net/eth0/queues/rx-0/rps_cpus": OTHERS},
    workqueues=OTHERS,
    timer_migration=True,
    huge_pages="never",
    confines_units=True,
)
"""A host on which everything is set."""


def one(kind: RunnerKind, name: str, of: str = "", *, is_bound: bool = False) -> Disturber:
    return Disturber(kind=kind, name=name, of=of, count=1, cpus=CPUSet.of(2), is_bound=is_bound)


BACKUP = one(RunnerKind.PROCESS, "backup", "backup.service")
DISK = one(RunnerKind.INTERRUPT, "36 disk")
TICK = one(RunnerKind.VECTOR, "local_timer")
TIMERS = one(RunnerKind.SOFTIRQ, "TIMER")
RECEIVED = one(RunnerKind.SOFTIRQ, "NET_RX")
UNBOUND = one(RunnerKind.KERNEL_THREAD, "kworker/u8:1", is_bound=True)
BOUND = one(RunnerKind.KERNEL_THREAD, "kworker/2:1", is_bound=True)
HUGE = one(RunnerKind.KERNEL_THREAD, "khugepaged")
RCU = one(RunnerKind.SOFTIRQ, "RCU")

OF_THE_PAGE = {
    "process of a unit": BACKUP,
    "process of a container": one(RunnerKind.PROCESS, "nginx", "container web"),
    "other process": one(RunnerKind.PROCESS, "sh", "/build"),
    "interrupt": DISK,
    "softirq NET_RX": RECEIVED,
    "softirq NET_TX": one(RunnerKind.SOFTIRQ, "NET_TX"),
    "softirq BLOCK": one(RunnerKind.SOFTIRQ, "BLOCK"),
    "softirq TIMER": TIMERS,
    "softirq SCHED": one(RunnerKind.SOFTIRQ, "SCHED"),
    "vector `local_timer`": TICK,
    "softirq RCU": RCU,
    "other vectors": one(RunnerKind.VECTOR, "reschedule"),
    "kernel thread `kworker/u...`": UNBOUND,
    "kernel thread `khugepaged`": HUGE,
    "kernel thread that stays": BOUND,
    "other kernel threads": one(RunnerKind.KERNEL_THREAD, "rcu_preempt"),
}

EVERY = (
    *OF_THE_PAGE.values(),
    one(RunnerKind.PROCESS, "sh", GONE),
    one(RunnerKind.PROCESS, "sh"),
    one(RunnerKind.PROCESS, "a 'b'; $(reboot)", "x'; reboot #.service"),
    one(RunnerKind.INTERRUPT, "11 arch_timer"),
    one(RunnerKind.INTERRUPT, "37 net"),
    one(RunnerKind.INTERRUPT, "unread"),
    *(one(RunnerKind.SOFTIRQ, name) for name in ("HI", "TASKLET", "IRQ_POLL", "HRTIMER")),
    *(one(RunnerKind.VECTOR, name) for name in (*VECTORS, "Local timer interrupts", "TLB shootdowns", "IPI")),
    *(
        one(RunnerKind.KERNEL_THREAD, name, is_bound=True)
        for name in ("irq/36-disk", "ksoftirqd/2", "rcuc/2", "migration/2", "kworker/R-x")
    ),
)


def commands(which: Disturber, now: Positions) -> list[tuple[str, bool]]:
    return [(each.command, each.needs_reboot) for each in switches(which, CPUS, now) if each.command]


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        (BACKUP, [("systemctl set-property --runtime backup.service AllowedCPUs=0-1", False)]),
        (
            DISK,
            [("echo 0-1 > /proc/irq/36/smp_affinity_list", False), ("isolcpus=managed_irq,2-3", True)],
        ),
        (TICK, [("nohz_full=2-3", True)]),
        (RCU, [("rcu_nocbs=2-3", True)]),
        (TIMERS, [("sysctl kernel.timer_migration=0", False), ("nohz_full=2-3", True)]),
        (RECEIVED, [("echo 3 > /sys/class/net/eth0/queues/rx-0/rps_cpus", False)]),
        (UNBOUND, [("echo 3 > /sys/devices/virtual/workqueue/cpumask", False)]),
        (
            HUGE,
            [
                ("pgrep -x -- khugepaged | xargs -rn1 taskset -pc 0-1", False),
                ("echo never > /sys/kernel/mm/transparent_hugepage/enabled", False),
            ],
        ),
        (BOUND, []),
    ],
    ids=lambda value: value.name if isinstance(value, Disturber) else "",
)
def test_the_switch_is_a_command_and_tells_whether_it_needs_a_reboot(
    which: Disturber, expected: list[tuple[str, bool]]
) -> None:
    assert commands(which, PLAIN) == expected


@pytest.mark.parametrize("which", [DISK, TICK, RCU, TIMERS, RECEIVED, UNBOUND, BOUND], ids=lambda each: each.name)
def test_what_is_set_already_is_not_advised(which: Disturber) -> None:
    """And there is a word on why nothing is left to set."""
    assert commands(which, QUIET) == []
    assert all(each.says and not each.needs_reboot for each in switches(which, CPUS, QUIET))


def test_khugepaged_without_huge_pages_can_only_be_moved() -> None:
    assert [command.split()[0] for command, _ in commands(HUGE, QUIET)] == ["pgrep"]


@pytest.mark.parametrize("now", [PLAIN, QUIET, Positions(others=OTHERS), Positions(others=EMPTY)])
@pytest.mark.parametrize("which", EVERY, ids=lambda each: f"{each.kind} {each.name}")
def test_there_is_a_word_on_everything_and_no_command_names_the_owners_cpus(which: Disturber, now: Positions) -> None:
    """A command moves things to CPUs of no owner; only parameters of the command line name the owner's."""
    found = switches(which, CPUS, now)
    assert found
    for each in found:
        assert each.says
        if not each.needs_reboot and (told := re.search(r"(?:-pc |AllowedCPUs=|-cpus |^echo )(\S+)", each.command)):
            assert told[1] in ("0-1", "3", "never")


@pytest.mark.parametrize("which", EVERY, ids=lambda each: f"{each.kind} {each.name}")
def test_without_another_cpu_nothing_is_moved(which: Disturber) -> None:
    found = [command for command, needs_reboot in commands(which, PLAIN._replace(others=EMPTY)) if not needs_reboot]
    assert all(command.startswith(("sysctl", "echo never")) for command in found)


def test_what_is_set_stays_but_for_owners_cpus() -> None:
    now = PLAIN._replace(others=CPUSet.parse("0-1,4-7"), interrupts={36: CPUSet.parse("1-3")})
    assert commands(DISK, now)[0] == ("echo 1 > /proc/irq/36/smp_affinity_list", False)


def test_parameters_of_the_command_line_have_one_list_and_keep_what_is_there() -> None:
    """The kernel refuses `isolcpus=` and `nohz_full=` that differ."""
    now = PLAIN._replace(boot={"nohz_full": "7", "rcu_nocbs": "6", "isolcpus": "domain,managed_irq,5"})
    assert commands(DISK, now)[1] == ("isolcpus=managed_irq,2-3,5,7", True)
    assert commands(TICK, now) == [("nohz_full=2-3,5,7", True)]
    assert commands(RCU, now) == [("rcu_nocbs=2-3,6", True)]


def test_a_kernel_without_nohz_full_is_told_to_need_another_one() -> None:
    [told] = switches(TICK, CPUS, PLAIN._replace(nohz_full=None))
    assert (told.command, told.needs_reboot) == ("", True)
    assert "CONFIG_NO_HZ_FULL" in told.says


def test_a_parameter_that_the_kernel_did_not_take_is_not_advised_again() -> None:
    [told] = switches(TICK, CPUS, PLAIN._replace(boot={"nohz_full": "2-3"}, nohz_full=CPUSet.of(3)))
    assert told == Switch(says="the kernel was given nohz_full=2-3, and took 3")


def test_timers_leave_the_cpus_of_nohz_full_only_if_they_may_move() -> None:
    now = QUIET._replace(timer_migration=False)
    assert commands(TIMERS, now) == [("sysctl kernel.timer_migration=1", False)]


def test_a_unit_that_systemd_cannot_confine_is_moved_by_its_tasks() -> None:
    """On cgroup v1 AllowedCPUs has no effect, and a slice may hold containers."""
    v1 = PLAIN._replace(confines_units=False)
    slice_ = one(RunnerKind.PROCESS, "backup", "system.slice")
    for which, now in ((BACKUP, v1), (slice_, PLAIN)):
        assert commands(which, now) == [("pgrep -wx -- backup | xargs -rn1 taskset -pc 0-1", False)]


@pytest.mark.parametrize("name", ["a b", "x'; echo run; '", "$(echo run)", "a|b", "(sd-pam)", "[x]*.^", "-f", "\\"])
def test_a_name_is_never_run_and_matches_itself_alone(name: str) -> None:
    """Tasks choose their names."""
    [(command, _)] = commands(one(RunnerKind.PROCESS, name), PLAIN)
    pattern = command.removeprefix("pgrep -wx -- ").removesuffix(" | xargs -rn1 taskset -pc 0-1")
    read = subprocess.run(["sh", "-c", f"printf %s {pattern}"], capture_output=True, text=True, check=True)
    assert (read.stdout, read.stderr) == (re.sub(r"[][\\.^$*+?(){}|]", r"\\\g<0>", name), "")
    found = subprocess.run(["grep", "-Ex", "-e", read.stdout], input=f"{name}\nother\n", capture_output=True, text=True)
    assert found.stdout == f"{name}\n"


def test_the_how_to_page_has_the_same_table() -> None:
    """Each of its rows is an answer of the table's, with the same command and time; none is missing."""
    page = rows(section(ROOT / "docs" / "how-to" / "see-what-disturbs.md", "What silences it"))
    table = [(what, switch, when) for what, switch, when in page if what != "what"]
    assert {what for what, _, _ in table} == {*OF_THE_PAGE, "a hypervisor took time"}
    assert not STOLEN.command
    for what, which in OF_THE_PAGE.items():
        told = {
            (re.sub("UNIT", "backup.service", re.sub("NUMBER", "36", names(switch)[0])), when == "reboot")
            for name, switch, when in table
            if name == what and when != "no switch"
        }
        found = commands(which, PLAIN)
        assert len(told) == len(found), what
        for text, needs_reboot in told:
            assert [each for each in found if text in each[0] and each[1] is needs_reboot], (what, text)
