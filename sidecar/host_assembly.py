"""Joins an engine and the units of its host, as far as these can be confined here; and restores the units that are no
longer to be confined.

A changed switch or pattern of the configuration may leave units confined that no decision sees any more. So the daemon
restores these first, before it decides anything, by the original settings in its recorded state. What an earlier
version recorded of units, as if each were a container, is recorded of them from then on: else they would seem to be
pinned by hand.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

import msgspec
import trio

from sidecar.beat import beat, next_beat
from sidecar.board import Board
from sidecar.commit.fallback_books import SparedCheckpoint
from sidecar.config.config import Config
from sidecar.decide.container.place import cpus_of
from sidecar.decide.container.rules import unit_patterns
from sidecar.engines.host_tenants import HostedEngine
from sidecar.failures import EngineError, EngineLacks
from sidecar.host.cgroup.engine_lock import HOST_UNITS, EngineLock
from sidecar.host.cgroup.host_kernel import HostKernel, find_hierarchy
from sidecar.host.cgroup.places import USUAL, Hierarchy
from sidecar.host.units.host_parts import HostedKernel, HostPart, HostParts
from sidecar.host.units.host_record import HostRecord
from sidecar.host.units.host_tasks import HostTasks
from sidecar.host.units.kernel_threads import KernelThreads, Workqueues
from sidecar.host.units.plain_groups import ROOT, ROOT_TASKS, NamedGroup, RootTasks, is_hosts_own
from sidecar.host.units.systemd_connection import connected
from sidecar.host.units.unit_groups import UnitGroups
from sidecar.host.units.unit_properties import PATIENT_SECONDS, SYSTEM_BUS, UnitProperties, socket_of
from sidecar.host_ports import HostUnits, Kernel
from sidecar.log import Log
from sidecar.observe.looks import Looker
from sidecar.observe.unit_hints import follow_units
from sidecar.ports import Engine
from sidecar.words.units import HostConfinement, not_confined_told
from state.cpuset import EMPTY
from state.errors import StateError
from state.key import HOST, SYSTEMD, ContainerKey
from state.model import Originals, State

WATCH_SECONDS: Final = 1.0
"""How often tasks are looked for that came to the root group: none may be on exclusive CPUs for longer."""

HOLES_SECONDS: Final = 10.0
"""How long it may take until people are told what cannot be confined."""

_AT_A_TIME: Final = 8
"""Units that are restored side by side."""


class Hosted(NamedTuple):
    """An engine and a kernel, with the units of the host if these are to be confined and can be, and what is said of
    that.
    """

    engine: Engine
    kernel: Kernel
    told: HostConfinement | None = None
    config: Config | None = None
    """By which units of this host are restored; None where none of them is this daemon's."""

    def see_that_alone(self, lock: EngineLock) -> None:
        """Take the lock of the host's units, if these are confined. Raise AlreadyRunning if another sidecar has it."""
        if self.told and self.told.is_confining:
            lock.hold(HOST_UNITS)

    async def recorded(self, checkpoints: SparedCheckpoint, log: Log) -> State:
        """Return the State that is recorded, without units that are not to be confined any more: they are restored."""
        loaded = checkpoints.load()
        for note in loaded.notes:
            log.warning(note)
        state = loaded.state or State()
        return await given_back(with_unit_keys(state, self.config), self.config, log) if self.config else state


def with_host_units(
    engine: Engine, kernel: Kernel, config: Config, log: Log, environ: Mapping[str, str] | None = None
) -> Hosted:
    """Return both with the units of this host; as they are, logged, where nothing can confine them."""
    if config.host_units != "auto":
        return Hosted(engine, kernel, config=config)
    try:
        units = sources(config, config.leave, environ)
    except EngineLacks as why:
        log.warning(not_confined_told(str(why)))
        return Hosted(engine, kernel, HostConfinement(is_confining=False, why_not=str(why)), config)
    for parts in units:
        if isinstance(parts, HostParts):
            kernel = HostedKernel(kernel, parts)
    log.info(
        "the host's own processes are kept off exclusive CPUs as well: services, sessions, threads of the kernel",
        by=",".join(each.source for each in units),
        left=",".join(config.leave) or "none",
        off='host_units = "off"',
    )
    return Hosted(HostedEngine(engine, *units), kernel, HostConfinement(is_confining=True), config)


def sources(
    config: Config, leave: tuple[str, ...] = (), environ: Mapping[str, str] | None = None
) -> tuple[HostUnits, ...]:
    """Return what can confine the units of this host, without those that patterns leave alone: systemd its own, and the
    sidecar the groups that the configuration names. Where there is either, what the kernel lets be moved is moved as
    well. Raise EngineLacks if there is nothing.
    """
    hierarchy, online = find_hierarchy(config.cgroup), HostKernel(cgroup=config.cgroup).online
    if hierarchy is None:
        raise EngineLacks(f"there are no cpusets at {config.cgroup}")
    tasks, parents = HostTasks(), (*USUAL, *([config.hand] if config.hand.startswith("/") else []))
    parts: list[HostPart] = [
        RootTasks(hierarchy, online, tasks) if path == ROOT else NamedGroup(hierarchy, path, online, parents)
        for path in config.host_groups
    ]
    if is_hosts_own(hierarchy):
        record = HostRecord(config.state_dir)
        parts += [KernelThreads(record, online, tasks=tasks), Workqueues(record, online)]
    try:
        systemd, ruled = _systemd(hierarchy, environ), unit_patterns(config.rules)
        units = UnitGroups(hierarchy.root, systemd, online, parent=config.hand, leave=leave, ruled=ruled)
    except EngineLacks:
        if not config.host_groups:
            raise
        return (HostParts(parts, leave),)
    return (units, HostParts(parts, leave))


def _systemd(hierarchy: Hierarchy, environ: Mapping[str, str] | None) -> UnitProperties:
    told = os.environ if environ is None else environ
    if not is_hosts_root():
        raise EngineLacks("the sidecar is not root of this host, and systemd obeys root alone")
    if hierarchy.version != 2:
        raise EngineLacks("on cgroup v1, name groups in host_groups")
    bus = socket_of(told.get("DBUS_SYSTEM_BUS_ADDRESS", "") or f"unix:path={SYSTEM_BUS}")
    if not os.path.exists(bus):
        raise EngineLacks(f"there is no systemd here: {bus} does not exist; mount it, or name groups in host_groups")
    return UnitProperties(told, "host_units", PATIENT_SECONDS)


def is_hosts_root(uid_map: str = "/proc/self/uid_map") -> bool:
    """Return whether this process is root, and not that of a user namespace (user_namespaces(7))."""
    with suppress(OSError), open(uid_map, encoding="ascii") as file:
        return os.geteuid() == 0 and file.read().split() == ["0", "0", "4294967295"]
    return os.geteuid() == 0


async def follow_host_units(engine: HostedEngine, kernel: Kernel, looker: Looker, board: Board, log: Log) -> None:
    """Look at each unit that comes, or does not stay, and keep on the board which are not confined, until cancelled."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_tell_holes, engine, board)
        nursery.start_soon(_follow_rules, engine, looker, board)
        for units in engine.units:
            if units.source == SYSTEMD:
                nursery.start_soon(_follow, engine, units, looker, log)
            else:
                nursery.start_soon(_watch, kernel, looker, board)


async def _follow(engine: HostedEngine, units: HostUnits, looker: Looker, log: Log) -> None:
    def look(name: str) -> None:
        looker.look(engine.hinted(units, name))

    await follow_units(lambda: connected(os.environ), units, look, looker.look_at_everything, log)


async def _watch(kernel: Kernel, looker: Looker, board: Board) -> None:
    """Look at each unit that no hint tells of when it is not where it was: a task or a thread of the kernel came."""
    while True:
        await beat(WATCH_SECONDS)
        for key, known in board.latest.containers.items():
            is_watched = key.engine == HOST and known.order is None and not known.is_doubtful
            # What cannot be read now is read by the next inventory, which tells of it.
            with suppress(StateError):
                if is_watched and kernel.effective_cpus(known.view) != known.place.seen:
                    looker.look(key)


async def _follow_rules(engine: HostedEngine, looker: Looker, board: Board) -> None:
    """Look at everything when the configuration gives labels to other units."""
    async for world in board.worlds():
        patterns = unit_patterns(world.settings.rules)
        news = [each.rule(patterns) for each in engine.units]
        if any(news):
            looker.look_at_everything()


async def _tell_holes(engine: HostedEngine, board: Board) -> None:
    count = 0
    while True:
        # Which there are may change without a world.
        with trio.move_on_at(next_beat(trio.current_time(), HOLES_SECONDS)):
            count = await board.changed_since(count)
        board.tell_host(HostConfinement(is_confining=True, holes=engine.holes()))


def with_unit_keys(state: State, config: Config, environ: Mapping[str, str] | None = None) -> State:
    """Return the State in which the original settings of units are those of their source. The first version that
    confined units recorded each as a container of its engine, with an id made from the unit's name. What has none of
    these ids is a container, and one whose unit is gone is forgotten as a container is that is gone.
    """
    containers = {key.id: key for key in state.originals if not key.is_unit}
    if not containers:
        return state
    try:
        found = sources(config, environ=environ)
    except EngineLacks:
        return state
    old = {
        containers[made]: ContainerKey(each.source, name)
        for each in found
        for name in each.all()
        if (made := _id_before_sources(name)) in containers
    }
    if not old:
        return state
    return msgspec.structs.replace(
        state,
        originals={
            old.get(key, key): each for key, each in state.originals.items() if old.get(key) not in state.originals
        },
    )


def _id_before_sources(name: str) -> str:
    return hashlib.sha256(f"unit {name}".encode()).hexdigest()


async def given_back(state: State, config: Config, log: Log, environ: Mapping[str, str] | None = None) -> State:
    """Return the State without the units that are not to be confined any more: each has what it had before. One that
    cannot be reached stays in it, and confined, until the next start or release.
    """
    recorded = {*state.originals, *state.assignments, *state.refusals}
    leaving = [key for key in sorted(recorded) if key.is_unit and _is_left(key, config)]
    if not leaving:
        return state
    try:
        before = {ROOT if key.id == ROOT_TASKS else key.id for key in leaving if _is_group(key)}
        groups = tuple(dict.fromkeys((*config.host_groups, *sorted(before))))
        wider = msgspec.structs.replace(config, host_groups=groups)
        by_source = {each.source: each for each in sources(wider, environ=environ)}
    except EngineLacks as why:
        log.warning("units of the host stay confined", units=len(leaving), reason=why)
        return state
    online = HostKernel(cgroup=config.cgroup).online()
    for units in by_source.values():
        units.all()
    done: list[ContainerKey] = []

    async def give_back(key: ContainerKey) -> None:
        try:
            units = by_source.get(key.engine)
            if units is not None and await units.look(key.id) is not None:
                had = state.originals.get(key, Originals()).cpuset
                await units.confine(key.id, cpus_of(had, EMPTY) & online or online)
            done.append(key)
        except EngineError as error:
            log.warning("a unit stays confined", unit=key.id, reason=error)

    for first in range(0, len(leaving), _AT_A_TIME):
        async with trio.open_nursery() as nursery:
            for key in leaving[first : first + _AT_A_TIME]:
                nursery.start_soon(give_back, key)
    log.info("units of the host have their own CPUs again", units=len(done))
    for key in done:
        state = state.forgetting(key)
    return state


def _is_left(key: ContainerKey, config: Config) -> bool:
    if config.host_units != "auto" or any(fnmatchcase(key.id, pattern) for pattern in config.leave):
        return True
    return _is_group(key) and (ROOT if key.id == ROOT_TASKS else key.id) not in config.host_groups


def _is_group(key: ContainerKey) -> bool:
    return key.engine == HOST and (key.id == ROOT_TASKS or key.id.startswith("/"))
