"""The report: the owner's own tasks are left out, and the rest has names."""

from __future__ import annotations

from sidecar.disturbance.account import GONE, ExclusiveCPUs, Tasks, tallied, traced
from sidecar.disturbance.counters import Counted
from sidecar.disturbance.disturbance_report import Disturbed
from sidecar.disturbance.ledger import Ran, Runner
from sidecar.disturbance.task_places import TaskPlace
from sidecar.disturbance.trace_lines import RunnerKind, Source
from state.cpuset import CPUSet

DB, WEB = "d" * 64, "e" * 64
OWNER = ExclusiveCPUs(DB, "db", CPUSet.of(1, 2))
DISK = Source(RunnerKind.INTERRUPT, "36 disk")
NOTHING = Counted({}, {})

TASKS = Tasks(
    {7: "db", 8: "nginx", 9: "sshd", 10: "kworker/1:1", 11: "sh", 12: "sh", 13: "db"},
    {
        7: TaskPlace(container=DB),
        8: TaskPlace(container=WEB),
        9: TaskPlace(unit="ssh.service"),
        10: TaskPlace(is_kernel=True, is_bound=True),
        11: None,
        12: None,
        13: None,
    },
    {11: 9, 13: 7},
)


def report(ran: dict[tuple[int, Runner], Ran]) -> Disturbed:
    return traced(OWNER, ran, TASKS, {WEB: "web"}, seconds=1.0, waited_ms=2.0, counted=NOTHING, lost=0)


def test_others_are_named_by_container_and_unit() -> None:
    once = Ran(1, 1000, 1000)
    found = report({(1, task): once for task in (0, 7, 8, 9, 10)} | {(1, DISK): once})
    assert {(each.kind, each.name, each.of, each.is_bound) for each in found.by} == {
        (RunnerKind.PROCESS, "nginx", "container web", False),
        (RunnerKind.PROCESS, "sshd", "ssh.service", False),
        (RunnerKind.KERNEL_THREAD, "kworker/1:1", "", True),
        (RunnerKind.INTERRUPT, "36 disk", "", False),
    }
    assert (found.foreign_ms, found.share) == (4.0, 0.002)


def test_one_that_ended_unseen_belongs_where_its_maker_does() -> None:
    """So a child of the owner's is its own, and others are never guessed to be."""
    found = report({(1, task): Ran(1, 10, 10) for task in (11, 12, 13)})
    assert sorted((each.name, each.of) for each in found.by) == [("sh", GONE), ("sh", "ssh.service")]


def test_the_same_is_one_line_whatever_its_cpu_or_task() -> None:
    tasks = Tasks({8: "nginx", 9: "nginx"}, {8: TaskPlace(container=WEB), 9: TaskPlace(container=WEB)}, {})
    ran: dict[tuple[int, Runner], Ran] = {(1, 8): Ran(2, 300, 200), (2, 9): Ran(1, 500, 500)}
    [found] = traced(OWNER, ran, tasks, {}, seconds=1.0, waited_ms=None, counted=NOTHING, lost=0).by
    assert (found.count, found.total_ms, found.longest_ms, found.cpus) == (3, 0.8, 0.5, CPUSet.of(1, 2))
    assert found.of == f"container {WEB[:12]}"


def test_other_cpus_are_not_the_owners() -> None:
    assert report({(3, 8): Ran(1, 10, 10)}).by == ()


def test_counters_tell_how_often_and_what_was_stolen() -> None:
    counted = Counted({(1, DISK): 3, (2, DISK): 4, (3, DISK): 9}, {1: 10.0, 2: 20.0, 3: 40.0})
    found = tallied(OWNER, counted, waited_ms=None)
    assert [(each.name, each.count, each.total_ms) for each in found.by] == [("36 disk", 7, None)]
    assert (found.stolen_ms, found.foreign_ms, found.share) == (30.0, None, None)
