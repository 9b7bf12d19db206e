"""A busy host: services, timers, sessions, bursts, a build and a kill, and a judge that reads /proc alone."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.live.containers import Containers
from tests.live.hostjudge import judged
from tests.live.lodgers import build, burst, lodgers
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import SidecarProcess
from tests.live.test_host_processes import as_shipped, busy, confining, owner_alone, pytestmark, spin

__all__ = ["as_shipped", "busy", "confining", "pytestmark"]

SPINNING: Final = 3
ROUNDS: Final = 3


def test_a_busy_host_keeps_off_within_a_second(
    confining: SidecarProcess, own_engine: PrivateEngine, workloads: Containers, busy: list[str], tmp_path: Path
) -> None:
    """Forty services that start processes, some that compute, timers, sessions, bursts and a build; a sidecar that is
    killed in the midst leaves nobody there either, once another one runs.
    """
    owner = owner_alone(confining, workloads)
    for name in busy[:SPINNING]:
        spin(name)
    with judged(owner) as judge, lodgers():
        for number in range(ROUNDS):
            burst()
            build(own_engine, workloads, tmp_path / str(number))
            if number == ROUNDS // 2:
                with judge.looking_away():
                    confining.kill()
                    burst()
                    confining.start()
    print(f"seen {judge.looks} times; the longest that a process was allowed there: {judge.longest:.2f} s")
    assert judge.looks > ROUNDS
    assert judge.late == [], confining.log()[-4000:]
