"""Joins an engine and the units of its host, as far as these can be confined here; and restores the units that are no
longer to be confined.

A changed switch or pattern of the configuration may leave units confined that no decision sees any more. So the daemon
restores these first, before it decides anything, by the original settings in its recorded state.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

import msgspec
import trio

from sidecar.board import Board
from sidecar.config.config import Config
from sidecar.decide.container.place import cpus_of
from sidecar.engines.host_tenants import HostedEngine
from sidecar.failures import EngineError, EngineLacks
from sidecar.host.cgroup.host_kernel import HostKernel
from sidecar.host.cgroup.places import v2_hierarchy
from sidecar.host.units.systemd_connection import connected
from sidecar.host.units.unit_groups import UnitGroups
from sidecar.host.units.unit_properties import SYSTEM_BUS, UnitProperties, socket_of
from sidecar.host_ports import HostUnits
from sidecar.log import Log
from sidecar.observe.looks import Looker
from sidecar.observe.unit_hints import follow_units
from sidecar.ports import Engine
from sidecar.words.units import HostConfinement, not_confined_told
from state.cpuset import EMPTY
from state.key import SYSTEMD, ContainerKey
from state.model import State

_AT_A_TIME: Final = 8
"""Units that are restored side by side."""


class Hosted(NamedTuple):
    """An engine, with the units of its host if these are to be confined and can be, and what is said of that."""

    engine: Engine
    told: HostConfinement | None


def with_host_units(engine: Engine, config: Config, log: Log, environ: Mapping[str, str] | None = None) -> Hosted:
    """Return the engine with the units of this host; the engine alone, logged, where nothing can confine them."""
    if config.host_units != "auto":
        return Hosted(engine, None)
    try:
        units = sources(config, config.leave, environ)
    except EngineLacks as why:
        log.warning(not_confined_told(str(why)))
        return Hosted(engine, HostConfinement(is_confining=False, why_not=str(why)))
    return Hosted(HostedEngine(engine, *units), HostConfinement(is_confining=True))


def sources(
    config: Config, leave: tuple[str, ...] = (), environ: Mapping[str, str] | None = None
) -> tuple[HostUnits, ...]:
    """Return what can confine the units of this host, without those that patterns leave alone. Raise EngineLacks if
    there is nothing.
    """
    told = os.environ if environ is None else environ
    hierarchy = v2_hierarchy(config.cgroup, "cpuset")
    if hierarchy is None:
        raise EngineLacks(f"systemd confines units on cgroup v2 alone, and {config.cgroup} is not that")
    bus = socket_of(told.get("DBUS_SYSTEM_BUS_ADDRESS", "") or f"unix:path={SYSTEM_BUS}")
    if not os.path.exists(bus):
        raise EngineLacks(f"there is no systemd: {bus} does not exist here")
    systemd = UnitProperties(told, "host_units")
    online = HostKernel(cgroup=config.cgroup).online
    return (UnitGroups(hierarchy.root, systemd, online, parent=config.hand, leave=leave),)


async def follow_host_units(engine: HostedEngine, looker: Looker, board: Board, log: Log) -> None:
    """Look at each unit that comes, and keep on the board which are not confined, until cancelled."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_tell_holes, engine, board)
        for units in (each for each in engine.units if each.source == SYSTEMD):
            nursery.start_soon(_follow, engine, units, looker, log)


async def _follow(engine: HostedEngine, units: HostUnits, looker: Looker, log: Log) -> None:
    def look(name: str) -> None:
        looker.look(engine.hinted(units, name))

    await follow_units(lambda: connected(os.environ), units.tell, look, looker.look_at_everything, log)


async def _tell_holes(engine: HostedEngine, board: Board) -> None:
    async for _ in board.worlds():
        board.tell_host(HostConfinement(is_confining=True, holes=engine.holes()))


async def given_back(state: State, config: Config, log: Log, environ: Mapping[str, str] | None = None) -> State:
    """Return the State without the units that are not to be confined any more: each has what it had before. One that
    cannot be reached stays in it, and confined, until the next start or release.
    """
    leaving = [key for key in sorted(state.originals) if key.is_unit and _is_left(key, config)]
    if not leaving:
        return state
    try:
        by_source = {each.source: each for each in sources(config, environ=environ)}
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
                await units.confine(key.id, cpus_of(state.originals[key].cpuset, EMPTY) & online or online)
            done.append(key)
        except EngineError as error:
            log.warning("a unit stays confined", unit=key.id, reason=error)

    for first in range(0, len(leaving), _AT_A_TIME):
        async with trio.open_nursery() as nursery:
            for key in leaving[first : first + _AT_A_TIME]:
                nursery.start_soon(give_back, key)
    log.info("units of the host have their own CPUs again", units=len(done))
    return msgspec.structs.replace(
        state, originals={key: each for key, each in state.originals.items() if key not in done}
    )


def _is_left(key: ContainerKey, config: Config) -> bool:
    return config.host_units != "auto" or any(fnmatchcase(key.id, pattern) for pattern in config.leave)
