"""The table of the isolation bench: medians of rounds, and bars that compare a round's two runs with each other."""

from __future__ import annotations

from sidecar.disturbance.disturbance_report import Disturber
from sidecar.disturbance.trace_lines import RunnerKind
from state.cpuset import CPUSet
from tests.bench.isolation.__main__ import _turns
from tests.bench.isolation.cases import ALONE, CASES, CONFINED, Run
from tests.bench.isolation.figures import bars, summary


def run(case: str, pieces: float, p999: float, *disturbers: Disturber) -> Run:
    return Run(case, pieces, 100.0, 110.0, p999, p999 * 2, disturbers)


def by(name: str, total: float, longest: float) -> Disturber:
    return Disturber(
        kind=RunnerKind.PROCESS, name=name, count=1, total_ms=total, longest_ms=longest, cpus=CPUSet.parse("1")
    )


def test_a_bar_is_of_each_rounds_pair_and_a_slow_round_counts_for_both() -> None:
    fast, slow = (run(ALONE, 1000, 120), run(CONFINED, 980, 150)), (run(ALONE, 500, 400), run(CONFINED, 490, 500))
    lines = list(bars([*fast, *slow]))
    assert lines[0].endswith("0.980 of the work alone (held: at least 0.97)")
    assert lines[1].endswith("1.25 times that alone (held: at most 1.5)")
    missed = list(bars([run(ALONE, 1000, 100), run(CONFINED, 900, 151)]))
    assert ["missed" in line for line in missed] == [True, True]


def test_without_both_cases_there_is_no_bar() -> None:
    assert list(bars([run(ALONE, 1, 1)])) == []


def test_disturbers_of_one_name_count_together_per_traced_second() -> None:
    runs = [run(CONFINED, 10, 100, by("kworker/1:0", 3, 2)), run(CONFINED, 8, 100, by("kworker/1:2", 3, 1))]
    lines = list(summary(runs))
    assert "- process kworker: 1.00 (2.00)" in lines
    assert any(line.startswith(f"| {CONFINED} | 0.900 (0.800 to 1.000) | 100 |") for line in lines)


def test_each_round_has_all_cases_and_begins_with_another() -> None:
    turns = _turns(5)
    rounds = [turns[at : at + len(CASES)] for at in range(0, len(turns), len(CASES))]
    assert all(sorted(each) == sorted(CASES) for each in rounds)
    assert {each[0] for each in rounds} == set(CASES)
