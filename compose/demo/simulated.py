"""The same story on a machine of 96 CPUs, simulated: the output of `cpuset-sidecar simulate`."""

from __future__ import annotations

import sys

from compose.demo.project import FOLDER
from compose.demo.screen import Screen
from compose.host.commands import attempt

SCENARIO = FOLDER / "scenarios" / "dynamic.toml"


def retell(screen: Screen, *, is_all_there_is: bool) -> bool:
    """Simulate it and show it. Return whether every law held; the simulator checks them after each instant."""
    screen.headline(
        "SIMULATED in virtual time: the same on a machine with 96 CPUs. The decisions are the sidecar's own."
    )
    if is_all_there_is:
        screen.note("No engine, no kernel and no workload is real in this part.")
    done = attempt(sys.executable, "-m", "sidecar", "simulate", str(SCENARIO))
    for line in (done.stdout + done.stderr).splitlines():
        screen.line(line)
    screen.verdict(done.returncode == 0, "simulated: the laws held all the time, and no container met another")
    return done.returncode == 0
