"""The compiled reflex, from its source as it is now, and the stages on which all hands do the same."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.hand import reflex_queue
from tests.support.hand import stages
from tests.support.hand.stages import FILE_STAGES, FileStage, MemoryStage, Stage

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


@pytest.fixture(params=FILE_STAGES)
def file_stage(request: pytest.FixtureRequest, tmp_path: Path, reflex: str | None) -> Iterator[FileStage]:
    """Yield a stage of files, before its hand begins."""
    with stages.file_stage(request.param, tmp_path, reflex) as opened:
        yield opened


@pytest.fixture(params=[*FILE_STAGES, "simulated"])
def stage(request: pytest.FixtureRequest, tmp_path: Path, reflex: str | None) -> Iterator[Stage]:
    """Yield a stage with Docker's parent, before its hand begins."""
    if request.param == "simulated":
        yield MemoryStage()
        return
    with stages.file_stage(request.param, tmp_path, reflex) as opened:
        yield opened
