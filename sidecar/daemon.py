"""The only place where parts are built and joined, and the root of all tasks.

Three nurseries, nested only for the order of shutdown:

1. `sources`, the innermost: events, looks, signals, and the readers that publish. Cancelled first: nothing new comes.
2. `orders`: the engine calls under way. Cancelled next; an order already sent is waited for, shielded.
3. The allocator, outermost: it takes the last outcomes, commits the last State, and ends when its inbox is closed.

Containers stay as they are when the daemon ends; only `release` restores everything.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from types import ModuleType
from typing import Final

import msgspec
import trio

from sidecar.allocator import Allocator
from sidecar.api.tcp_listener import TcpListener, listening_on
from sidecar.api.unix_socket import group_id, listening, path_in
from sidecar.apply.executor import Executor
from sidecar.assembly import with_shared_group
from sidecar.board import Board
from sidecar.commit.fallback_books import SPARE, SparedCheckpoint
from sidecar.commit.journal import Journal
from sidecar.commit.state_lock import Lock, hold_lock
from sidecar.config.config import Config, load_again
from sidecar.config.running_settings import after_reload, changed_in_vain, write_settings
from sidecar.decide.container.wish import label_keys
from sidecar.decide.facts import EngineConnected, EngineInfo, Fact, SettingsChanged, TopologyRead
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from sidecar.engines import open_engine as open_engine_module
from sidecar.failures import SidecarError, StateUnwritable
from sidecar.held_starts import Desk
from sidecar.host.cgroup.engine_lock import EngineLock
from sidecar.host.cgroup.host_kernel import HostKernel
from sidecar.host.cgroup.usage import HostUsages
from sidecar.log import Log, LogLevel, now
from sidecar.observe.acks import AckReader
from sidecar.observe.event_stream import follow_events
from sidecar.observe.hotplug import watch_cpus
from sidecar.observe.load_meter import LoadMeter
from sidecar.observe.looks import Looker
from sidecar.ports import Engine, Kernel, StartOrder, Usages
from sidecar.projection.projections import Projections
from sidecar.projection.teller import Teller
from sidecar.projection.voucher import Voucher
from sidecar.restoring import Restoring
from sidecar.status.deadlines import Deadlines
from sidecar.status.narrator import STATUS_PAUSE, Narrator
from sidecar.words.changes import at_start
from state.codec import encode, to_builtins
from state.errors import StateError
from state.model import State

INBOX: Final = 1024
"""Facts that may wait for the allocator. It takes bursts of 256, and senders wait, so this only evens out bursts."""

SWITCH_SECONDS: Final = 0.0005
"""How long one thread keeps the interpreter while the other wants it: Python's 5 ms are longer than a whole pinning."""

SILENT_SECONDS: Final = 1.0
"""How long an engine may be silent at the start before the daemon treats it as lost and waits for it."""

LOCK_SECONDS: Final = 5.0
"""How often the lock is checked."""

READY_SECONDS: Final = 2.0
"""How long the API waits for the first looks before it serves anyway, and reports that they are not done."""


@asynccontextmanager
async def open_engine(address: str, labels: frozenset[str] = frozenset()) -> AsyncIterator[Engine]:
    """Open the engine at this address, or the one that `auto` finds; `labels` are read in addition to our own.

    Raise EngineUnavailable if there is no engine to try.
    """
    async with open_engine_module.open_engine(address, labels=labels, machine=HostKernel()) as engine:
        yield engine


def run(config: Config) -> int:
    """Run the daemon until a signal stops it. Return the exit code; errors are logged, each with its cure."""
    return _trio_run(config, lambda log: serve(config, log))


def release(config: Config) -> int:
    """Restore everything: original cpusets and quotas, no grants, no projections. Return the exit code.

    No policy decides anything meanwhile, whatever the configuration has.
    """
    config = msgspec.structs.replace(config, policy=PolicyName.NONE)
    return _trio_run(config, lambda log: serve(config, log, is_release=True))


def _trio_run(config: Config, main: Callable[[Log], Awaitable[int]]) -> int:
    log = Log(level=LogLevel.named(config.log_level), is_json=config.log_format == "json")

    async def root() -> int:
        return await main(log)

    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        return trio.run(root)
    except* (SidecarError, StateError) as expected:
        for error in _leaves(expected):
            log.error(str(error))  # noqa: TRY400 - a sentence with its cure, not a traceback
    return 1


async def serve(
    config: Config,
    log: Log,
    *,
    is_release: bool = False,
    engine: Engine | None = None,
    kernel: Kernel | None = None,
    usages: Usages | None = None,
    stop: trio.Event | None = None,
) -> int:
    """Run the whole daemon as one task. `engine`, `kernel`, `usages` replace the real ones; setting `stop` ends it."""
    if not is_release:
        path_in(config.state_dir)
        group_id(config.api_group)
    with (
        hold_lock(config.state_dir) as lock,
        closing(EngineLock(config.cgroup)) as engine_lock,
        SparedCheckpoint(config.state_dir, f"{config.projections}/{SPARE}") as checkpoints,
        Journal(config.state_dir) as journal,
        listening_on("" if is_release else config.listen) as tcp,
    ):
        host = kernel or HostKernel(cgroup=config.cgroup)
        board = Board(_first_world(config, checkpoints, host, log))
        # Decisions iterate over containers in this order, so a replay must do the same.
        journal.start_with(lambda: encode(board.latest, keeps_order=True))
        counters, ended = usages or HostUsages(cgroup=config.cgroup), trio.Event() if stop is None else stop
        if not is_release:
            _record(config, log)
        daemon = _Daemon(config, log, board, checkpoints, journal, host, counters, ended, tcp, lock, engine_lock)
        if engine is not None:
            return await daemon.run(engine, is_release=is_release)
        async with open_engine(config.engine, label_keys(config.unmanaged)) as real:
            shared = with_shared_group(real, config.shared_slice, cgroup=config.cgroup)
            return await daemon.run(shared, is_release=is_release)


def _first_world(config: Config, checkpoints: SparedCheckpoint, kernel: Kernel, log: Log) -> World:
    topology = kernel.topology()
    for warning in config.check_against(topology):
        log.warning(warning)
    loaded = checkpoints.load()
    for note in loaded.notes:
        log.warning(note)
    world = begin(recorded := loaded.state or State(), topology, config.settings())
    for line in at_start(recorded, world):
        log.say(line.level, line.message, line.fields)
    return world


def _record(config: Config, log: Log) -> None:
    """Keep the settings for the commands that answer for this daemon; they manage without."""
    try:
        write_settings(config.state_dir, config)
    except StateError as error:
        log.warning("the settings cannot be recorded for other commands", reason=error)


class _Daemon:
    """Joins the parts around one board."""

    def __init__(
        self,
        config: Config,
        log: Log,
        board: Board,
        checkpoints: SparedCheckpoint,
        journal: Journal,
        kernel: Kernel,
        usages: Usages,
        stop: trio.Event,
        tcp: TcpListener | None,
        lock: Lock,
        engine_lock: EngineLock,
    ) -> None:
        self._tcp = tcp
        self._lock = lock
        self._engine_lock = engine_lock
        self._config = config
        self._log = log
        self._board = board
        self._checkpoints = checkpoints
        self._journal = journal
        self._kernel = kernel
        self._usages = usages
        self._stop = stop
        self._projections = Projections(config.projections, clock=time.time, steady=trio.current_time)
        self._deadlines = Deadlines(now)
        self._narrator = Narrator(board, log, config.state_dir, self._deadlines)
        self._desk = Desk()
        self._tickets = itertools.count(1).__next__
        self._rng = random.Random()  # noqa: S311 - jitter

    async def run(self, engine: Engine, *, is_release: bool) -> int:
        # A missing or unfit engine is reported at once; later it is waited for. An existing but silent engine is waited
        # for as well: it may be starting containers that wait for our answer.
        info = None
        with trio.move_on_after(math.inf if is_release else SILENT_SECONDS):
            info = await engine.info()
            self._see_that_alone(info)
        outbox, inbox = trio.open_memory_channel[Fact](INBOX)
        async with trio.open_nursery() as owner, outbox, trio.open_nursery() as orders:
            async with trio.open_nursery() as sources:
                looker = Looker(
                    sources,
                    self._board,
                    outbox,
                    engine=engine,
                    kernel=self._kernel,
                    tickets=self._tickets,
                    log=self._log,
                )
                executor = Executor(
                    orders,
                    self._board,
                    outbox,
                    engine=engine,
                    kernel=self._kernel,
                    tickets=self._tickets,
                    look=looker.look,
                    answer=self._desk.answer,
                    rng=self._rng,
                    log=self._log,
                )
                allocator = self._allocator(inbox, executor.start)
                owner.start_soon(allocator.run)
                code = await self._run_sources(sources, engine, info, looker, outbox, allocator, is_release=is_release)
                sources.cancel_scope.cancel()
            executor.stop()
        self._narrator.write_status()
        return code

    def _allocator(self, inbox: trio.MemoryReceiveChannel[Fact], start: StartOrder) -> Allocator:
        return Allocator(
            self._board,
            inbox,
            checkpoints=self._checkpoints,
            journal=self._journal,
            projections=self._projections,
            start_order=start,
            log=self._log,
        )

    async def _run_sources(
        self,
        sources: trio.Nursery,
        engine: Engine,
        info: EngineInfo | None,
        looker: Looker,
        outbox: trio.MemorySendChannel[Fact],
        allocator: Allocator,
        *,
        is_release: bool,
    ) -> int:
        state_dir, report = self._config.state_dir, self._narrator.report
        sources.start_soon(self._hear_signals, outbox)
        sources.start_soon(self._see_that_locked)
        sources.start_soon(looker.keep_inventory, self._config.reconcile_seconds)
        if is_release and info is not None:
            await outbox.send(EngineConnected(info, self._tickets()))
            looker.look_at_everything()
            restoring = Restoring(self._board, engine, self._projections, state_dir, stop=self._stop, log=self._log)
            return await restoring.run(outbox)
        sources.start_soon(self._follow, engine, looker, outbox)
        teller = Teller(self._board, self._projections, report)
        signs = (allocator.sign, teller.sign)
        sources.start_soon(teller.run)
        sources.start_soon(Voucher(self._board, self._projections, state_dir, report, signs).run)
        sources.start_soon(AckReader(self._board, self._projections, outbox, log=self._log).run)
        sources.start_soon(self._measure, outbox)
        sources.start_soon(self._watch_cpus, looker, outbox)
        sources.start_soon(self._narrator.keep_status)
        sources.start_soon(self._answer, outbox, engine)
        sources.start_soon(self._narrator.narrate)
        await self._stop.wait()
        self._log.info("stopping: containers stay as they are")
        return 0

    async def _see_that_locked(self) -> None:
        """Raise StateUnwritable once the state directory is deleted or replaced: another sidecar would find no lock."""
        while self._lock.is_in_place():  # noqa: ASYNC110 - the file system tells nobody
            await trio.sleep(LOCK_SECONDS)
        what = "another sidecar uses it now"
        if self._lock.is_free():
            self._checkpoints.save(self._board.latest.state)
            what = "the state was written again, so start the sidecar again"
        raise StateUnwritable(
            f"the state directory {self._config.state_dir} was deleted or replaced while the sidecar ran: it stops, so "
            f"that no two sidecars run side by side; {what}"
        )

    async def _follow(self, engine: Engine, looker: Looker, outbox: trio.MemorySendChannel[Fact]) -> None:
        await follow_events(
            engine,
            self._board,
            looker,
            outbox,
            tickets=self._tickets,
            rng=self._rng,
            log=self._log,
            see_that_alone=self._see_that_alone,
        )

    def _see_that_alone(self, info: EngineInfo) -> None:
        self._engine_lock.hold(info.home)

    async def _watch_cpus(self, looker: Looker, outbox: trio.MemorySendChannel[Fact]) -> None:
        look = looker.look_at_everything
        await watch_cpus(self._kernel, self._board, outbox, look_at_everything=look, log=self._log)

    async def _measure(self, outbox: trio.MemorySendChannel[Fact]) -> None:
        await LoadMeter(
            self._board,
            outbox,
            usages=self._usages,
            period_seconds=self._config.load_period_seconds,
            half_life_seconds=self._config.load_half_life_seconds,
        ).run()

    async def _answer(self, outbox: trio.MemorySendChannel[Fact], engine: Engine) -> None:
        """Serve the API, after the first looks. Its imports take a tenth of a second, so they run in a thread. Earlier
        connections are answered afterwards.
        """

        def imported() -> ModuleType:
            from sidecar.api import web_app

            return web_app

        with listening(self._config.state_dir, group_id(self._config.api_group)) as listener:
            with trio.move_on_after(READY_SECONDS):
                async for world in self._board.worlds():
                    if world.is_ready:
                        await trio.sleep(STATUS_PAUSE)
                        break
            http = await trio.to_thread.run_sync(imported)
            starts = http.Starts(self._board, outbox, desk=self._desk, glance=engine.glance, tickets=self._tickets)
            api = http.Api(self._board, outbox, self._deadlines, clock=now, starts=starts)
            await http.serve_api(listener, api, self._log, self._tcp)

    async def _hear_signals(self, outbox: trio.MemorySendChannel[Fact]) -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                if number != signal.SIGHUP:
                    self._stop.set()
                    continue
                await self._read_configuration(outbox)

    async def _read_configuration(self, outbox: trio.MemorySendChannel[Fact]) -> None:
        """Reload the configuration on SIGHUP: settings of the policy change at once; paths and the engine's address do
        not.

        The machine is read again, too: there may be new devices.
        """
        try:
            config = load_again(self._config, os.environ)
            topology = await trio.to_thread.run_sync(self._kernel.topology)
            config.check_against(topology)
        except (SidecarError, StateError) as error:
            for reason in error.sentences if isinstance(error, SidecarError) else (str(error),):
                self._log.error("the running configuration stays in force", reason=reason)
            return
        for key in changed_in_vain(config, self._config):
            self._log.warning(f"{key} takes effect only after a restart")
        if label_keys(config.unmanaged) - label_keys(self._config.unmanaged):
            self._log.warning("labels added to unmanaged take effect only after a restart")
        self._log.info("configuration reloaded", policy=config.policy)
        await outbox.send(TopologyRead(topology))
        _record(after_reload(config, self._config), self._log)
        settings = msgspec.structs.replace(config.settings(), shared_slice=self._config.shared_slice)
        await outbox.send(SettingsChanged(to_builtins(settings)))


def _leaves(group: BaseExceptionGroup[Exception]) -> list[Exception]:
    found: list[Exception] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
