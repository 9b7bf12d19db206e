"""Runs a group in a machine of its own, and reads the outcomes of its tests."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.vm.groups import Group
from tests.vm.machine import ROOT, command_line
from tests.vm.outcomes import Ran, read_junit

_LAST_SECONDS: Final = 120.0
"""Of a group's time, for boot, and for what interrupted tests still have to clean up."""

_TESTS_FAILED: Final = 1
_INTERRUPTED: Final = (2, 124)
"""pytest's own code for that, and that of `timeout`."""

_BROKEN_OFF: Final = "! KeyboardInterrupt !"
"""In the line that pytest prints when it was interrupted. It may end with any code then, if cleaning up fails too."""

_NO_TESTS: Final = 5


def present(group: Group) -> list[str]:
    """Return the group's tests that exist in this project now, below its root."""
    found: list[str] = []
    for pattern in group.tests:
        found += sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern))
    return found


def run(vmrun: str, group: Group, share: Path, logs: Path, extra: tuple[str, ...] = ()) -> Ran:
    """Run a group; `extra` are further arguments of pytest. All output is in a file of `logs`."""
    began = time.monotonic()
    logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cpuset-vm-") as brought:
        out = Path(brought)
        settings = [f"{key}={value}" for key, value in group.settings().items()]
        within = f"{group.seconds - _LAST_SECONDS:g}"
        inside = ["env", *settings, "sh", "/share/project/tests/vm/inside.sh", within, *present(group), *extra]
        command = command_line(vmrun, group.machine, share=share, out=out, seconds=group.seconds, inside=inside)
        with open(logs / f"{group.name}.log", "wb") as log:
            code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False).returncode
        cases = read_junit(out / "junit.xml")
        if (out / "junit.xml").exists():
            shutil.copy2(out / "junit.xml", logs / f"{group.name}.xml")
    return Ran(
        group=group.name,
        engine=group.engine,
        cgroup="cgroup v2",
        driver=group.machine.driver,
        seconds=time.monotonic() - began,
        code=code,
        cases=cases,
        problem=_problem(code, bool(cases), logs / f"{group.name}.log"),
    )


def _problem(code: int, has_cases: bool, log: Path) -> str:
    """Return why not everything ran; "" if it did."""
    said = log.read_text(errors="replace")
    if code in (0, _TESTS_FAILED) and has_cases and _BROKEN_OFF not in said:
        return ""
    if code in _INTERRUPTED or _BROKEN_OFF in said:
        return "it took too long, and was interrupted"
    if code == _NO_TESTS:
        return "there are no tests"
    lines = [line for line in said.splitlines() if line.strip()]
    last = re.sub(r"\s+", " ", " | ".join(lines[-2:]))[-300:]
    return f"it ended with {code}: {last}"
