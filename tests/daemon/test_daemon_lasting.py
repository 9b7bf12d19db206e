"""Each lasting task of the daemon, made to fail: the daemon goes on, says so, and what the task does is done again."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sidecar import daemon, engine_rooms, reloading
from sidecar.allocator import Allocator
from sidecar.api.served_socket import ServedSocket
from sidecar.apply import executor
from sidecar.apply.exec_places import ExecPlaces
from sidecar.apply.executor import Executor
from sidecar.apply.hand_orders import HandOrders
from sidecar.apply.standing_orders import StandingOrders
from sidecar.board import Board
from sidecar.commit.directory_guard import DirectoryGuard
from sidecar.commit.fallback_books import SparedCheckpoint
from sidecar.commit.journal import Journal
from sidecar.config.hook_sections import Hook
from sidecar.decide.facts import CpusetFailed, Failure
from sidecar.decide.orders import ApplyCpuset
from sidecar.decide.world import World
from sidecar.disturbance.sampler import DisturbanceSampler
from sidecar.engines.host_tenants import HostedEngine
from sidecar.failures import EngineFailed
from sidecar.hooks import hook_runner
from sidecar.hooks.hook_runner import HookRunner
from sidecar.lasting import LastingTasks
from sidecar.observe import brief, looks
from sidecar.observe.acks import AckReader
from sidecar.observe.births import Births
from sidecar.observe.event_stream import follow_events
from sidecar.observe.load_meter import LoadMeter
from sidecar.observe.looks import Looker
from sidecar.observe.newcomers import Newcomers
from sidecar.ports import HandBroken
from sidecar.projection.teller import Teller
from sidecar.projection.voucher import Voucher
from sidecar.simulation.model_limits import Limits
from sidecar.starts_around import StartsAround
from sidecar.status.narrator import Narrator
from state.cpuset import CPUSet
from state.errors import FileUnreadable
from tests.daemon.test_daemon import TWO
from tests.support.daemon.host import Host
from tests.support.daemon.services import ServedKernel, Services
from tests.support.hand.kernel_hand import KernelHand

pytestmark = pytest.mark.trio

TASKS: dict[str, tuple[Any, str]] = {
    "feeling the engine's pulse": (engine_rooms, "keep_pulse"),
    "finishing what the hand was ordered": (HandOrders, "keep_all"),
    "following the engine's events": (engine_rooms, "follow_events"),
    "following the hand": (Births, "run"),
    "following units of the host": (daemon, "follow_host_units"),
    "hearing foreign writes": (daemon, "follow_writes"),
    "keeping the status": (Narrator, "keep_status"),
    "logging changes": (Narrator, "narrate"),
    "measuring loads": (LoadMeter, "run"),
    "meeting newcomers": (Newcomers, "run"),
    "reading acknowledgements": (AckReader, "run"),
    "sampling what disturbs owners": (DisturbanceSampler, "run"),
    "serving the API": (ServedSocket, "run"),
    "taking inventories": (Looker, "keep_inventory"),
    "telling the hook hear": (HookRunner, "run"),
    "vouching for projections": (Voucher, "run"),
    "watching the state directory": (DirectoryGuard, "run"),
    "watching which fronts are there": (daemon, "watch_fronts"),
    "watching which CPUs are online": (daemon, "watch_cpus"),
    "writing projections": (Teller, "run"),
    "writing where exec begins": (ExecPlaces, "run"),
}
"""What each task does, and where it is."""

ERRORS = (OSError("planted"), ValueError("planted"), EngineFailed("planted"), FileUnreadable("planted"))
BY_WHICH_IT_ENDS = ("serving the API", "watching the state directory")
"""These end the daemon by errors that are known: the last two are."""

Task = Callable[..., Awaitable[None]]


def failing(task: Task, error: Exception, seconds: float) -> Task:
    """Return the task, which fails twice after so long, whatever it is doing then."""
    runs: list[float] = []

    async def planted(*args: Any, **named: Any) -> None:
        runs.append(trio.current_time())
        if len(runs) > 2:
            await task(*args, **named)
            return
        with trio.move_on_after(seconds):
            await task(*args, **named)
        raise error

    return planted


@pytest.fixture
def host(make_host: Any, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Return a host with all that a daemon may have tasks for: a hand, units, a hook."""

    async def told(hook: Hook, document: bytes) -> str:
        return ""

    monkeypatch.setattr(hook_runner, "told", told)
    made: Host = make_host(
        version=2, reconcile_seconds=5.0, host_units="auto", hooks=(Hook(name="hear", command=("/bin/hear",)),)
    )
    made.open_hand = partial(KernelHand, made.kernel)
    services = Services(CPUSet.parse("0-7"))
    made.hosted = HostedEngine(made.engine, services), ServedKernel(made.docker.kernel, services)
    made.may_crash = True
    return made


def problems(host: Host) -> list[str]:
    """Return the problems in the status document."""
    found: list[str] = json.loads(Path(host.config.state_dir, "status.json").read_bytes())["problems"]
    return found


@pytest.mark.parametrize("number", range(len(TASKS)), ids=[what.replace(" ", "_") for what in TASKS])
async def test_a_lasting_task_that_fails_ends_neither_the_daemon_nor_its_own_work(
    autojump_clock: MockClock, host: Host, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """It is a problem with its name; owners that were there and that come are settled soon; and it is over later."""
    what = list(TASKS)[number]
    where, name = TASKS[what]
    error = ERRORS[number % (2 if what in BY_WHICH_IT_ENDS else len(ERRORS))]
    monkeypatch.setattr(where, name, failing(getattr(where, name), error, seconds=2))
    async with host.running():
        before = await host.docker.run("before", labels=TWO)
        await host.until(lambda: any(problem.startswith(f"{what} failed") for problem in problems(host)))
        after = await host.docker.run("after", labels=TWO)
        await host.until(lambda: host.is_settled(before) and host.is_settled(after), seconds=30)
        await host.until(lambda: not problems(host), seconds=100)
        assert host.lines.getvalue().count(f'work="{what}"') == 2
        assert host.is_settled(before)
        assert host.is_settled(after)


async def test_the_tasks_of_this_table_are_all_that_last(
    autojump_clock: MockClock, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is added must be made to fail here as well."""
    kept: set[str] = set()
    keep = LastingTasks.keep

    async def noted(tasks: LastingTasks, what: str, run: Any, **named: Any) -> None:
        kept.add(what)
        await keep(tasks, what, run, **named)

    monkeypatch.setattr(LastingTasks, "keep", noted)
    async with host.running():
        await host.settled(await host.docker.run("rt", labels=TWO))
    assert kept == set(TASKS)


EDGES: dict[str, tuple[Any, str, str]] = {
    "the hand takes answers": (KernelHand, "hold", "following the hand"),
    "the standing order is written": (StandingOrders, "give", "following the hand"),
    "starts by an older order are counted": (StandingOrders, "older", "following the hand"),
    "the state is saved": (SparedCheckpoint, "save", "the recorded state is not saved"),
    "the journal is written": (Journal, "append", "the journal cannot be written"),
    "starts around the front are counted": (StartsAround, "see", ""),
    "the hand writes": (KernelHand, "write", ""),
    "a look is asked for": (looks, "is_foreign", ""),
    "a hint is judged": (brief, "is_plain", ""),
    "a failed order is told": (executor, "noun", ""),
}
"""What is asked of edges while the allocator, or a task that comes and goes, works; where it is, and the problem."""


@pytest.mark.parametrize("number", range(len(EDGES)), ids=[what.replace(" ", "_") for what in EDGES])
async def test_an_edge_that_fails_ends_neither_the_daemon_nor_the_hand(
    autojump_clock: MockClock, host: Host, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """While it fails, containers come and go; owners of before and of after are settled, and births are answered."""
    where, name, told = EDGES[list(EDGES)[number]]
    error, was, failures = ERRORS[number % 2], getattr(where, name), list[float]()
    fails_from = trio.current_time() + 3

    def planted(*args: Any, **named: Any) -> Any:
        if fails_from < trio.current_time() < fails_from + 5:
            failures.append(trio.current_time())
            raise error
        return was(*args, **named)

    monkeypatch.setattr(where, name, planted)
    async with host.running():
        before = await host.docker.run("before", labels=TWO)
        passing = await host.docker.run("passing")
        await host.settled(before)
        await trio.sleep(fails_from - trio.current_time() + 0.1)
        with monkeypatch.context() as patch:
            patch.setattr(Executor, "_outcome", _failed)
            meanwhile = await host.docker.run("meanwhile", labels=TWO)
            await host.docker.change(await host.docker.run("plain"), Limits(cpuset="0-7"))
            await host.docker.exit(passing)
            await host.docker.start(passing)
            await trio.sleep(2)
        assert told in " ".join(problems(host))
        await trio.sleep(6)
        after = await host.docker.run("after", labels=TWO)
        await host.until(lambda: all(map(host.is_settled, (before, meanwhile, after))), seconds=60)
        assert host.where(await host.docker.run("plain too")) == "0,7"
        await host.until(lambda: not problems(host), seconds=100)
    assert failures
    assert host.broken == []


async def _failed(executor: Executor, order: ApplyCpuset) -> CpusetFailed:
    return CpusetFailed(order.container, order.number, Failure.FAILED, "planted", executor._tickets())


async def test_a_hand_that_breaks_is_opened_again(
    autojump_clock: MockClock, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread is a task that lasts as well: births are not left unanswered for as long as the daemon runs."""
    hands = host.open_hands()
    async with host.running():
        await host.settled(await host.docker.run("before", labels=TWO))
        hands[-1]._hand.send.send_nowait(HandBroken("its thread ended"))
        await host.until(lambda: any(each.startswith("following the hand failed") for each in problems(host)))
        await host.until(lambda: len(hands) == 2)
        await trio.sleep(1)
        assert host.where(await host.docker.run("plain")) == "0,3-7"
        await host.until(lambda: not problems(host), seconds=100)


async def test_an_engine_that_is_not_followed_counts_as_away(
    autojump_clock: MockClock, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is ordered meanwhile, and everything is looked at afterwards."""
    monkeypatch.setattr(engine_rooms, "follow_events", failing(follow_events, ValueError("planted"), seconds=5))
    boards: list[Board] = []

    def made(world: World) -> Board:
        boards.append(Board(world))
        return boards[-1]

    monkeypatch.setattr(daemon, "Board", made)
    async with host.running():
        await host.settled(await host.docker.run("rt", labels=TWO))
        for _ in range(2):
            await host.until(lambda: not boards[0].latest.is_ready)
            ordered = len(host.engine.updates)
            await trio.sleep(0.5)
            assert len(host.engine.updates) == ordered
            await host.until(lambda: boards[0].latest.is_ready)


async def test_an_error_in_the_allocator_ends_the_daemon(
    autojump_clock: MockClock, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It owns the World, and nobody knows what that is: the supervisor restarts the daemon."""

    async def run(allocator: Allocator) -> None:
        await trio.sleep(3)
        raise ValueError("planted")

    monkeypatch.setattr(Allocator, "run", run)
    with pytest.raises(ExceptionGroup) as found:
        await host.serve()
    assert found.group_contains(ValueError)


def _has(those: list[str], count: int) -> bool:
    return len(those) == count


async def test_a_reload_that_fails_changes_nothing_and_signals_are_heard_on(
    autojump_clock: MockClock, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one counts: a signal that nothing hears would end the daemon."""
    reads: list[str] = []

    def broken(*_: Any) -> None:
        reads.append("read")
        raise ValueError("planted")

    monkeypatch.setattr(reloading, "load_again", broken)
    async with host.running():
        for count in (1, 2):
            os.kill(os.getpid(), signal.SIGHUP)
            await host.until(partial(_has, reads, count))
        await host.settled(await host.docker.run("rt", labels=TWO))
    assert host.lines.getvalue().count("work=reload") >= 1
