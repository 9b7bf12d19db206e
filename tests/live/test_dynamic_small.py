"""The dynamic policy on a machine with one CPU to grant: no CPU can come or go, and the policy works all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.status.document import SharingStatus
from state.projection import Projection
from tests.live.containers import Containers
from tests.live.kernelview import KernelView
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.stage import Stage
from tests.live.waiting import eventually
from tests.live.watching import until_gone

pytestmark = pytest.mark.live

ELASTIC = {"cpuset.exclusive": "1", "cpuset.min": "1", "cpuset.max": "4", "cpuset.grace": "1s"}


@pytest.fixture
def stage(sidecar: SidecarProcess, workloads: Containers, tmp_path: Path) -> Iterator[Stage]:
    """Provide a running daemon that may grant one CPU; check at the end that its projections were always true."""
    made = Stage(sidecar, workloads, tmp_path / "logs", grantable=LAST)
    made.open()
    yield made
    found = made.close()
    assert not found, "\n".join(found)


def test_an_elastic_container_follows_with_what_there_is(stage: Stage) -> None:
    """It has its floor, and its file says so; a signal would announce a change, and there is none."""
    follower = stage.follow("elastic", "--hear", "USR1", labels={**ELASTIC, "cpuset.signal": "USR1"})
    # Its two files are written, and read, one after the other.
    look = follower.until(lambda it: it.settled and it.cpus == it.file == it.after == LAST, "both say so")
    assert (look.leaving, look.sharing) == (LAST - LAST, "exclusive")
    assert stage.until_alone(follower.id) == LAST
    status = stage.sidecar.container(follower.id)
    assert status is not None
    assert (status.floor, status.ceiling, status.scale, status.original) == (1, 4, "fill", LAST)
    assert follower.log().heard == ()


def test_a_floor_is_never_given_up(stage: Stage, kernel: KernelView) -> None:
    """No container is shrunk below its floor for a newcomer, which is refused with the numbers."""
    follower = stage.follow("elastic", labels=ELASTIC)
    follower.until_on(1)
    late = stage.run("late", cpus="1")
    refused = stage.sidecar.until(late, lambda it: it.refusal, "refused")
    assert refused.refusal.startswith("asked for 1 exclusive CPU")
    stage.sidecar.until_quiet()
    assert stage.counted() == (0, 0)
    assert (kernel.allowed(follower.id), kernel.once_running(late)) == (LAST, REST)
    assert follower.log().losses() == []


def test_an_order_that_cannot_be_is_refused_in_words(stage: Stage) -> None:
    """For a container that fills by itself, or beyond a range, or beyond the machine."""
    fill = stage.follow("fill", labels=ELASTIC)
    fill.until_on(1)
    said = stage.sidecar.command("resize", fill.name, "1")
    assert (said.returncode, "cpuset.scale" in said.stderr) == (1, True)
    stage.remove(fill.id)
    until_gone(stage.sidecar, fill.id)
    manual = stage.follow("manual", labels={**ELASTIC, "cpuset.scale": "manual"})
    manual.until_on(1)
    said = stage.sidecar.command("resize", manual.name, "5")
    assert (said.returncode, "may have 1 to 4 CPUs" in said.stderr) == (1, True)
    said = stage.sidecar.command("resize", manual.name, "2")
    assert (said.returncode, "1 of 2 CPUs" in said.stdout) == (0, True)
    assert manual.until_on(1).cpus == LAST


def test_a_busy_container_stays_as_it_is_where_nothing_is_free(sidecar: SidecarProcess, stage: Stage) -> None:
    """Its use is measured, and that it would need more: but no CPU is free."""
    sidecar.configure(load_low="0.05", load_high="0.1", load_period="500ms")
    sidecar.reload()
    follower = stage.follow("busy", labels={**ELASTIC, "cpuset.scale": "load"})
    follower.until_on(1)
    follower.be_busy(1)
    sidecar.until(follower.id, lambda it: it.load and it.load.use > 0.1, "measured")
    assert follower.log().looks[-1].cpus == LAST


def test_a_killed_sidecar_finds_it_as_it_was(sidecar: SidecarProcess, stage: Stage) -> None:
    """Its projection is never false meanwhile, and unchanged afterwards."""
    follower = stage.follow("elastic", labels=ELASTIC)
    follower.until_on(1)
    status = sidecar.until(follower.id, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")

    def last_told() -> Projection | None:
        told = sidecar.projection(follower.id)
        return told if told and told.settled and told.alone is status.is_alone else None

    # Whether it is alone may be told after that it has its CPU.
    told = eventually(last_told, "all is told")
    before = follower.until(lambda look: look.generation == told.generation, "it has read that")
    sidecar.kill()
    sidecar.start()
    found = sidecar.until(follower.id, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "adopted")
    assert (found.cpus, found.moves) == (LAST, ())
    assert follower.log().looks[-1].generation == before.generation
