"""Benchmarks run where they are asked for, and only there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.sources import ROOT

ONE = "tests/bench/test_placement.py::test_placement[packed-2 CPUs-idle-0.02]"


@pytest.mark.slow
@pytest.mark.parametrize(("flags", "outcome"), [(["--benchmark-only"], "1 passed"), ([], "1 deselected")])
def test_a_benchmark_runs_where_it_is_asked_for(flags: list[str], outcome: str) -> None:
    """By the flag of `make bench`; `make test` and `make check` leave it out."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", *flags, ONE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome in done.stdout.splitlines()[-1]
