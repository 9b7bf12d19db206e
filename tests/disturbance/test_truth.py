"""On the real kernel: what is told of a program that disturbs is what that program counts itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.disturbance.account import ExclusiveCPUs
from sidecar.disturbance.disturbance_report import Disturber, Method, Report
from sidecar.disturbance.measuring import measure
from sidecar.disturbance.trace_instance import NoTracing, TraceInstance, find, remove_left
from state.cpuset import CPUSet
from tests.support.tracefs import all_told, instances, mounted, waker

LAST = max(os.sched_getaffinity(0))
WAKER = f"waker-{os.getpid()}"
"""No other's: tests of the machine may run beside this one, and have wakers too."""
OWNER = ExclusiveCPUs("d" * 64, "db", CPUSet.of(LAST))


@pytest.fixture
def tracefs(tmp_path: Path) -> Iterator[str]:
    with mounted(tmp_path / "tracefs") as directory:
        yield directory


def measured(tracefs: str, seconds: float) -> tuple[Report, float]:
    """Return the report, and when its measurement began."""
    begun = list[float]()

    def note(left: float) -> None:
        if left:
            begun.append(time.monotonic() + left - seconds)

    report = measure((OWNER,), {}, seconds, tracefs=(tracefs,), progress=note)
    assert report.method is Method.TRACE
    return report, min(begun)


def of_the_waker(report: Report) -> Disturber:
    [found] = [each for each in report.containers[0].by if each.name == WAKER]
    return found


def test_a_program_is_told_by_name_and_amount(tracefs: str, tmp_path: Path) -> None:
    """Within 5 % of its own count, and what a hypervisor took: that is not in its own. On a machine so busy that events
    are lost, or switches missing, a measurement may be further off: one of five must not be.
    """
    with waker(LAST, tmp_path, pause=0.009, work=0.001, name=WAKER) as told:
        while len(all_told(told)) < 5:
            time.sleep(0.01)
        wrong = []
        for _ in range(5):
            report, began = measured(tracefs, 2.0)
            if report.containers[0].lost == 0 and (mistake := mistake_in(report, began, told)):
                wrong.append(mistake)
            elif report.containers[0].lost == 0:
                return
    if not wrong:
        pytest.skip("on a machine this busy, trace events are lost")
    raise AssertionError(wrong)


def mistake_in(report: Report, began: float, told: Path) -> str:
    """Return what a report tells of the waker that is not so by its own count; "" if all is."""
    ended = began + report.seconds
    while all_told(told)[-1].at <= ended:
        time.sleep(0.01)
    found, counts, stolen = of_the_waker(report), all_told(told), report.containers[0].stolen_ms
    first, *_, last = (each for each in counts if began <= each.at <= ended)
    # What it did between its last count before the measurement and its first one in it lies somewhere in between.
    earlier = max((each for each in counts if each.at < began), key=lambda each: each.at)
    later = min((each for each in counts if each.at > ended), key=lambda each: each.at)
    least, most = 1000 * (last.seconds - first.seconds), 1000 * (later.seconds - earlier.seconds)
    assert found.total_ms is not None
    is_right = 0.95 * least - 2 - stolen <= found.total_ms <= 1.05 * most + 2 + stolen
    if is_right and found.count >= last.woken - first.woken and found.cpus == CPUSet.of(LAST):
        return ""
    return f"it took {least:.1f} to {most:.1f} ms in {last.woken - first.woken} runs, and is told: {found}"


def test_no_more_is_told_than_there_was(tracefs: str) -> None:
    """All that ran on a CPU fits into its time; the timer's interrupt is among it."""
    report, _ = measured(tracefs, 1.0)
    [disturbed] = report.containers
    assert disturbed.foreign_ms is not None
    assert disturbed.foreign_ms <= 1000 * report.seconds + 1
    assert not [each for each in disturbed.by if (each.longest_ms or 0) > (each.total_ms or 0)]


def test_the_instance_is_gone_afterwards(tracefs: str) -> None:
    measured(tracefs, 0.2)
    assert instances(tracefs) == []


@pytest.mark.parametrize("is_waited_for", [True, False], ids=["gone", "zombie"])
def test_an_instance_that_a_killed_one_left_is_taken_away(tracefs: str, *, is_waited_for: bool) -> None:
    words = (
        "import sys, time; from sidecar.disturbance.trace_instance import TraceInstance; "
        "from state.cpuset import CPUSet; "
        f"trace = TraceInstance(CPUSet.of({LAST}), sys.argv[1]); trace.__enter__(); print('on', flush=True); "
        "time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", words, tracefs], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "on\n"
    process.send_signal(signal.SIGKILL)
    if is_waited_for:
        process.wait()
    else:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert instances(tracefs) == [f"cpuset-sidecar-{process.pid}"]
    remove_left(tracefs)
    assert instances(tracefs) == []
    process.wait()
    process.stdout.close()


def test_a_ctrl_c_leaves_nothing(tracefs: str) -> None:
    with pytest.raises(KeyboardInterrupt), TraceInstance(CPUSet.of(LAST), tracefs):
        raise KeyboardInterrupt
    assert instances(tracefs) == []


def test_this_process_stays_off_the_cpus_and_may_run_everywhere_afterwards(tracefs: str) -> None:
    seen = list[set[int]]()
    before = os.sched_getaffinity(0)
    measure((OWNER,), {}, 0.2, tracefs=(tracefs,), progress=lambda _: seen.append(os.sched_getaffinity(0)))
    assert seen
    assert all(LAST not in each for each in seen)
    assert os.sched_getaffinity(0) == before


def test_without_tracing_the_counters_tell_less_and_say_so(tmp_path: Path) -> None:
    report = measure((OWNER,), {}, 0.3, tracefs=(str(tmp_path / "nowhere"),))
    assert report.method is Method.COUNTERS
    assert report.containers[0].foreign_ms is None
    assert report.containers[0].by
    assert "no tracefs at" in report.notes[0]


def test_a_place_without_tracefs_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoTracing, match="mount -t tracefs"):
        find((str(tmp_path),))


GONE = ExclusiveCPUs("e" * 64, "gone", CPUSet.of(LAST))


@pytest.mark.parametrize("method", Method)
def test_an_owner_that_departs_is_measured_until_then(tracefs: str, tmp_path: Path, method: Method) -> None:
    """The others are measured to the end."""
    place = tracefs if method is Method.TRACE else str(tmp_path / "nowhere")
    begun = time.monotonic()

    def departures() -> dict[str, str]:
        return {GONE.id: "ended"} if time.monotonic() - begun > 0.3 else {}

    report = measure((OWNER, GONE), {}, 2.0, tracefs=(place,), departures=departures)
    stayed, gone = report.containers
    assert (report.method, stayed.seconds) == (method, None)
    assert report.seconds == pytest.approx(2.0, abs=0.5)
    assert gone.seconds is not None
    assert gone.seconds < 1.5
    assert report.notes[-1] == f"gone ended: it was measured for {gone.seconds:.1f} s"
    counts = [sum(each.count for each in owner.by) for owner in (gone, stayed)]
    assert counts[0] < counts[1]


@pytest.mark.parametrize("method", Method)
def test_a_measurement_ends_with_its_last_owner(tracefs: str, tmp_path: Path, method: Method) -> None:
    place = tracefs if method is Method.TRACE else str(tmp_path / "nowhere")
    begun = time.monotonic()
    report = measure((GONE,), {}, 60.0, tracefs=(place,), departures=lambda: {GONE.id: "has CPU 1 now"})
    assert time.monotonic() - begun < 30
    assert report.seconds == report.containers[0].seconds
    assert report.notes[-1].startswith("gone has CPU 1 now: it was measured for ")
    assert instances(tracefs) == []
