"""The units of the pages, as systemd judges them: alone, and beside an engine's unit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

HOST = (ROOT / "docs/how-to/run-on-a-host.md").read_text()
STRICT = (ROOT / "docs/how-to/start-strictly.md").read_text()
ENGINE = """\
[Unit]
Description=An engine, whose start brings the sidecar's with it
Wants=cpuset-sidecar.service
[Service]
Type=notify
ExecStart=/bin/true
"""


def block(page: str, first: str) -> str:
    """Return the block of a page that begins with these lines."""
    found = re.search(rf"```\w+\n({re.escape(first)}.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1]


def by_events() -> str:
    """Return the unit of the page, with a program that is there."""
    return block(HOST, "[Unit]\nDescription=").replace("/usr/local/bin/cpuset-sidecar", "/bin/true")


def strict() -> str:
    """Return the unit with the lines that the page of strict starts puts in place of others."""
    instead, section, lines = block(STRICT, "[Unit]\nWants="), "", list[str]()
    kept = [line for line in by_events().splitlines() if not line.startswith(("After=", "Wants=", "Restart"))]
    for line in kept:
        lines.append(line)
        if line.startswith("["):
            section = line
            more = instead.partition(f"{section}\n")[2].partition("[")[0]
            lines += more.splitlines()
    return "\n".join(lines) + "\n"


def judged(folder: Path, sidecar: str) -> str:
    """Return what systemd says of both units, and of the start of both; "" if it finds nothing wrong."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs the program systemd-analyze, which is not here: see `make vm-test`")
    units = {"cpuset-sidecar.service": sidecar, "docker.service": ENGINE}
    for name, text in units.items():
        (folder / name).write_text(text)
    command = ("systemd-analyze", "verify", "--man=no", *(f"./{name}" for name in units))
    path = {**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"}
    done = subprocess.run(command, cwd=folder, env=path, capture_output=True, text=True, check=False, timeout=60)
    return "".join(line for line in done.stderr.splitlines(keepends=True) if "sidecar" in line or "docker" in line)


@pytest.mark.parametrize("unit", [by_events, strict])
def test_the_units_of_the_pages_compose_with_an_engine_s(unit: object, tmp_path: Path) -> None:
    """Both start, in whichever order the page wants."""
    assert callable(unit)
    assert judged(tmp_path, unit()) == ""


def test_both_orders_at_once_are_a_cycle(tmp_path: Path) -> None:
    """As with a drop-in instead of other lines: the page says that it is not enough, and what shows it."""
    both = by_events().replace("After=docker.service\n", "After=docker.service\nBefore=docker.service\n")
    assert "ordering cycle" in judged(tmp_path, both)
    assert "ordering cycle" in STRICT
