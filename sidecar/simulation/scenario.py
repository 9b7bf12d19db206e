"""Scenario: a machine, a configuration, containers, and timed events; and its Simulation. Values only."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from sidecar.config.config import Config
from sidecar.simulation.busy_host import Pace, ScenarioError
from sidecar.simulation.virtual_host import Simulation
from state.cpuset import EMPTY, CPUSet
from state.topology import Topology


class Do(enum.StrEnum):
    """What can happen in a scenario."""

    RUN = "run"
    CREATE = "create"
    START = "start"
    STOP = "stop"
    REMOVE = "remove"
    RESIZE = "resize"
    RELEASE = "release"
    DEFRAGMENT = "defragment"
    RELOAD = "reload"
    OFFLINE = "offline"
    ONLINE = "online"
    CRASH = "crash"
    RESTART = "restart"


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """A container as it will be created. `cpus` is its CPU limit, `cpuset` a pin by hand; `image` is the name of its
    image, and `runtime` its OCI runtime.

    It follows its projection if `follows`, and acknowledges a take `moves_in` seconds after notice, None for never.
    `demand` is the CPUs that it would use, each from a time on, ascending.
    """

    name: str
    labels: Mapping[str, str] = {}
    cpus: float | None = None
    cpuset: str = ""
    image: str = ""
    runtime: str = ""
    follows: bool = False
    moves_in: float | None = None
    demand: tuple[tuple[float, float], ...] = ()

    def demand_at(self, time: float) -> float:
        """Return the CPUs that it would use at that time."""
        return next((cpus for at, cpus in reversed(self.demand) if at <= time), 0.0)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event. `where` is its place in the file, for errors.

    `config` is the configuration from a reload on, and `changes` the keys that it changes, with their values as text.
    """

    at: float
    do: Do
    container: str = ""
    size: int = 0
    cpus: CPUSet = EMPTY
    where: str = ""
    config: Config | None = None
    changes: tuple[tuple[str, str], ...] = ()


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """The whole history to be played, from 0 to `ends` seconds."""

    title: str
    machine: Topology
    config: Config
    ends: float
    pace: Pace = Pace()
    containers: tuple[Script, ...] = ()
    events: tuple[Event, ...] = ()
    recorded: str = ""
    """The file of its machine, "" if the machine is described."""


def simulation_of(scenario: Scenario, *, trace: Callable[[bytes], None] | None = None) -> Simulation:
    """Return a simulation at its beginning, with the whole scenario scheduled.

    Its `advance` raises ScenarioError, with the place, for what is impossible at its time.
    """
    simulation = Simulation(scenario.machine, scenario.config, pace=scenario.pace, trace=trace)
    scripts = {script.name: script for script in scenario.containers}
    for event in sorted(scenario.events, key=lambda each: each.at):
        simulation.at(event.at, partial(_happen, simulation, scripts, event))
    for script in scenario.containers:
        for at, cpus in script.demand:
            if at > 0:
                simulation.at(at, partial(_change_demand, simulation, script.name, cpus))
    return simulation


def _change_demand(simulation: Simulation, name: str, cpus: float) -> None:
    if simulation.is_there(name):
        simulation.set_demand(name, cpus, is_said=True)


def _happen(simulation: Simulation, scripts: Mapping[str, Script], event: Event) -> None:
    try:
        _do(simulation, scripts, event)
    except ScenarioError as error:
        raise ScenarioError(f"{event.where}: {event.do} at {event.at:g} s: {error}") from error


def _do(simulation: Simulation, scripts: Mapping[str, Script], event: Event) -> None:
    match event.do:
        case Do.RUN:
            _create(simulation, scripts[event.container])
            simulation.run(event.container)
        case Do.CREATE:
            _create(simulation, scripts[event.container])
        case Do.START:
            simulation.start(event.container)
        case Do.STOP:
            simulation.stop(event.container)
        case Do.REMOVE:
            simulation.remove(event.container)
        case Do.RESIZE:
            simulation.resize(event.container, event.size)
        case Do.DEFRAGMENT:
            simulation.defragment()
        case Do.OFFLINE:
            simulation.switch_off(event.cpus)
        case Do.ONLINE:
            simulation.switch_on(event.cpus)
        case Do.CRASH:
            simulation.crash_sidecar()
        case Do.RESTART:
            simulation.start_sidecar()
        case Do.RELOAD:
            assert event.config is not None
            simulation.reload(event.config, event.changes)
        case Do.RELEASE:
            simulation.release(event.container)


def _create(simulation: Simulation, script: Script) -> None:
    simulation.create(
        script.name,
        script.labels,
        limit=script.cpus,
        cpuset=script.cpuset,
        image=script.image,
        runtime=script.runtime,
        follows=script.follows,
        moves_in=script.moves_in,
        demand=script.demand_at(simulation.now),
    )
