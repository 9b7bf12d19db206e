"""Unexpected errors in the sidecar itself, at the edges that the allocator uses: it goes on, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.clumsy import PLACES
from tests.live.containers import Containers
from tests.live.kernelview import KernelView
from tests.live.sidecarprocess import LAST, REST, SHIPPED, SidecarProcess
from tests.live.waiting import eventually
from tests.live.watching import ONE, given_back, until_alone, until_shared

pytestmark = pytest.mark.live


@pytest.mark.intrudes("a neighbour is updated onto the CPU of the owner")
@pytest.mark.parametrize("place", PLACES)
def test_an_edge_that_fails_ends_no_sidecar_and_is_used_again(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView, tmp_path: Path, place: str
) -> None:
    """Owners come and go meanwhile. Afterwards all is as ever: births are answered by a hand that was opened again."""
    fails = tmp_path / "fails"
    sidecar.wrapper = ("env", f"FAILS={place}", f"FAILS_IF={fails}", *SHIPPED)
    sidecar.module = "tests.live.clumsy"
    sidecar.configure(hand="auto")
    sidecar.start()
    neighbour, first = workloads.run("neighbour"), workloads.run("first", labels=ONE)
    until_alone(sidecar, first)
    until_shared(sidecar, neighbour)
    fails.touch()
    late = workloads.run("late")
    workloads.api.update(neighbour, CpusetCpus=str(LAST))
    workloads.api.remove(first)
    second = workloads.run("second", labels=ONE)
    eventually(lambda: sidecar.has_logged("the sidecar failed unexpectedly"), "it fails, and says so")
    fails.unlink()
    until_alone(sidecar, second)
    until_shared(sidecar, late)
    assert sidecar.is_running
    assert (kernel.once_running(second), kernel.allowed(neighbour), kernel.allowed(late)) == (LAST, REST, REST)
    last = workloads.run("last")
    eventually(lambda: kernel.allowed(last) == REST, "it is answered")
    given_back(sidecar, workloads, {second: {}, neighbour: {}, late: {}})
