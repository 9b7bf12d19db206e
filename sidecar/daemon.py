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
import random
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import partial
from typing import Final

import msgspec
import trio

from sidecar.allocator import Allocator
from sidecar.api.owner_answers import OwnerAnswers
from sidecar.api.served_socket import ServedSocket
from sidecar.api.tcp_listener import TcpListener, listening_on
from sidecar.api.unix_socket import group_id, path_in
from sidecar.apply.exec_places import ExecPlaces
from sidecar.apply.executor import Executor
from sidecar.apply.hand_orders import HandOrders
from sidecar.apply.standing_orders import StandingOrders, claimed
from sidecar.assembly import with_shared_group
from sidecar.board import Board
from sidecar.commit.directory_guard import DirectoryGuard
from sidecar.commit.fallback_books import SPARE, SparedCheckpoint
from sidecar.commit.journal import Journal
from sidecar.commit.state_lock import Lock, hold_lock
from sidecar.config.config import Config
from sidecar.decide.container.wish import label_keys
from sidecar.decide.facts import EngineConnected, EngineInfo, Fact
from sidecar.decide.settings import PolicyName
from sidecar.disturbance.sampler import DisturbanceSampler
from sidecar.engine_rooms import EngineRooms, infos_of, sources_of
from sidecar.engines import open_engine as open_engine_module
from sidecar.engines.found_places import engine_places
from sidecar.engines.host_tenants import HostedEngine
from sidecar.failures import CgroupClosed, SidecarError
from sidecar.first_world import first_world
from sidecar.hand.cgroup_hand import CgroupHand
from sidecar.hand.reflex_queue import find_library
from sidecar.held_starts import Desk
from sidecar.hooks.configured_hooks import doubts, follower
from sidecar.host.cgroup.engine_lock import EngineLock
from sidecar.host.cgroup.host_kernel import HostKernel
from sidecar.host.cgroup.usage import HostUsages
from sidecar.host_assembly import Hosted, follow_host_units, with_host_units
from sidecar.host_ports import Kernel, Usages
from sidecar.lasting import LastingTasks, leaves
from sidecar.log import Log, LogLevel, now
from sidecar.observe.acks import AckReader
from sidecar.observe.births import Births
from sidecar.observe.front_records import FRONTS, TOLD, watch_fronts
from sidecar.observe.hotplug import watch_cpus
from sidecar.observe.load_meter import LoadMeter
from sidecar.observe.written import follow_writes
from sidecar.ports import Engine, Hand, StartOrders
from sidecar.priority import prefer
from sidecar.projection.file_replacer import find_replacer
from sidecar.projection.projection_of import projection_of
from sidecar.projection.projections import Projections
from sidecar.projection.teller import Teller
from sidecar.projection.voucher import Voucher
from sidecar.reloading import Reloading, record
from sidecar.status.deadlines import Deadlines
from sidecar.status.narrator import Narrator
from sidecar.status.present_status import PresentStatus
from sidecar.status.status_file import is_daemon_running
from sidecar.words.hands import SWITCHED_OFF, reflex_told
from state.codec import encode
from state.errors import StateError
from state.topology import Topology

INBOX: Final = 1024
"""Facts that may wait for the allocator. It takes bursts of 256, and senders wait, so this only evens out bursts."""

SWITCH_SECONDS: Final = 0.0005
"""How long one thread keeps the interpreter while the other wants it: Python's 5 ms are longer than a whole pinning."""

SILENT_SECONDS: Final = 1.0
"""How long an engine may be silent at the start before the daemon treats it as lost and waits for it."""

OpenHand = Callable[[str], Hand]
"""Opens the hand for the engine of this name. Raises CgroupClosed."""


@asynccontextmanager
async def open_engine(address: str) -> AsyncIterator[Engine]:
    """Open the engine at this address, or the one that `auto` finds. Raise EngineUnavailable if there is none."""
    async with open_engine_module.open_engine(address, machine=HostKernel()) as engine:
        yield engine


def run(config: Config) -> int:
    """Run the daemon until a signal stops it. Return the exit code; errors are logged, each with its cure."""
    return _trio_run(config, partial(serve, config))


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
    prefer()
    # A table of descriptors that is full hides what the kernel shows, and the usual limit is that of programs which use
    # select(2).
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        return trio.run(root)
    except* (SidecarError, StateError) as expected:
        for error in leaves(expected):
            log.error(str(error))  # noqa: TRY400 - a sentence with its cure, not a traceback
    return 1


async def serve(
    config: Config,
    log: Log,
    *,
    is_release: bool = False,
    engine: Engine | None = None,
    others: Sequence[Engine] = (),
    kernel: Kernel | None = None,
    usages: Usages | None = None,
    open_hand: OpenHand | None = None,
    stop: trio.Event | None = None,
) -> int:
    """Run the whole daemon as one task. `engine`, `kernel`, `usages` replace the real ones; setting `stop` ends it.
    `others` are further engines of this host; each of several has a name of its own.

    Beside an engine that replaces the real one there is a hand only if `open_hand` makes one. Whatever may refuse the
    start is asked first: a sidecar that is refused leaves no files behind.
    """
    if not is_release:
        path_in(config.state_dir)
        group_id(config.api_group)
    if is_daemon_running(config.state_dir):
        with hold_lock(config.state_dir):
            pass  # That one has just ended.
    host = kernel or HostKernel(cgroup=config.cgroup)
    topology = _machine_for(config, host, log)
    async with AsyncExitStack() as stack:
        engine_lock = stack.enter_context(closing(EngineLock(config.cgroup)))
        tcp = stack.enter_context(listening_on("" if is_release else config.listen))
        if engine is None:
            found = await trio.to_thread.run_sync(engine_places, config.engine, config.engines)
            machine, labels = HostKernel(cgroup=config.cgroup), label_keys(config.unmanaged)
            opened = open_engine_module.open_engines(found, labels=labels, machine=machine)
            real, *others = await stack.enter_async_context(opened)
            engine = with_shared_group(real, config.shared_slice, cgroup=config.cgroup)
            hosted = with_host_units(engine, host, config, log)
            open_hand = partial(_open_hand, config, log, tuple(address for _, address in found))
        else:
            hosted = Hosted(engine, host)
        engine, host = hosted.engine, hosted.kernel
        hosted.see_that_alone(engine_lock)
        # A missing or unfit engine is reported at once; later it is waited for. An existing but silent engine is waited
        # for as well: it may be starting containers that wait for our answer.
        engines, seconds = (engine, *others), math.inf if is_release else SILENT_SECONDS
        infos = await infos_of(engines, engine_lock.hold, log, seconds)
        lock = stack.enter_context(hold_lock(config.state_dir))
        checkpoints = stack.enter_context(SparedCheckpoint(config.state_dir, f"{config.projections}/{SPARE}"))
        journal = stack.enter_context(Journal(config.state_dir))
        names = [each.name for each in engines] if others else []
        recorded, confined = await hosted.recorded(checkpoints, log), sources_of(engine)
        board = Board(first_world(config, recorded, topology, checkpoints, log, names, confined))
        board.host = hosted.told
        claim = claimed(config.state_dir, None if is_release else board.latest.state.vacated, log)
        standing = stack.enter_context(closing(await claim))
        board.starts.has_begun = standing.has_begun
        # Decisions iterate over containers in this order, so a replay must do the same.
        journal.start_with(lambda: encode(board.latest, keeps_order=True))
        counters, ended = usages or HostUsages(cgroup=config.cgroup), trio.Event() if stop is None else stop
        if not is_release:
            record(config, log)
        locks = (lock, engine_lock)
        daemon = _Daemon(config, log, board, checkpoints, journal, host, counters, ended, tcp, locks, standing)
        wanted = _switched_off if config.hand == "off" else open_hand
        return await daemon.run(engines, infos, None if is_release else wanted, is_release=is_release)


def _switched_off(_engine: str) -> Hand:
    raise CgroupClosed(SWITCHED_OFF)


def _open_hand(config: Config, log: Log, addresses: Sequence[str], engine: str) -> Hand:
    library = find_library()
    if library.path is None:
        log.info(reflex_told(fits=False, is_there=library.is_there))
    if config.hand != "auto":
        return CgroupHand.open(library.path, engine, config.hand, cgroup=config.cgroup)
    # Docker does not tell its default parent; a dockerd on this host shows what it was given.
    from sidecar.host.install.dockerd_parent import parents_given

    given = parents_given(addresses) if engine != "podman" else ()
    return CgroupHand.open(library.path, engine, also=given, cgroup=config.cgroup)


def _machine_for(config: Config, kernel: Kernel, log: Log) -> Topology:
    """Return this machine. Raise ConfigError if it cannot do what is configured; doubts are logged."""
    topology = kernel.topology()
    for warning in (*config.check_against(topology), *doubts(config.hooks)):
        log.warning(warning)
    return topology


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
        locks: tuple[Lock, EngineLock],
        standing: StandingOrders,
    ) -> None:
        self._standing = standing
        self._tcp = tcp
        self._lock, self._engine_lock = locks
        self._config = config
        self._log = log
        self._board = board
        self._checkpoints = checkpoints
        self._journal = journal
        self._kernel = kernel
        self._usages = usages
        self._stop = stop
        self._projections = Projections(
            config.projections, clock=time.time, steady=trio.current_time, replacer=find_replacer()
        )
        self._present = PresentStatus(board, Deadlines(now))
        self._narrator = Narrator(board, log, config.state_dir, self._present)
        self._desk = Desk()
        self._tickets = itertools.count(1).__next__
        self._rng = random.Random()  # noqa: S311 - jitter
        self._keep = LastingTasks(board, log).keep

    async def run(
        self, engines: Sequence[Engine], infos: Sequence[EngineInfo], open_hand: OpenHand | None, *, is_release: bool
    ) -> int:
        outbox, inbox = trio.open_memory_channel[Fact](INBOX)
        async with trio.open_nursery() as owner, outbox, trio.open_nursery() as orders:
            async with trio.open_nursery() as sources:
                rooms = EngineRooms(
                    sources,
                    self._board,
                    outbox,
                    engines,
                    kernel=self._kernel,
                    tickets=self._tickets,
                    log=self._log,
                )
                hands = HandOrders(self._board, rooms.tell, self._standing, self._log, tickets=self._tickets)
                executor = Executor(
                    orders,
                    self._board,
                    outbox,
                    engine=rooms.calls,
                    kernel=self._kernel,
                    tickets=self._tickets,
                    look=rooms.look,
                    answer=self._desk.answer,
                    hand=hands,
                    rng=self._rng,
                    log=self._log,
                )
                allocator = self._allocator(inbox, executor.start_all)
                owner.start_soon(allocator.run)
                if open_hand is not None:
                    births = Births(
                        self._board,
                        outbox,
                        use=hands.use,
                        again=hands.hold_again,
                        hearing=rooms,
                        tickets=self._tickets,
                        log=self._log,
                    )
                    sources.start_soon(self._keep, "finishing what the hand was ordered", hands.keep_all)
                    follow = partial(
                        self._keep, "following the hand", partial(births.run, open_hand), then=births.failed
                    )
                    sources.start_soon(follow)
                code = await self._run_sources(sources, infos, rooms, outbox, allocator, is_release=is_release)
                sources.cancel_scope.cancel()
            executor.stop()
        self._narrator.write_status()
        return code

    def _allocator(self, inbox: trio.MemoryReceiveChannel[Fact], start: StartOrders) -> Allocator:
        return Allocator(
            self._board,
            inbox,
            checkpoints=self._checkpoints,
            journal=self._journal,
            projections=self._projections,
            owners=OwnerAnswers(self._standing.owners.keep),
            start_orders=start,
            log=self._log,
        )

    async def _run_sources(
        self,
        sources: trio.Nursery,
        infos: Sequence[EngineInfo],
        rooms: EngineRooms,
        outbox: trio.MemorySendChannel[Fact],
        allocator: Allocator,
        *,
        is_release: bool,
    ) -> int:
        config, state_dir, report = self._config, self._config.state_dir, self._narrator.report
        sources.start_soon(Reloading(self._board, config, self._kernel, stop=self._stop, log=self._log).run, outbox)
        guard = DirectoryGuard(self._lock, self._board, self._checkpoints, state_dir)
        ends = (SidecarError, StateError)
        sources.start_soon(partial(self._keep, "watching the state directory", guard.run, ends=ends))
        rooms.keep_inventories(self._config.reconcile_seconds)
        places = ExecPlaces(self._board, state_dir, report)
        sources.start_soon(self._keep, "writing where exec begins", places.run)
        if is_release and infos:
            for info in infos:
                await outbox.send(EngineConnected(info, self._tickets()))
            rooms.look_at_everything()
            from sidecar.restoring import Restoring  # Only here: a daemon that serves restores nothing.

            shown = (self._board, rooms.calls, self._projections, state_dir)
            return await Restoring(*shown, stop=self._stop, log=self._log).run(outbox)
        rooms.follow(self._rng, lambda info: self._engine_lock.hold(info.home))
        if isinstance(hosted := rooms.engines[0], HostedEngine):
            units = partial(follow_host_units, hosted, self._kernel, rooms.first, self._board, self._log)
            sources.start_soon(self._keep, "following units of the host", units)
        teller = Teller(self._board, self._projections, report, self._log)
        voucher = Voucher(self._board, self._projections, state_dir, report, signs=(allocator.sign, teller.sign))
        acks = AckReader(self._board, self._projections, outbox, log=self._log)
        meter = LoadMeter(
            self._board,
            outbox,
            usages=self._usages,
            period_seconds=config.load_period_seconds,
            half_life_seconds=config.load_half_life_seconds,
            log=self._log,
        )
        sampler = DisturbanceSampler(self._board, period_seconds=config.disturbed_period_seconds, log=self._log)
        told = (state_dir, config.api_group, projection_of, follower(config.hooks, self._board, self._log))
        served = ServedSocket(self._board, self._desk, self._present, *told)
        serve_it = partial(served.run, outbox, rooms.calls, self._tickets, self._log, self._tcp)
        sources.start_soon(partial(self._keep, "serving the API", serve_it, ends=ends))
        everything = rooms.look_at_everything
        watch_it = partial(watch_cpus, self._kernel, self._board, outbox, look_at_everything=everything, log=self._log)
        lasting: dict[str, Callable[[], Awaitable[None]]] = {
            "writing projections": teller.run,
            "vouching for projections": voucher.run,
            "reading acknowledgements": acks.run,
            "measuring loads": meter.run,
            "sampling what disturbs owners": sampler.run,
            "watching which CPUs are online": watch_it,
            "watching which fronts are there": partial(watch_fronts, self._board, (FRONTS, f"{state_dir}/{TOLD}")),
            "hearing foreign writes": partial(follow_writes, self._board, self._kernel, rooms.look, everything),
            "keeping the status": self._narrator.keep_status,
            "logging changes": self._narrator.narrate,
        }
        for what, run_it in lasting.items():
            sources.start_soon(self._keep, what, run_it)
        await self._stop.wait()
        self._log.info("stopping: containers stay as they are")
        return 0
