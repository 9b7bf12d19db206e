"""The units and drop-ins of the pages, word for word, and what systemd says of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from sidecar.cli.setup.cmd_install_slice import unit_files
from sidecar.systemd_names import SHARED
from tests.docs.pages import ROOT

PAGES = ROOT / "docs/how-to"
UNIT = "cpuset-sidecar.service"
_MANAGER = "user@1000.service"

_HEADS = ("[Unit]", "[Service]", "[Container]", "[Slice]")


def blocks(page: Path) -> list[str]:
    """Return the blocks of a page that are units, or parts of units."""
    found = re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [text for text in found if text.startswith(_HEADS)]


def only_block(page: str) -> str:
    """Return the block of a page that has one."""
    (text,) = blocks(PAGES / page)
    return text


def by_events() -> str:
    """Return the unit of the page Run on a host."""
    return only_block("run-on-a-host.md")


def strict() -> str:
    """Return the unit with the lines that the page of strict starts puts in place of others."""
    instead, section, lines = only_block("start-strictly.md"), "", list[str]()
    kept = [line for line in by_events().splitlines() if not line.startswith(("After=", "Wants=", "Restart"))]
    for line in kept:
        lines.append(line)
        if line.startswith("["):
            section = line
            more = instead.partition(f"{section}\n")[2].partition("[")[0]
            lines += more.splitlines()
    return "\n".join(lines) + "\n"


def drop_ins() -> dict[str, str]:
    """Return the drop-ins of the pages, by their file."""
    return {
        f"{UNIT}.d/user.conf": only_block("security.md"),
        "user@.service.d/delegate.conf": only_block("cgroup-v2-and-systemd.md"),
        f"{UNIT}.d/cpus.conf": only_block("give-a-service-cpus.md"),
    }


def slices() -> dict[str, str]:
    """Return the units that `install-slice` writes, by their file."""
    return {Path(each.path).name: (each.content or b"").decode() for each in unit_files(SHARED)}


def judged(folder: Path, files: Mapping[str, str]) -> str:
    """Return what systemd says of these files, and of the start of all; "" if it finds nothing wrong. Units that are
    not among them are the machine's own.
    """
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs the program systemd-analyze, which is not here: see `make vm-test`")
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text.replace("/usr/local/bin/cpuset-sidecar", "/bin/true"))
    units = [f"./{name}" for name in files if "/" not in name]
    units += [_MANAGER] if "user@.service.d/delegate.conf" in files else []
    command = ("systemd-analyze", "verify", "--man=no", *units)
    path = {**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"}
    done = subprocess.run(command, cwd=folder, env=path, capture_output=True, text=True, check=False, timeout=120)
    words = ("sidecar", "docker", "delegate.conf", *files)
    return "".join(line for line in done.stderr.splitlines(keepends=True) if any(word in line for word in words))
