"""What disturbs owners is sampled now and then, adds up honestly, and where it cannot be sampled that is told once."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from sidecar.api.metrics import Metrics
from sidecar.board import Board
from sidecar.disturbance import sampler
from sidecar.disturbance.account import ExclusiveCPUs
from sidecar.disturbance.disturbance_report import Disturbed, Disturber, Method, Report
from sidecar.disturbance.measuring import trace
from sidecar.disturbance.sampler import KINDS, DisturbanceSampler, added
from sidecar.disturbance.trace_instance import NoTracing
from sidecar.disturbance.trace_lines import RunnerKind
from sidecar.log import Log
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.topology import uniform
from tests.cli.worlds import container, world
from tests.support.daemon.host import inline
from tests.support.tracefs import instances, mounted

KEY, OTHER = ContainerKey("docker", "d" * 64), ContainerKey("docker", "e" * 64)
DB, WEB = ExclusiveCPUs(KEY.id, "db", CPUSet.of(2, 3)), ExclusiveCPUs(OTHER.id, "web", CPUSet.of(4))


def disturbed(owner: ExclusiveCPUs, *, lost: int = 0) -> Disturbed:
    def one(kind: RunnerKind, total: float) -> Disturber:
        return Disturber(kind=kind, name="x", count=1, total_ms=total, cpus=owner.cpus)

    return Disturbed(
        id=owner.id,
        name=owner.name,
        cpus=owner.cpus,
        foreign_ms=35.0,
        share=0.0,
        waited_ms=None,
        stolen_ms=10.0,
        lost=lost,
        by=(one(RunnerKind.PROCESS, 20.0), one(RunnerKind.PROCESS, 10.0), one(RunnerKind.KERNEL_THREAD, 5.0)),
    )


def report(*owners: ExclusiveCPUs, lost: int = 0) -> Report:
    told = tuple(disturbed(each, lost=lost) for each in owners)
    return Report(method=Method.TRACE, seconds=1.0, containers=told)


class Tracer:
    """Answers as the kernel's trace does, or cannot; and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None

    def __call__(
        self,
        owners: Sequence[ExclusiveCPUs],
        names: Mapping[str, str],
        seconds: float,
        *,
        progress: Callable[[float], None],
    ) -> Report:
        self.asked += 1
        if self.error:
            raise self.error
        return report(*owners)


class Rig:
    def __init__(self, period: float = 30.0, tracer: Tracer | None = None) -> None:
        self.lines = io.StringIO()
        self.board = Board(world(uniform(cores=4), container("db", exclusive="2")))
        self.tracer = tracer or Tracer()
        self.sampler = DisturbanceSampler(self.board, period_seconds=period, log=Log(self.lines), measure=self.tracer)

    def lines_on(self, text: str) -> list[str]:
        return [line for line in self.lines.getvalue().splitlines() if text in line]


def test_samples_add_up_by_kind() -> None:
    """Seconds are those of all its CPUs together, so that the sums divide to a part of them."""
    owners = {KEY: DB}
    once = added({}, owners, owners, report(DB))
    twice = added(once, owners, owners, report(DB))[KEY]
    assert set(twice.foreign) == set(KINDS)
    assert twice.foreign["process"] == pytest.approx(0.06)
    assert twice.foreign["kernel_thread"] == pytest.approx(0.01)
    assert twice.foreign["vector"] == 0
    assert (twice.name, twice.of_seconds, twice.incomplete) == ("db", 4.0, 0)
    assert twice.stolen == pytest.approx(0.02)


def test_a_sample_with_lost_events_is_not_counted() -> None:
    found = added({}, {KEY: DB}, {KEY: DB}, report(DB, lost=3))[KEY]
    assert (sum(found.foreign.values()), found.stolen, found.of_seconds, found.incomplete) == (0, 0, 0, 1)


def test_a_sample_in_which_the_cpus_changed_is_not_counted() -> None:
    found = added({}, {KEY: DB}, {KEY: DB._replace(cpus=CPUSet.of(2))}, report(DB))[KEY]
    assert (found.of_seconds, found.incomplete) == (0, 1)


def test_one_that_came_meanwhile_begins_at_zero_and_one_that_is_gone_has_no_sums() -> None:
    once = added({}, {KEY: DB}, {KEY: DB}, report(DB))
    found = added(once, {KEY: DB}, {OTHER: WEB}, report(DB))
    assert {key: (each.name, each.of_seconds) for key, each in found.items()} == {OTHER: ("web", 0.0)}


@pytest.fixture
def inline_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a clock that jumps."""
    monkeypatch.setattr(trio.to_thread, "run_sync", inline)


@pytest.mark.trio
@pytest.mark.usefixtures("inline_threads")
async def test_owners_are_sampled_every_period_and_the_metrics_have_the_sums(autojump_clock: MockClock) -> None:
    rig = Rig()
    with trio.move_on_after(95):
        await rig.sampler.run()
    assert rig.tracer.asked == 3
    text = Metrics(rig.board).exposed()[0].decode()
    assert 'cpuset_sidecar_disturbed_seconds_total{container="db",kind="process"} 0.09' in text
    assert 'cpuset_sidecar_disturbed_sampled_seconds_total{container="db"} 6.0' in text
    assert 'cpuset_sidecar_disturbed_incomplete_samples_total{container="db"} 0.0' in text


@pytest.mark.trio
@pytest.mark.usefixtures("inline_threads")
async def test_without_a_period_nothing_is_sampled(autojump_clock: MockClock) -> None:
    rig = Rig(period=0)
    await rig.sampler.run()
    assert rig.tracer.asked == 0


@pytest.mark.trio
@pytest.mark.usefixtures("inline_threads")
async def test_without_owners_nothing_is_traced(autojump_clock: MockClock) -> None:
    rig = Rig()
    await rig.sampler.sample(1.0)
    assert rig.board.disturbances
    rig.board.post(world(uniform(cores=4), container("db")))
    await rig.sampler.sample(1.0)
    assert (rig.tracer.asked, rig.board.disturbances) == (1, {})


@pytest.mark.trio
@pytest.mark.usefixtures("inline_threads")
async def test_where_it_cannot_be_that_is_a_problem_and_logged_once(autojump_clock: MockClock) -> None:
    """It is tried again, and what is solved is no problem any longer."""
    rig = Rig()
    rig.tracer.error = NoTracing("tracing needs root")
    for _ in range(3):
        await rig.sampler.sample(1.0)
    assert rig.tracer.asked == 3
    assert list(rig.board.problems.values()) == ["what disturbs containers cannot be sampled: tracing needs root"]
    assert len(rig.lines_on("cannot be sampled: tracing needs root")) == 1
    rig.tracer.error = None
    await rig.sampler.sample(1.0)
    assert not rig.board.problems
    assert len(rig.lines_on("sampled again")) == 1
    assert rig.board.disturbances


@pytest.mark.trio
@pytest.mark.usefixtures("inline_threads")
async def test_an_unexpected_error_costs_one_sample(autojump_clock: MockClock) -> None:
    rig = Rig()
    rig.tracer.error = OSError("gone")
    await rig.sampler.sample(1.0)
    rig.tracer.error = None
    await rig.sampler.sample(1.0)
    assert (rig.board.crashes, len(rig.board.disturbances)) == (1, 1)


@pytest.fixture
def tracefs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with mounted(tmp_path / "tracefs") as directory:
        monkeypatch.setattr(sampler, "PLACES", (directory,))
        yield directory


@pytest.mark.trio  # with real threads
async def test_a_daemon_that_ends_leaves_no_instance_and_does_not_wait_for_the_sample(tracefs: str) -> None:
    """On the real kernel, with a sample of a minute."""
    board = Rig().board

    def measure(
        owners: Sequence[ExclusiveCPUs],
        names: Mapping[str, str],
        seconds: float,
        *,
        progress: Callable[[float], None],
    ) -> Report:
        last = [each._replace(cpus=CPUSet.of(0)) for each in owners]
        return trace(last, names, seconds, tracefs=(tracefs,), progress=progress)

    async with trio.open_nursery() as nursery:
        made = DisturbanceSampler(board, period_seconds=60, log=Log(io.StringIO()), measure=measure)
        nursery.start_soon(made.sample, 60.0)
        with trio.fail_after(10):
            while not instances(tracefs):  # noqa: ASYNC110 - the kernel wakes nothing
                await trio.sleep(0.01)
        begun = time.monotonic()
        nursery.cancel_scope.cancel()
    assert time.monotonic() - begun < 5
    assert instances(tracefs) == []


@pytest.mark.trio
async def test_what_a_killed_daemon_left_is_gone_at_the_next_start(tracefs: str) -> None:
    """Also where nothing is sampled any longer."""
    leave_an_instance(tracefs)
    assert len(instances(tracefs)) == 1
    await Rig(period=0).sampler.run()
    assert instances(tracefs) == []


def leave_an_instance(tracefs: str) -> None:
    """Have a process trace, and die."""
    words = (
        "import os, sys; from sidecar.disturbance.trace_instance import TraceInstance; "
        "from state.cpuset import CPUSet; "
        "TraceInstance(CPUSet.of(0), sys.argv[1]).__enter__(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", words, tracefs], check=False)
