"""The compiled front, from its source as it is now."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from sidecar.host.install.front_program import fitting_program
from tests.support.sources import ROOT

SOURCES = ROOT / "sidecar" / "runtime" / "program"
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")
_PROBE = "#include <yajl/yajl_parse.h>\nint main(void) { return !yajl_alloc(0, 0, 0); }\n"


def compiler() -> str | None:
    """Return the path of a C compiler, None without one."""
    return shutil.which("cc") or shutil.which("gcc")


def can_link(folder: Path, *flags: str) -> bool:
    """Return whether a program of yajl can be made here, with these flags."""
    source = folder / "probe.c"
    source.write_text(_PROBE)
    program = compiler()
    command = [program or "", "-o", str(folder / "probe"), str(source), *flags, "-lyajl_s"]
    return bool(program) and not subprocess.run(command, capture_output=True, check=False).returncode


def compiled_front(folder: Path) -> bytes | None:
    """Return the program, made in this folder; None if it cannot be made here. Every warning is an error."""
    if not can_link(folder, "-static"):
        return None
    made = folder / "cpuset-front"
    sources = sorted(str(path) for path in SOURCES.glob("*.c"))
    command = [compiler() or "", *FLAGS, "-static", "-s", "-o", str(made), *sources, "-lyajl_s"]
    subprocess.run(command, check=True)
    return fitting_program(str(made))
