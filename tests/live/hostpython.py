"""A container that runs this very Python, and this project: the host's files are mounted at their own paths."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

_SYSTEM: Final = (Path("/usr"), Path("/lib"), Path("/lib64"))
"""Libraries that a Python is linked to, and the loader. Links among them are followed by the engine."""


def python() -> str:
    """The interpreter's path, inside and outside."""
    return sys.executable


def mounts() -> list[str]:
    """Return binds, in the form of HostConfig: all read-only, and none below another."""
    wanted = {*_SYSTEM, Path(sys.base_prefix), Path(sys.prefix), ROOT, *map(Path, sys.path)}
    there = sorted(each for each in wanted if each.is_absolute() and each.is_dir())
    lone = [each for each in there if not any(other in each.parents for other in there)]
    return [f"{each}:{each}:ro" for each in lone]


def environment() -> dict[str, str]:
    """Return the environment in which it finds its packages, as here."""
    paths = [each for each in sys.path if os.path.isabs(each) and os.path.isdir(each)]
    return {"PYTHONPATH": os.pathsep.join([str(ROOT), *paths]), "PYTHONDONTWRITEBYTECODE": "1"}
