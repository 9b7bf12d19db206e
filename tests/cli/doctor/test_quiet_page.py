"""The page of `doctor --quiet`: what can be switched at once, what needs a reboot, and what no switch silences."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.__main__ import main
from sidecar.cli.doctor.quiet_page import quiet_lines
from sidecar.disturbance.disturbance_report import Disturbed, Method
from sidecar.disturbance.remedies import QuietReport, Remedy
from state import codec
from state.cpuset import CPUSet
from tests.support.schemas import misfits

REMEDY: dict[str, Any] = {"count": 3, "total_ms": 12.0, "needs_reboot": False, "command": "", "says": "what to know"}

UNIT = Remedy(**{**REMEDY, "silences": ("process backup (backup.service)",), "command": "systemctl set-property x"})
TICK = Remedy(
    **{**REMEDY, "silences": ("vector local_timer",), "total_ms": 0.5, "needs_reboot": True, "command": "nohz_full=1"}
)
BOUND = Remedy(**{**REMEDY, "silences": tuple(f"kernel thread kworker/1:{each}" for each in range(8))})


def report(*remedies: Remedy, method: Method = Method.TRACE, notes: tuple[str, ...] = ()) -> QuietReport:
    owner = Disturbed(
        id="d" * 64,
        name="db",
        cpus=CPUSet.of(1),
        foreign_ms=24.5,
        share=0.00245,
        waited_ms=3.0,
        stolen_ms=0.0,
        lost=0,
        by=(),
    )
    return QuietReport(method=method, seconds=10.0, container=owner, remedies=remedies, notes=notes)


def test_switches_come_by_when_they_can_be_set() -> None:
    assert quiet_lines(report(UNIT, TICK, BOUND), None) == [
        "db, CPU 1, 10.0 s; others ran there for 24.5 ms (0.24 %); it waited 3.0 ms for a CPU",
        "at once:",
        "   12.0 ms  process backup (backup.service)",
        "            systemctl set-property x",
        "            what to know",
        "only by a reboot, with the kernel's command line:",
        "  0.500 ms  vector local_timer",
        "            nohz_full=1",
        "            what to know",
        "by no switch:",
        "   12.0 ms  " + ", ".join(BOUND.silences[:6]) + " and 2 more (--json has all)",
        "            what to know",
    ]


@pytest.mark.parametrize("method", Method)
def test_a_report_fits_its_schema(method: Method) -> None:
    assert misfits("doctor-quiet", codec.encode(report(UNIT, TICK, BOUND, method=method, notes=("one",)))) == []


def test_without_anything_to_silence_the_page_says_so() -> None:
    assert quiet_lines(report(notes=("only counters",)), None)[1:] == ["nothing else ran there", "note: only counters"]


def test_counters_tell_how_often() -> None:
    counted = Remedy(**{**REMEDY, "silences": ("softirq RCU",), "total_ms": None})
    assert quiet_lines(report(counted, method=Method.COUNTERS), None)[2] == "  3 times  softirq RCU"


def test_a_command_is_whole_on_a_narrow_terminal_and_drives_none() -> None:
    long = Remedy(**{**REMEDY, "silences": ("process \x1b[2Jevil",), "command": "x " * 60 + "\x1b[2J"})
    lines = quiet_lines(report(long), 50)
    assert "x " * 60 + "\\x1b[2J" in "\n".join(lines)
    assert "\x1b" not in "\n".join(lines)


@pytest.mark.parametrize("flag", [["--seconds", "1"], ["--tracefs", "/sys/kernel/tracing"]], ids=lambda each: each[0])
def test_a_flag_of_the_measurement_alone_is_wrong_usage(flag: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", *flag])
    assert ended.value.code == 2
    assert "--quiet is missing" in capsys.readouterr().err
