"""Fixtures of the runtime's tests: what is asserted of a front is asserted of both, the script and the program."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.bench import Workbench
from tests.support.host.front_program import compiled_front


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> bytes | None:
    """Return the compiled front, of its source as it is now; None if it cannot be made here."""
    return compiled_front(tmp_path_factory.mktemp("front"))


@pytest.fixture(params=["script", "program"])
def bench(request: pytest.FixtureRequest, program: bytes | None) -> Iterator[Workbench]:
    """Provide an installed runtime, in a folder whose path fits a socket's."""
    if request.param == "program" and program is None:
        pytest.skip("needs a C compiler and yajl: gcc, libc6-dev and libyajl-dev, as .ci/run installs them")
    yield from benches(program if request.param == "program" else None)


@pytest.fixture
def scripted() -> Iterator[Workbench]:
    """Provide the runtime with the script alone."""
    yield from benches(None)


def benches(program: bytes | None) -> Iterator[Workbench]:
    """Yield a workbench, and end what it began."""
    with tempfile.TemporaryDirectory(prefix="cpuset-runc-") as folder:
        made = Workbench(Path(folder), program=program)
        try:
            yield made
        finally:
            made.sidecar.close()
