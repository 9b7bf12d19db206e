"""Kernel threads and workqueues are confined and restored, with played threads: those of this machine are not moved."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import pytest
import trio
from msgspec.structs import replace

from sidecar.failures import EngineFailed
from sidecar.host.units.host_record import HostOriginals, HostRecord
from sidecar.host.units.host_tasks import HostTasks, Task
from sidecar.host.units.kernel_threads import BOUND, QUEUES, REFUSING, KernelThreads, Workqueues
from sidecar.host_ports import UnitLook
from state.cpuset import CPUSet

ALL = CPUSet.parse("0-3")
FREE, BOUND_FLAG, OF_KERNEL = 0, 0x04000000, 0x00200000


class Threads:
    """Threads of a played kernel, below a played /proc; `stubborn` ones refuse."""

    def __init__(self, tmp_path: Path) -> None:
        self.proc = tmp_path / "proc"
        self.allowed: dict[int, set[int]] = {}
        self.stubborn: set[int] = set()
        self.state_dir, self.boot = tmp_path / "state", tmp_path / "boot_id"
        self.state_dir.mkdir()
        self.boot.write_text("one\n")
        (self.proc / "2" / "task" / "2").mkdir(parents=True)
        self.add(10, "ksoftirqd/1", "1", flags=BOUND_FLAG)
        self.add(11, "kworker/0:1H", "0", flags=BOUND_FLAG)
        self.add(12, "kcompactd0", "0-3")
        self.add(13, "kswapd1", "2-3")
        self.add(14, "irq/24-eth0", "1")

    def add(self, id: int, name: str, cpus: str, *, flags: int = FREE, start: int = 5) -> None:
        self.allowed[id] = set(CPUSet.parse(cpus))
        (self.proc / str(id)).mkdir(exist_ok=True)
        stat = f"{id} ({name}) S 2 0 0 0 -1 {flags | OF_KERNEL} {' '.join('0' * 12)} {start}"
        (self.proc / str(id) / "stat").write_text(stat + "\n")
        (self.proc / "2" / "task" / "2" / "children").write_text(" ".join(map(str, self.allowed)) + " ")

    def set(self, id: int, cpus: Iterable[int]) -> None:
        if id not in self.allowed:
            raise ProcessLookupError
        if id in self.stubborn:
            raise OSError(22, "Invalid argument")
        self.allowed[id] = set(cpus)

    def record(self) -> HostRecord:
        return HostRecord(self.state_dir, self.boot)

    def gone(self, id: int) -> None:
        del self.allowed[id]
        (self.proc / str(id) / "stat").unlink()
        (self.proc / "2" / "task" / "2" / "children").write_text(" ".join(map(str, self.allowed)) + " ")

    def unit(self, tasks: HostTasks | None = None) -> KernelThreads:
        """What a sidecar that was just started knows."""
        return KernelThreads(
            self.record(),
            lambda: ALL,
            tasks=tasks or HostTasks(str(self.proc)),
            affinity=self.allowed.__getitem__,
            set_affinity=self.set,
        )


class Reading(HostTasks):
    """Remembers which tasks were read."""

    def __init__(self, proc: str) -> None:
        super().__init__(proc)
        self.read: list[int] = []

    def task(self, id: int) -> Task | None:
        self.read.append(id)
        return super().task(id)


@pytest.fixture
def threads(tmp_path: Path) -> Threads:
    return Threads(tmp_path)


@pytest.mark.trio
async def test_they_are_confined_as_far_as_they_may_and_restored(threads: Threads) -> None:
    """Each to what it had, also by a sidecar that was started later, and killed in between."""
    unit, had = threads.unit(), {id: set(cpus) for id, cpus in threads.allowed.items()}
    assert unit.look() == UnitLook("", "", runs=True)
    assert unit.effective() == ALL
    await unit.confine(CPUSet.parse("0,2"))
    assert threads.allowed == {10: {1}, 11: {0}, 12: {0, 2}, 13: {2}, 14: {1}}
    assert unit.effective() == CPUSet.parse("0,2")
    await threads.unit().confine(CPUSet.parse("0-2"))
    assert threads.allowed[12] == {0, 1, 2}
    successor = threads.unit()
    assert successor.look() == UnitLook("", "0-2", runs=True)
    await successor.confine(ALL)
    assert {id: cpus & set(ALL) for id, cpus in threads.allowed.items()} == had
    assert threads.unit().look() == UnitLook("", "", runs=True)


def test_those_that_the_kernel_binds_are_named_once_for_all_cpus(threads: Threads) -> None:
    threads.add(15, "ksoftirqd/0", "0", flags=BOUND_FLAG)
    assert threads.unit().holes() == {BOUND: "the kernel keeps them on their CPUs: ksoftirqd, kworker"}


@pytest.mark.trio
async def test_one_that_came_since_may_run_everywhere(threads: Threads) -> None:
    unit = threads.unit()
    await unit.confine(CPUSet.parse("0,2"))
    threads.add(20, "jbd2/sda1-8", "0-3")
    assert unit.effective() == ALL
    await unit.confine(CPUSet.parse("0,2"))
    assert threads.allowed[20] == {0, 2}
    await unit.confine(ALL)
    assert threads.allowed[20] >= set(ALL)


@pytest.mark.trio
async def test_one_that_refuses_holds_up_no_owner_and_is_named(threads: Threads) -> None:
    """So is one whose own CPUs are all taken."""
    threads.stubborn = {12}
    unit = threads.unit()
    await unit.confine(CPUSet.of(0))
    assert threads.allowed[12] == set(ALL)
    assert threads.allowed[13] == {2, 3}
    assert unit.effective() == CPUSet.of(0)
    assert unit.holes()[REFUSING].endswith(": kcompactd, kswapd")


@pytest.mark.trio
async def test_an_id_that_is_used_again_is_another_thread(threads: Threads) -> None:
    unit = threads.unit()
    await unit.confine(CPUSet.of(0, 2))
    threads.add(13, "kswapd9", "1-3", start=99)
    await unit.confine(ALL)
    assert threads.allowed[13] == {1, 2, 3}


def test_each_thread_is_read_once_however_often_is_looked(threads: Threads) -> None:
    """A host has hundreds, and is looked at every second. One that comes is read, and one that is gone is forgotten."""
    tasks = Reading(str(threads.proc))
    unit = threads.unit(tasks)
    for _ in range(3):
        unit.look(), unit.effective(), unit.holes()
    assert sorted(tasks.read) == sorted(threads.allowed)
    threads.add(20, "jbd2/sda1-8", "0-3")
    unit.holes(), unit.effective()
    assert tasks.read[len(threads.allowed) - 1 :] == [20]
    threads.gone(20)
    unit.holes()
    threads.add(20, "ksoftirqd/3", "3", flags=BOUND_FLAG, start=99)
    assert "ksoftirqd" in unit.holes()[BOUND]
    assert [task.start for task in tasks.of_kernel() if task.id == 20] == ["99"]


@pytest.mark.trio
async def test_one_that_comes_while_the_others_are_moved_is_moved_as_well(threads: Threads) -> None:
    """Else the order would have failed, and be repeated after a pause."""
    move = threads.set

    def moved(id: int, cpus: Iterable[int]) -> None:
        if 20 not in threads.allowed:
            threads.add(20, "jbd2/sda1-8", "0-3")
        move(id, cpus)

    threads.set = moved  # type: ignore[method-assign]
    unit = threads.unit()
    await unit.confine(CPUSet.of(0, 2))
    assert unit.effective() == CPUSet.of(0, 2)
    assert threads.allowed[20] == {0, 2}


@pytest.mark.trio
async def test_one_that_the_kernel_bound_since_it_was_first_read_is_named_as_bound(threads: Threads) -> None:
    """The kernel makes a thread, and binds it soon after."""
    threads.add(20, "cpuhp/3", "0-3")
    unit = threads.unit()
    assert "cpuhp" not in unit.holes()[BOUND]
    threads.add(20, "cpuhp/3", "3", flags=BOUND_FLAG)
    threads.stubborn = {20}
    await unit.confine(CPUSet.of(0))
    assert "cpuhp" in unit.holes()[BOUND]
    assert unit.effective() == CPUSet.of(0)


@pytest.mark.trio
async def test_nothing_is_moved_before_it_is_recorded(threads: Threads) -> None:
    had = {id: set(cpus) for id, cpus in threads.allowed.items()}
    threads.state_dir.rmdir()
    threads.state_dir.write_text("no directory")
    with pytest.raises(EngineFailed, match="cannot be recorded"):
        await threads.unit().confine(CPUSet.of(0))
    assert threads.allowed == had


@pytest.mark.trio
async def test_another_boots_record_is_none(threads: Threads) -> None:
    await threads.unit().confine(CPUSet.of(0))
    threads.boot.write_text("two\n")
    assert threads.unit().look() == UnitLook("", "", runs=True)


def test_none_is_seen_where_processes_of_the_host_are_not_visible(tmp_path: Path) -> None:
    """As in a container."""
    (tmp_path / "proc").mkdir()
    tasks = HostTasks(str(tmp_path / "proc"))
    assert KernelThreads(HostRecord(tmp_path), lambda: ALL, tasks=tasks).look() is None


@pytest.mark.trio
async def test_workqueues_are_confined_and_restored(threads: Threads, tmp_path: Path) -> None:
    mask = tmp_path / "cpumask"
    mask.write_text("ffffffff,0000000f\n")
    unit = Workqueues(threads.record(), lambda: ALL, mask)
    assert unit.look() == UnitLook("", "", runs=True)
    await unit.confine(CPUSet.parse("0,2"))
    assert mask.read_text() == "00000005"
    successor = Workqueues(threads.record(), lambda: ALL, mask)
    assert successor.look() == UnitLook("", "0,2", runs=True)
    assert successor.effective() == CPUSet.parse("0,2")
    await successor.confine(ALL)
    assert mask.read_text() == "ffffffff,0000000f"


@pytest.mark.trio
@pytest.mark.parametrize("cpus", [ALL, CPUSet.parse("0,2")])
async def test_each_records_its_own_while_the_other_is_moved(threads: Threads, tmp_path: Path, cpus: CPUSet) -> None:
    """Threads are moved beside the trio loop, where the workqueues are."""
    mask = tmp_path / "cpumask"
    mask.write_text("0000000f\n")
    record = threads.record()
    queues = Workqueues(record, lambda: ALL, mask)

    def move(id: int, wanted: Iterable[int]) -> None:
        threads.set(id, wanted)
        trio.from_thread.run(queues.confine, cpus)

    moved = KernelThreads(
        record,
        lambda: ALL,
        tasks=HostTasks(str(threads.proc)),
        affinity=threads.allowed.__getitem__,
        set_affinity=move,
    )
    for unit in (moved, queues):
        await unit.confine(CPUSet.parse("1-3"))
    await moved.confine(cpus)
    told = "" if cpus == ALL else str(cpus)
    assert [each.look() for each in (moved, queues)] == [UnitLook("", told, runs=True)] * 2
    assert threads.record().latest == record.latest


def test_two_threads_lose_nothing_of_each_other(threads: Threads) -> None:
    record, both = threads.record(), Barrier(2)

    def change(part: str) -> None:
        def made(known: HostOriginals) -> HostOriginals:
            with suppress(BrokenBarrierError):
                both.wait(0.2)
            return replace(known, **{part: ALL})

        record.change(made)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(change, ("thread_cpus", "workqueue_cpus")))
    assert (record.latest.thread_cpus, record.latest.workqueue_cpus) == (ALL, ALL)


def test_workqueues_that_others_confined_stay_so_and_are_named(threads: Threads, tmp_path: Path) -> None:
    mask = tmp_path / "cpumask"
    mask.write_text("3\n")
    unit = Workqueues(threads.record(), lambda: ALL, mask)
    assert unit.look() is None
    assert unit.holes() == {QUEUES: "were confined to 0-1 by others"}


def test_without_the_file_there_are_none(threads: Threads, tmp_path: Path) -> None:
    unit = Workqueues(threads.record(), lambda: ALL, tmp_path / "none")
    assert unit.look() is None
    assert unit.holes() == {}
