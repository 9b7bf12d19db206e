"""The compiled reflex, from its source as it is now."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sidecar.hand import reflex_queue

SOURCE = Path(reflex_queue.__file__).with_name("reflex.c")


@pytest.fixture(scope="session")
def reflex(tmp_path_factory: pytest.TempPathFactory) -> str | None:
    """Return the path of the library; None if there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    made = tmp_path_factory.mktemp("reflex") / "reflex.so"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]
    subprocess.run([compiler, *flags, "-o", str(made), str(SOURCE)], check=True)
    return str(made)
