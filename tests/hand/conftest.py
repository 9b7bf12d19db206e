"""The compiled reflex, from its source as it is now, and the stages on which all hands do the same."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.hand import reflex_queue
from tests.support.hand.stages import MemoryStage, Stage, v1_stage, v2_stage

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


@pytest.fixture(params=["v1", "v1 with the reflex", "v2", "v2 with the reflex", "simulated"])
def stage(request: pytest.FixtureRequest, tmp_path: Path, reflex: str | None) -> Iterator[Stage]:
    """Yield a stage with Docker's parent, before its hand begins."""
    version, _, has_reflex = request.param.partition(" with ")
    if has_reflex and reflex is None:
        pytest.skip("needs a C compiler")
    if version == "simulated":
        yield MemoryStage()
        return
    opening = {"v1": v1_stage, "v2": v2_stage}[version]
    with opening(tmp_path, reflex if has_reflex else None) as opened:
        yield opened
