"""Read a scenario from TOML, strictly: what is not understood is an error with its line and what would be right."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sidecar.config.config import Config, Given, configured
from sidecar.config.keys import Wrong
from sidecar.failures import ConfigError
from sidecar.host.machine.machine_file import machine_in
from sidecar.readers import nearest
from sidecar.simulation import toml_sections
from sidecar.simulation.busy_host import Pace, ScenarioError
from sidecar.simulation.scenario import Do, Event, Scenario, Script
from sidecar.simulation.toml_sections import Section, Text
from state.cpuset import EMPTY, MAX_CPU, union
from state.errors import StateError
from state.topology import Topology, topology, uniform

OTHER_KEYS: Final = ("engine", "state_dir", "projections", "cgroup", "log_level", "log_format")
"""Keys of the configuration that mean nothing in a simulation."""

_MAX_BYTES: Final = 1024 * 1024
_MOST: Final = 64
"""Sockets, nodes of a socket, caches of a node, threads of a core."""

_AFTERWARDS: Final = 10.0
"""Seconds for which a scenario goes on after the last event, where it does not say."""

_OF_CONTAINER: Final = (Do.RUN, Do.CREATE, Do.START, Do.STOP, Do.REMOVE, Do.RESIZE)


def scenario_in(file: str, machine_file: str | None = None) -> Scenario:
    """The scenario in a file, on the machine in another one where that is given. ScenarioError, ConfigError, StateError
    with file, line, and what would be right.
    """
    try:
        content = Path(file).read_bytes()
    except (OSError, ValueError) as error:
        raise ScenarioError(f"the scenario {file} cannot be read: {getattr(error, 'strerror', error)}") from error
    if len(content) > _MAX_BYTES:
        raise ScenarioError(f"the scenario {file} has {len(content)} bytes: this is something else")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ScenarioError(f"the scenario {file} is not text") from error
    return scenario_of(text, file, machine_file)


def scenario_of(text: str, file: str = "scenario", machine_file: str | None = None) -> Scenario:
    """The same from its text; `file` is its name for errors, and where a relative machine file is looked for."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ScenarioError(f"the scenario {file} is not TOML: {error}") from error
    lines = Text(file, text)
    top = Section(lines, table)
    title = top.take("title", toml_sections.text, Path(file).stem)
    ends = top.take("ends", toml_sections.seconds, None)
    machine_table = top.raw("machine", None)
    settings = top.raw("settings", {})
    pace = _pace(Section(lines, top.raw("pace", {}), "pace"))
    scripts = tuple(_script(each) for each in _all(top, lines, "container"))
    _check_names(scripts, lines)
    events = tuple(_event(each, scripts) for each in _all(top, lines, "event"))
    top.end()
    machine = _machine(Section(lines, machine_table or {}, "machine"), file, machine_file, is_given=bool(machine_table))
    config = _config(lines, settings)
    config.check_against(machine)
    last = max([event.at for event in events] + [at for script in scripts for at, _ in script.demand], default=0.0)
    return Scenario(
        title=title,
        machine=machine,
        config=config,
        ends=last + _AFTERWARDS if ends is None else ends,
        pace=pace,
        containers=scripts,
        events=events,
    )


def _all(top: Section, lines: Text, name: str) -> list[Section]:
    """The sections of a list of tables."""
    value = top.raw(name, [])
    if not isinstance(value, list):
        top.fail(f"{name} is no list of tables: write each as [[{name}]]", name)
    return [Section(lines, table, name, number) for number, table in enumerate(value)]


def _machine(section: Section, file: str, machine_file: str | None, *, is_given: bool) -> Topology:
    path = section.take("file", toml_sections.text, "")
    most = toml_sections.count(1, _MOST)
    sockets, nodes = section.take("sockets", most, 1), section.take("nodes", most, 1)
    cores = section.take("cores", toml_sections.count(1, MAX_CPU), 1)
    threads, caches = section.take("threads", most, 1), section.take("caches", most, 1)
    adjacent = section.take("adjacent", toml_sections.truth, otherwise=False)
    section.end()
    if machine_file is not None:
        return machine_in(machine_file)
    if not is_given:
        section.fail("the machine is missing: write [machine] with cores = 8, or file = ..., or give --machine FILE")
    if path:
        if section.has("cores"):
            section.fail("write file, or sockets, nodes, cores and threads, and not both", "file")
        try:
            return machine_in(str(Path(file).parent / path))
        except StateError as error:
            raise ScenarioError(f"{section.place('file')}: {error}") from error
    if sockets * nodes * cores * threads > MAX_CPU:
        section.fail(f"this machine has {sockets * nodes * cores * threads} CPUs: {MAX_CPU} is the most", "cores")
    if cores % caches:
        section.fail(f"{cores} cores of a node cannot share {caches} caches evenly", "caches")
    made = uniform(packages=sockets, nodes=nodes, cores=cores, threads=threads, adjacent=adjacent)
    return _with_caches(made, caches) if caches > 1 else made


def _with_caches(machine: Topology, each: int) -> Topology:
    """The same machine with so many last-level caches in each node."""
    caches = []
    for node in machine.nodes:
        cores = [core.cpus for core in machine.cores if core.cpus <= node.cpus]
        size = len(cores) // each
        caches += [union(cores[first : first + size]) for first in range(0, len(cores), size)]
    return topology(
        cores=[core.cpus for core in machine.cores],
        caches=caches,
        nodes={node.id: node.cpus for node in machine.nodes},
        packages={package.id: package.cpus for package in machine.packages},
    )


def _config(lines: Text, table: object) -> Config:
    if not isinstance(table, Mapping):
        raise ScenarioError(f"{lines.place(key='settings')}: settings is no table: write it as [settings]")
    for key in table:
        if key in OTHER_KEYS:
            raise ConfigError(f"{lines.place('settings', 0, key)}: {key} means nothing in a simulation: leave it out")
    return configured(Given(key, value, lines.place("settings", 0, key)) for key, value in table.items())


def _pace(section: Section) -> Pace:
    names = Pace.__struct_fields__
    made = {name: section.take(name, toml_sections.seconds, getattr(Pace(), name)) for name in names}
    section.end()
    return Pace(**made)


def _script(section: Section) -> Script:
    made = Script(
        name=section.needs("name", toml_sections.text, '"web"'),
        labels=section.take("labels", toml_sections.labels, {}),
        cpus=section.take("cpus", toml_sections.amount, None),
        cpuset=str(section.take("cpuset", toml_sections.cpu_list, EMPTY)),
        follows=section.take("follows", toml_sections.truth, otherwise=False),
        moves_in=section.take("moves_in", toml_sections.seconds_or_never, None),
        demand=section.take("demand", toml_sections.steps, ()),
    )
    section.end()
    if section.has("moves_in") and not made.follows:
        section.fail("only one that follows moves: add follows = true", "moves_in")
    return made


def _check_names(scripts: tuple[Script, ...], lines: Text) -> None:
    seen: set[str] = set()
    for number, script in enumerate(scripts):
        if script.name in seen:
            raise ScenarioError(f"{lines.place('container', number, 'name')}: there are two containers {script.name!r}")
        seen.add(script.name)


def _event(section: Section, scripts: tuple[Script, ...]) -> Event:
    do = section.needs("do", _do, '"run"')
    names = tuple(script.name for script in scripts)
    container, size, cpus = "", 0, EMPTY
    at = section.needs("at", toml_sections.seconds, '"10s"')
    if do in _OF_CONTAINER:
        container = section.needs("container", lambda value: _one_of(value, names), f'"{names[0] if names else "web"}"')
    if do is Do.RESIZE:
        size = section.needs("cpus", toml_sections.count(1, MAX_CPU), "4")
    if do in (Do.OFFLINE, Do.ONLINE):
        cpus = section.needs("cpus", toml_sections.cpu_list, '"3"')
    section.end()
    return Event(at=at, do=do, container=container, size=size, cpus=cpus, where=section.place())


def _do(value: object) -> Do:
    return Do(_one_of(value, tuple(each.value for each in Do)))


def _one_of(value: object, words: tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise Wrong(f": there is {', '.join(words)}")
    if value not in words:
        raise Wrong(nearest(value, words) if words else ": there is no [[container]]")
    return value
