"""Read a machine from lscpu's JSON (util-linux): `lscpu -J -e`, with a row for each CPU, or the summary, `lscpu -J`.

The rows number cores, sockets, nodes and caches, and are as good as sysfs for placement. They have no devices, no
distances, and no isolated CPUs. Numbers may be strings, and "-" or null if a value is unknown (offline CPUs).

The summary has counts only, next to the online CPUs and those of each node. Which CPUs share a core, a socket or a
cache is then a guess (`_guessed_cores` describes it), and the notes of the Topology report what was guessed. Its field
names are those of the C locale: others cannot be understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from sidecar.host.machine.group_levels import Told, between, completed, last_level, levels_of
from sidecar.words.counts import counted, named
from state import codec
from state.cpuset import EMPTY, MAX_CPU, CPUSet, union
from state.errors import CPUSetError, StateError
from state.topology import Topology, topology

LIMIT: Final = 16 * 1024 * 1024
"""Characters. 8192 CPUs with every column that lscpu has take 4 MiB."""

_CURE: Final = "write the file with `LC_ALL=C lscpu -J -e`"

_BARE: Final = re.compile(r'((?<!\\)":\s*)-(?=\s*[,}])')
"""What lscpu 2.38 writes for an unknown number, such as the core of an offline CPU: it is not JSON."""

_CACHE: Final = re.compile(r"l([1-9])([dis]?)")
_COUNT: Final = re.compile(r"(\d{1,6})\b.*")
_INSTANCES: Final = re.compile(r".*\((\d{1,6}) instances?\)")
_NODE: Final = re.compile(r"numa node(\d{1,5}) cpu\(s\)")
_ADJACENT: Final = re.compile(r"ppc|s390|aarch64|riscv|mips|loong")
"""Machines that number the threads of a core one after the other; x86 does so under hypervisors only."""

Row = Mapping[str, Any]


def read_lscpu(text: str) -> Topology:
    """Return the machine in the JSON that lscpu printed. Raise StateError if it is not that, or has no machine."""
    if len(text) > LIMIT:
        raise StateError(f"{len(text)} characters are too many to be lscpu's")
    try:
        document = msgspec.json.decode(_BARE.sub(r"\1null", text))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise StateError(f"it is not lscpu's JSON: {codec.flaw(error)}; {_CURE}") from error
    if isinstance(document, dict):
        if isinstance(rows := document.get("cpus"), list):
            return _of_rows([_lowered(row) for row in rows])
        if isinstance(fields := document.get("lscpu"), list):
            return _of_summary(dict(_fields(fields)))
    raise StateError(f'it is not lscpu\'s JSON: there is no list "cpus" or "lscpu" in it; {_CURE}')


def _lowered(row: object) -> Row:
    if not isinstance(row, dict):
        raise StateError(f'it is not lscpu\'s JSON: in the list "cpus" is {_shown(row)}')
    return {key.lower(): value for key, value in row.items()}


def _of_rows(rows: list[Row]) -> Topology:
    notes: list[str] = []
    found: dict[int, Row] = {}
    for row in rows:
        cpu = _number(row.get("cpu"))
        if cpu is None or cpu > MAX_CPU:
            raise StateError(f'a row of lscpu\'s "cpus" is of no CPU: {_shown(row.get("cpu"))}; {_CURE}')
        if cpu in found:
            raise StateError(f'CPU {cpu} has two rows in lscpu\'s "cpus"')
        found[cpu] = row
    present = CPUSet(found)
    online = CPUSet(cpu for cpu, row in found.items() if _is_online(row))
    if not online:
        raise StateError(f"lscpu names no CPU that is online; {_CURE}")
    up = {cpu: found[cpu] for cpu in online}
    levels = levels_of(_caches(up), online, notes)
    packages = completed(_grouped(up, "socket", ("drawer", "book")), online, "package", notes)
    nodes = completed(_grouped(up, "node", ()), online, "node", notes)
    cores = _cores(up, notes)
    made = topology(
        cores=cores,
        caches=last_level(levels, packages, cores, online, notes.append),
        nodes=nodes,
        packages=packages,
        offline=present - online,
        notes=tuple(notes),
    )
    return msgspec.structs.replace(
        made,
        cache_levels=levels,
        clusters=between(_grouped(up, "cluster", ("drawer", "book", "socket")), cores, packages, online),
    )


def _is_online(row: Row) -> bool:
    """Return whether a row's CPU is online; without a usable column `online`, whether the CPU has a place."""
    told = row.get("online")
    word = str(told).lower()
    if word in {"true", "yes", "y", "1"}:
        return True
    if word in {"false", "no", "n", "0"}:
        return False
    places = [row[column] for column in ("core", "socket", "node") if column in row]
    return not places or any(_number(place) is not None for place in places)


def _cores(rows: Mapping[int, Row], notes: list[str]) -> list[CPUSet]:
    """Return the cores: CPUs of one core number, socket and level 2 cache, since `--physical` repeats numbers."""
    found: dict[object, int] = {}
    for cpu, row in rows.items():
        core = _number(row.get("core"))
        place = tuple(_number(row.get(column)) for column in ("drawer", "book", "socket"))
        level2 = next((number for level, kind, number in _cache_numbers(row) if level == 2 and kind != "i"), None)
        key = (*place, level2, core) if core is not None else cpu
        found[key] = found.get(key, 0) | 1 << cpu
    if lone := CPUSet(cpu for cpu in found if isinstance(cpu, int)):
        notes.append(f"cores are unknown for {named(lone)}: each CPU counts as a core")
    return [CPUSet.from_mask(mask) for mask in found.values()]


def _grouped(rows: Mapping[int, Row], column: str, outer: tuple[str, ...]) -> list[Told]:
    """Return the CPUs of each number in a column, separated by the columns around it."""
    found: dict[tuple[int, tuple[int | None, ...]], int] = {}
    for cpu, row in rows.items():
        number = _number(row.get(column))
        if number is not None:
            key = number, tuple(_number(row.get(each)) for each in outer)
            found[key] = found.get(key, 0) | 1 << cpu
    return [(number, CPUSet.from_mask(mask)) for (number, _), mask in found.items()]


def _caches(rows: Mapping[int, Row]) -> dict[int, list[Told]]:
    found: dict[int, dict[int, int]] = {}
    for cpu, row in rows.items():
        for level, kind, number in _cache_numbers(row):
            if kind != "i":
                masks = found.setdefault(level, {})
                masks[number] = masks.get(number, 0) | 1 << cpu
    return {
        level: [(number, CPUSet.from_mask(mask)) for number, mask in masks.items()] for level, masks in found.items()
    }


def _cache_numbers(row: Row) -> Iterator[tuple[int, str, int]]:
    """Yield level, kind ("d", "i", or "" for both) and number of each cache in a row: `"l1d:l1i:l2:l3": "0:0:0:0"`."""
    for column, value in row.items():
        names, numbers = column.split(":"), str(value).split(":")
        if column == "cache":
            # If the column is requested by this name, without a list of its caches, the order is that of its title.
            names = ["l1d", "l1i", "l2", "l3"][: len(numbers)]
        if len(names) != len(numbers):
            continue
        for name, text in zip(names, numbers, strict=True):
            match, number = _CACHE.fullmatch(name), _number(text)
            if match and number is not None:
                yield int(match[1]), match[2], number


def _of_summary(fields: Mapping[str, str]) -> Topology:
    notes = ["this is lscpu's summary: it has no row for each CPU, so what shares a core, socket or cache is a guess"]
    online, offline = _listed(fields)
    nodes = completed(_listed_nodes(fields), online, "node", notes)
    cores = _guessed_cores(fields, online | offline, online, nodes, notes)
    packages = _guessed_packages(fields, cores, nodes, notes)
    caches = _guessed_caches(fields, cores, packages, notes)
    return topology(
        cores=cores, caches=caches, nodes=nodes, packages=packages, offline=offline - online, notes=tuple(notes)
    )


def _fields(items: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield names in lower case without the colon, and values, including the fields below other fields."""
    waiting = list(reversed(items))
    while waiting:
        item = waiting.pop()
        if not isinstance(item, dict):
            raise StateError(f'it is not lscpu\'s JSON: in the list "lscpu" is {_shown(item)}')
        name, value = item.get("field"), item.get("data")
        if isinstance(name, str) and isinstance(value, (str, int)):
            yield name.strip().removesuffix(":").lower(), str(value)
        if isinstance(below := item.get("children"), list):
            waiting += reversed(below)


def _listed(fields: Mapping[str, str]) -> tuple[CPUSet, CPUSet]:
    """Return the online CPUs, and the offline ones."""
    count = _count(fields, "cpu(s)")
    for name in ("on-line cpu(s) list", "on-line cpu(s) mask"):
        if name in fields:
            online = _cpus(fields[name], name)
            break
    else:
        if count is None or not 0 < count <= MAX_CPU + 1:
            raise StateError(
                f"lscpu's summary names neither CPUs nor their number; its field names must be English: {_CURE}"
            )
        online = CPUSet(range(count))
    if not online:
        raise StateError(f"lscpu names no CPU that is online; {_CURE}")
    for name in ("off-line cpu(s) list", "off-line cpu(s) mask"):
        if name in fields:
            return online, _cpus(fields[name], name)
    return online, EMPTY


def _listed_nodes(fields: Mapping[str, str]) -> list[Told]:
    matches = ((_NODE.fullmatch(name), text, name) for name, text in fields.items())
    return [(int(match[1]), _cpus(text, name)) for match, text, name in matches if match]


def _guessed_cores(
    fields: Mapping[str, str], every: CPUSet, online: CPUSet, nodes: Mapping[int, CPUSet], notes: list[str]
) -> list[CPUSet]:
    """Return cores of the reported number of threads, numbered in one of the two usual ways.

    1. The second threads of all cores after the first ones: the usual way of x86.
    2. The threads of a core one after the other: the usual way of other machines, and under hypervisors.
    3. The unusual way is used if only that leaves each core within a node.
    """
    threads = _count(fields, "thread(s) per core") or 1
    cpus = list(every)
    cores = len(cpus) // threads
    if threads == 1 or len(cpus) % threads:
        if threads > 1:
            notes.append(
                f"{len(cpus)} CPUs are no multiple of {counted(threads, 'thread')} per core: each counts as a core"
            )
        return [CPUSet.of(cpu) for cpu in online]
    apart = [CPUSet(cpus[core::cores]) for core in range(cores)]
    adjacent = [CPUSet(cpus[core * threads : (core + 1) * threads]) for core in range(cores)]
    is_adjacent = "hypervisor vendor" in fields or bool(_ADJACENT.search(fields.get("architecture", "").lower()))
    for way in (adjacent, apart) if is_adjacent else (apart, adjacent):
        found = [core & online for core in way if core & online]
        if all(any(core <= node for node in nodes.values()) for core in found) or not nodes:
            notes.append(f"threads of a core are assumed to be numbered like {found[0]}")
            return found
    notes.append("no usual numbering leaves each core within a node: each CPU counts as a core")
    return [CPUSet.of(cpu) for cpu in online]


def _guessed_packages(
    fields: Mapping[str, str], cores: list[CPUSet], nodes: Mapping[int, CPUSet], notes: list[str]
) -> dict[int, CPUSet]:
    """Return as many sockets as reported, of equally many cores, node by node."""
    count = _count(fields, "socket(s)") or (_count(fields, "socket(s) per book") or 1) * (
        _count(fields, "book(s)") or (_count(fields, "book(s) per drawer") or 1) * (_count(fields, "drawer(s)") or 1)
    )
    if count == 1:
        return {}
    node_of = {cpu: id for id, node in nodes.items() for cpu in node}
    parts = _cut(sorted(cores, key=lambda core: (node_of.get(core.lowest(), 0), core.lowest())), count)
    if not parts:
        cores_there = counted(len(cores), "core")
        notes.append(f"{cores_there} cannot be split evenly among {counted(count, 'socket')}: one package is assumed")
        return {}
    if any(node & part and not (node <= part or part <= node) for node in nodes.values() for part in parts):
        notes.append("nodes do not fit into sockets of equal size: one package is assumed")
        return {}
    return dict(enumerate(parts))


def _guessed_caches(
    fields: Mapping[str, str], cores: list[CPUSet], packages: Mapping[int, CPUSet], notes: list[str]
) -> list[CPUSet]:
    """Return as many last-level caches as reported, each of neighbouring cores of one package."""
    outer = list(packages.values()) or [union(cores)]
    for level in (4, 3, 2):
        text = next((fields[name] for name in (f"l{level} cache", f"l{level}") if name in fields), None)
        match = _INSTANCES.fullmatch(text) if text else None
        # A level 2 cache for each core adds nothing to the cores.
        is_shared = level > 2 or (match and int(match[1]) < len(cores))
        if match and is_shared and (count := int(match[1])) and count % len(outer) == 0:
            parts: list[CPUSet] = []
            for package in outer:
                inside = sorted((core for core in cores if core <= package), key=CPUSet.lowest)
                parts += _cut(inside, count // len(outer))
            if union(parts) == union(cores):
                return parts
        if text:
            break
    notes.append("the number of caches is unknown: each package counts as one")
    return []


def _cut(groups: list[CPUSet], count: int) -> list[CPUSet]:
    """Return the groups joined to `count` equal neighbourhoods; none if that is impossible."""
    size, rest = divmod(len(groups), count)
    if not size or rest:
        return []
    return [union(groups[part * size : (part + 1) * size]) for part in range(count)]


def _cpus(text: str, name: str) -> CPUSet:
    """Return the CPUs of a list, or of a mask under `--hex`. Raise StateError, naming the field, if it is neither."""
    try:
        if text.lower().startswith("0x"):
            return CPUSet.from_mask(int(text.replace(",", ""), 16))
        return CPUSet.parse(text)
    except (CPUSetError, ValueError) as error:
        raise StateError(f"lscpu's field {name!r} is no CPU list: {_shown(text)}") from error


def _count(fields: Mapping[str, str], name: str) -> int | None:
    match = _COUNT.fullmatch(fields.get(name, "").strip())
    return int(match[1]) if match and int(match[1]) else None


def _number(value: object) -> int | None:
    """Return a number of at most six digits, as a number or a string; None for "-", null, -1, and anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else None


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
