"""The page of `disturbed`: sums first, then who it was, the most first."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import asdict

from sidecar.cli.cmd_disturbed import DISTURBER_FIELDS, rendered
from sidecar.disturbance.disturbance_report import Disturbed, Disturber, DisturberLine, Method, Report
from sidecar.disturbance.trace_lines import RunnerKind
from state import codec
from state.cpuset import CPUSet
from tests.support.schemas import misfits

CPUS = CPUSet.of(2, 3)


def disturber(name: str, total: float | None = 12.0, **more: object) -> Disturber:
    fields = {"kind": RunnerKind.PROCESS, "of": "ssh.service", "longest_ms": 0.25, **more}
    return Disturber(name=name, count=7, total_ms=total, cpus=CPUSet.of(2), **fields)  # type: ignore[arg-type]


def report(*by: Disturber, method: Method = Method.TRACE, notes: tuple[str, ...] = (), lost: int = 0) -> Report:
    is_traced = method is Method.TRACE
    disturbed = Disturbed(
        id="d" * 64,
        name="db",
        cpus=CPUS,
        foreign_ms=12.5 if is_traced else None,
        share=0.000625 if is_traced else None,
        waited_ms=3.0,
        stolen_ms=0.0,
        lost=lost,
        by=by,
    )
    return Report(method=method, seconds=10.0, containers=(disturbed,), notes=notes)


def test_the_sum_comes_first_and_then_a_line_for_each() -> None:
    kernel = disturber("kworker/2:1", 0.5, kind=RunnerKind.KERNEL_THREAD, of="", is_bound=True)
    assert rendered(report(disturber("sshd"), kernel), None) == [
        "db, CPUs 2-3, 10.0 s; others ran there for 12.5 ms (0.06 %); it waited 3.0 ms for a CPU",
        "  WHAT                  NAME         OF           TIMES  MS     LONGEST (MS)  CPUS",
        "  process               sshd         ssh.service  7      12.0   0.250         2",
        "  kernel thread, stays  kworker/2:1  -            7      0.500  0.250         2",
    ]


def test_counters_have_no_columns_for_what_they_do_not_know() -> None:
    told = disturber("36 disk", None, kind=RunnerKind.INTERRUPT, of="", longest_ms=None)
    lines = rendered(report(told, method=Method.COUNTERS, notes=("only counters: tracing needs root",)), None)
    assert lines == [
        "db, CPUs 2-3, 10.0 s; it waited 3.0 ms for a CPU",
        "  WHAT       NAME     TIMES  CPUS",
        "  interrupt  36 disk  7      2",
        "note: only counters: tracing needs root",
    ]


def test_a_long_list_says_how_many_more_there_are() -> None:
    lines = rendered(report(*(disturber(f"task{number}") for number in range(25))), None)
    assert lines[-1] == "  and 5 more (--json has all)"


def test_lost_events_are_told() -> None:
    assert rendered(report(lost=3), None)[-1] == "  3 events of the kernel's trace were lost: there was more"


@pytest.mark.parametrize("method", Method)
def test_a_report_fits_its_schema(method: Method) -> None:
    told = report(disturber("sshd"), disturber("36 disk", None, longest_ms=None), method=method, notes=("one",))
    assert misfits("disturbed", codec.encode(told)) == []


def test_a_line_of_json_fits_its_schema() -> None:
    """Also of what only counters saw: what is not known is null."""
    for each in (disturber("sshd"), disturber("36 disk", None, longest_ms=None, of="")):
        told = DISTURBER_FIELDS.as_json(DisturberLine(owner="db", **asdict(each)))
        assert misfits("disturber", told) == []
        assert json.loads(told)["owner"] == "db"


def test_a_name_drives_no_terminal() -> None:
    assert "\x1b" not in "\n".join(rendered(report(disturber("\x1b[2Jevil")), 80))
