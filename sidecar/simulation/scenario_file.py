"""Read a scenario from TOML, strictly: every mistake is reported, with its line and what would be right."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from sidecar.config.config import Config, Mistakes
from sidecar.config.misfits import misfits
from sidecar.config.toml_text import TOMLFile, read_file, read_text
from sidecar.host.machine.machine_file import machine_in
from sidecar.misreadings import ListKind, Misreading, NotOfForm, Unknown
from sidecar.readers import Given, Reader, choice, cpu_list, misreading, text, truth, whole
from sidecar.scenario_flaws import (
    DoesNotFollow,
    MachineTooLarge,
    NoMachine,
    NoSuchCPUs,
    Twice,
    TwoMachines,
    UnevenCaches,
    Unrecorded,
)
from sidecar.simulation.busy_host import Pace, ScenarioError
from sidecar.simulation.impossible_events import PlacedEvent, Unclear, impossible
from sidecar.simulation.scenario import Do, Event, Scenario, Script
from sidecar.simulation.settings_sections import Reloads, config_in
from sidecar.simulation.toml_sections import Section, cpus, labels, seconds, seconds_or_never, steps
from sidecar.words.misread import sentences
from state.cpuset import EMPTY, MAX_CPU, CPUSet, union
from state.errors import StateError
from state.topology import Topology, topology, uniform

_WHAT: Final = "the scenario"

_MOST: Final = 64
"""Sockets, nodes of a socket, caches of a node, threads of a core."""

_AFTERWARDS: Final = 10.0
"""Seconds for which a scenario goes on after the last event, unless it sets its end."""

_OF_CONTAINER: Final = (Do.RUN, Do.CREATE, Do.START, Do.STOP, Do.REMOVE, Do.RESIZE, Do.RELEASE)


Host: TypeAlias = tuple[Topology, Config]
"""A machine and settings, in place of those of a scenario."""


def scenario_in(file: str, machine_file: str | None = None, host: Host | None = None) -> Scenario:
    """Return the scenario in a file; a given machine file replaces its machine, and a `host` its settings as well.

    Raise ScenarioError, with a sentence for each mistake: file, line, and what would be right. Raise StateError if the
    machine file holds no machine.
    """
    read = read_file(file, _WHAT)
    return _checked((read,) if isinstance(read, Misreading) else read_scenario(read, machine_file, host))


def scenario_of(content: str, file: str = "scenario", machine_file: str | None = None) -> Scenario:
    """Return the same from its text; `file` is its name for errors, and relative machine files are looked for beside
    it.
    """
    read = read_text(content, file, _WHAT)
    return _checked((read,) if isinstance(read, Misreading) else read_scenario(read, machine_file))


def read_scenario(file: TOMLFile, machine_file: str | None = None, host: Host | None = None) -> Scenario | Mistakes:
    """Return the scenario, or all mistakes in it. Raise StateError if `machine_file` holds no machine.

    Relations between two values are checked only if both could be read, and whether a container is there only if all
    events that may create or remove it could be read.
    """
    mistakes: list[Misreading] = []
    top = Section(file.text, file.table, mistakes)
    title = top.take("title", text, Path(file.text.file).stem)
    ends = top.take("ends", seconds, -1.0)
    is_given = host is not None or top.has("machine")
    described = top.one_of("machine")
    machine = _machine(described, file.text.file, machine_file, is_given=is_given)
    recorded = text(described.raw("file", ""))
    config = config_in(top.one_of("settings"), machine)
    machine, config = host or (machine, config)
    reloads = Reloads(machine, config)
    pace = _pace(top.one_of("pace"))
    scripts = tuple(map(_script, containers := top.all_of("container")))
    _find_twins(containers, scripts)
    names = tuple(script.name for script in scripts if script.name)
    sections = top.all_of("event")
    read = [_event(each, names, reloads) for each in sections]
    events = reloads.added([each if isinstance(each, Event) else None for each in read])
    top.end()
    if machine:
        _find_missing_cpus(containers, scripts, machine)
    if machine and config:
        mistakes += misfits(config, machine)
    happens = tuple(event for event in events if event)
    last = max([event.at for event in happens] + [at for script in scripts for at, _ in script.demand], default=0.0)
    ends = last + _AFTERWARDS if ends < 0 else ends
    placed = [PlacedEvent(event, each.place("cpus")) for event, each in zip(events, sections, strict=True) if event]
    unclear = [each for each in read if isinstance(each, Unclear)]
    mistakes += impossible(placed, machine.online if machine else None, ends, unclear)
    if mistakes or machine is None or config is None:
        return tuple(sorted(mistakes, key=_line))
    return Scenario(
        title=title,
        machine=machine,
        config=config,
        ends=ends,
        pace=pace,
        containers=scripts,
        events=happens,
        recorded=_beside(file.text.file, recorded) if isinstance(recorded, str) else "",
    )


def _checked(read: Scenario | Mistakes) -> Scenario:
    if isinstance(read, Scenario):
        return read
    raise ScenarioError(*sentences(read))


def _machine(section: Section, file: str, machine_file: str | None, *, is_given: bool) -> Topology | None:
    """Return the machine; None if it is not given, or wrong."""
    before = len(section.mistakes)
    path = section.take("file", text, "")
    most = whole(1, _MOST)
    sockets, nodes = section.take("sockets", most, 1), section.take("nodes", most, 1)
    cores = section.take("cores", whole(1, MAX_CPU), 1)
    threads, caches = section.take("threads", most, 1), section.take("caches", most, 1)
    adjacent = section.take("adjacent", truth, otherwise=False)
    isolated = section.take("isolated", cpu_list, EMPTY)
    section.end()
    if machine_file is not None:
        return machine_in(machine_file)
    if len(section.mistakes) > before:
        return None
    size = sockets * nodes * cores * threads
    if not is_given:
        section.fail(NoMachine())
    elif path and (section.has("cores") or section.has("isolated")):
        section.fail(TwoMachines(), "file")
    elif path:
        return _recorded(section, _beside(file, path))
    elif size > MAX_CPU:
        section.fail(MachineTooLarge(size, MAX_CPU), "cores")
    elif cores % caches:
        section.fail(UnevenCaches(cores, caches), "caches")
    else:
        made = uniform(packages=sockets, nodes=nodes, cores=cores, threads=threads, adjacent=adjacent)
        if missing := isolated - made.online:
            given = Given("isolated", str(isolated), section.place("isolated"))
            section.mistakes.append(misreading(given, NoSuchCPUs(missing, made.online)))
            return None
        made = _with_caches(made, caches) if caches > 1 else made
        return msgspec.structs.replace(made, isolated=isolated)
    return None


def _beside(file: str, path: str) -> str:
    return str(Path(file).parent / path)


def _recorded(section: Section, path: str) -> Topology | None:
    try:
        return machine_in(path)
    except StateError as error:
        section.fail(Unrecorded(str(error)), "file")
        return None


def _with_caches(machine: Topology, each: int) -> Topology:
    """Return the same machine with `each` last-level caches in each node."""
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


def _pace(section: Section) -> Pace:
    names = Pace.__struct_fields__
    made = {name: section.take(name, seconds, getattr(Pace(), name)) for name in names}
    section.end()
    return Pace(**made)


def _script(section: Section) -> Script:
    """Return a container; its name is "" if it is not given or wrong."""
    made = Script(
        name=section.needs("name", text, '"web"', ""),
        labels=section.take("labels", labels, {}),
        cpus=section.take("cpus", cpus, None),
        cpuset=str(section.take("cpuset", cpu_list, EMPTY)),
        image=section.take("image", text, ""),
        runtime=section.take("runtime", text, ""),
        follows=section.take("follows", truth, otherwise=False),
        moves_in=section.take("moves_in", seconds_or_never, None),
        demand=section.take("demand", steps, ()),
    )
    section.end()
    if section.has("moves_in") and not made.follows:
        section.fail(DoesNotFollow(), "moves_in")
    return made


def _find_twins(sections: list[Section], scripts: tuple[Script, ...]) -> None:
    """Record a mistake for each container with the name of an earlier one."""
    seen = {""}
    for section, script in zip(sections, scripts, strict=True):
        if script.name in seen - {""}:
            place = Given("name", script.name, section.place("name"))
            section.mistakes.append(misreading(place, Twice()))
        seen.add(script.name)


def _find_missing_cpus(sections: list[Section], scripts: tuple[Script, ...], machine: Topology) -> None:
    """Find the pins to CPUs that the machine does not have."""
    for section, script in zip(sections, scripts, strict=True):
        if missing := CPUSet.parse(script.cpuset) - machine.online:
            given = Given("cpuset", script.cpuset, section.place("cpuset"))
            section.mistakes.append(misreading(given, NoSuchCPUs(missing, machine.online)))


def _line(mistake: Misreading) -> int:
    """Return the number of its line; the highest number if it has none."""
    match = re.search(r", line (\d+)$", mistake.where)
    return int(match[1]) if match else sys.maxsize


def _event(section: Section, names: tuple[str, ...], reloads: Reloads) -> Event | Unclear:
    """Return an event, or what is not clear without it. If its kind is unknown, its other keys cannot be judged."""
    found = len(section.mistakes)
    do: Do | None = section.needs("do", choice(Do), '"run"', None)
    at = section.needs("at", seconds, '"10s"', 0.0)
    container, size, affected = "", 0, EMPTY
    if do is None:
        given = section.raw("container", "")
        return Unclear(names if given not in names else (str(given),), switches=True)
    if do in _OF_CONTAINER:
        container = section.needs("container", _one_of(names), f'"{names[0] if names else "web"}"', "")
    if do is Do.RESIZE:
        size = section.needs("cpus", whole(1, MAX_CPU), "4", 1)
    if do in (Do.OFFLINE, Do.ONLINE):
        affected = section.needs("cpus", cpu_list, '"3"', EMPTY)
    if do is Do.RELOAD:
        reloads.read(section, at)
    section.end()
    if len(section.mistakes) == found:
        return Event(at=at, do=do, container=container, size=size, cpus=affected, where=section.place())
    changed = ((container,) if container else names) if do in (Do.RUN, Do.CREATE, Do.REMOVE) else ()
    return Unclear(changed, do in (Do.OFFLINE, Do.ONLINE), affected, section.place("cpus"))


def _one_of(names: tuple[str, ...]) -> Reader[str, Unknown | NotOfForm]:
    """Make a reader of the name of a container in the scenario, which has each as often as it is run."""
    known = tuple(dict.fromkeys(names))

    def read(value: object) -> str | Unknown | NotOfForm:
        name = text(value)
        return name if isinstance(name, NotOfForm) or name in names else Unknown(ListKind.CONTAINER, known)

    return read
