"""The compiled replacer, from its source as it is now, and what stands in for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sidecar.projection import file_replacer
from sidecar.projection.file_replacer import Replacer

SOURCE = Path(file_replacer.__file__).with_name("replacer.c")


@pytest.fixture(scope="session")
def replacer_library(tmp_path_factory: pytest.TempPathFactory) -> str | None:
    """Return the path of the library; None if there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    made = tmp_path_factory.mktemp("replacer") / "replacer.so"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", str(made), str(SOURCE)], check=True)
    return str(made)


@pytest.fixture(params=["compiled", "without"])
def replacer(request: pytest.FixtureRequest, replacer_library: str | None) -> Replacer:
    """Return the compiled one, and one that can do nothing."""
    if request.param == "without":
        return Replacer(None)
    if replacer_library is None:
        pytest.skip("needs a C compiler")
    return Replacer(replacer_library)
