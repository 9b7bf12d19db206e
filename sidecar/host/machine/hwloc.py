"""Read a machine from hwloc's XML, as `lstopo machine.xml` writes it: the formats of hwloc 1 and of hwloc 2 and later.

hwloc writes a tree of objects: packages, dies, groups, caches, cores, and processing units (PU), which are the CPUs.
Each has the mask of its CPUs. In format 1 NUMA nodes are levels of that tree, caches are one type with a depth, and the
root lists the online CPUs. Since format 2 nodes hang beside the tree ("memory children"), each cache level is a type,
and CPUs that are offline or not allowed to the writing program are only in the complete mask. Devices are below the
object whose CPUs they are near.

A file may come from any source: a document type with declarations of its own is refused, nothing is fetched, and size,
depth and the number of objects are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from xml.parsers import expat

import msgspec

from sidecar.host.machine.group_levels import Told, between, completed, last_level, levels_of
from sidecar.words.counts import named
from state.cpuset import EMPTY, MAX_CPU, CPUSet, union
from state.errors import CPUSetError, StateError
from state.topology import Kind, Topology, topology

LIMIT: Final = 64 * 1024 * 1024
"""Characters. A machine of 8192 CPUs, whose masks are 2 KiB each, takes 50 MiB."""

DEPTH: Final = 100
"""Elements within elements. PCI bridges may lie deep; no machine comes near this limit."""

OBJECTS: Final = 500_000
"""Elements. 8192 CPUs with cores and caches of their own take 60 thousand."""

_MOST_WORDS: Final = 2 * (MAX_CPU + 1) // 32
"""Of a mask: twice what all CPUs need, since words of 0 may stand before them. More take quadratic time."""

_ALL: Final = CPUSet.from_mask((1 << (MAX_CPU + 1)) - 1)

_CACHE: Final = re.compile(r"L([1-9])(i?)Cache")

_HEX: Final = re.compile(r"0x[0-9a-fA-F]+")

_SAME: Final = 0.9
"""Cores with at least this part of the next faster ones' capacity are of their kind."""

_CORE_KINDS: Final = {"IntelCore": 1, "IntelAtom": 0}
"""hwloc's names of the kinds of Intel's hybrid CPUs, by efficiency class."""


class _Object:
    """An element with its attributes and the elements below it; `text` is its text."""

    __slots__ = ("attributes", "below", "name", "text")

    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name = name
        self.attributes = attributes
        self.below: list[_Object] = []
        self.text = ""

    def of(self, name: str) -> Iterator[_Object]:
        """Return the elements of that name directly below."""
        return (each for each in self.below if each.name == name)

    @property
    def type(self) -> str:
        return self.attributes.get("type", "")

    @property
    def index(self) -> int | None:
        return _number(self.attributes.get("os_index"))

    def cpus(self, name: str = "cpuset") -> CPUSet | None:
        """Return a mask among the attributes; None if there is none."""
        text = self.attributes.get(name)
        return None if text is None else _mask(text)


def read_hwloc(text: str) -> Topology:
    """Return the machine in hwloc's XML. Raise StateError if it is something else, or describes no machine."""
    root = _tree(text)
    machine = next(root.of("object"), None)
    # The very first format named the root like that.
    if root.name not in {"topology", "root"} or machine is None:
        raise StateError("it is not hwloc's XML: it has no topology with an object")
    notes: list[str] = []
    seen = _Seen(machine)
    every = (machine.cpus("complete_cpuset") or EMPTY) | seen.cpus
    online = seen.cpus
    for name in ("online_cpuset", "allowed_cpuset"):
        told = machine.cpus(name)
        online = online if told is None else online & told
    if not online:
        raise StateError("hwloc's XML names no CPU that is online and allowed")
    offline = EMPTY if every == _ALL else every - online
    if offline and machine.cpus("online_cpuset") is None:
        notes.append(f"offline, or not allowed to the program that looked: {named(offline)}")
    levels = levels_of(seen.caches, online, notes)
    packages = completed(seen.told("Package", "Socket"), online, "package", notes)
    nodes = completed(seen.told("NUMANode"), online, "node", notes)
    cores = _cores(seen, online, notes)
    made = topology(
        cores=cores,
        caches=last_level(levels, packages, cores, online, notes.append),
        nodes=nodes,
        packages=packages,
        offline=offline,
        notes=tuple(notes),
    )
    extras = _extras(root, machine, seen, cores, packages, online)
    return msgspec.structs.replace(made, cache_levels=levels, **extras)


class _Seen:
    """The relevant objects of a machine, by type, with the CPUs of each; and the devices with theirs."""

    def __init__(self, machine: _Object) -> None:
        self.cpus = EMPTY
        self.objects: dict[str, list[tuple[_Object, CPUSet]]] = {}
        self.caches: dict[int, list[Told]] = {}
        self.devices: dict[str, CPUSet] = {}
        mask = 0
        self.node_depth = 0
        waiting = [(machine, EMPTY, 0)]
        while waiting:
            each, near, depth = waiting.pop()
            told = each.cpus()
            # Devices have no CPUs of their own: they are near those of the object above.
            cpus = near if told is None else told
            if each.type == "PU":
                index = each.index
                if index is None or index > MAX_CPU:
                    raise StateError(f"hwloc's XML has a PU without a CPU number: {each.attributes.get('os_index')!r}")
                if mask >> index & 1:
                    raise StateError(f"hwloc's XML has CPU {index} twice")
                mask |= 1 << index
            else:
                self._take(each, cpus)
            if each.type == "NUMANode":
                self.node_depth = depth
            waiting += ((below, cpus, depth + 1) for below in reversed(each.below) if below.name == "object")
        self.cpus = CPUSet.from_mask(mask)

    def told(self, *types: str) -> list[Told]:
        """Return the groups of these types."""
        return [(each.index, cpus) for kind in types for each, cpus in self.objects.get(kind, ())]

    def _take(self, each: _Object, cpus: CPUSet) -> None:
        kind = each.type
        if match := _CACHE.fullmatch(kind):
            # A cache of the memory, not of CPUs, is an object of its own type only since hwloc 2.1.
            if not match[2] and each.attributes.get("subtype") != "MemorySideCache":
                self.caches.setdefault(int(match[1]), []).append((each.index, cpus))
        elif kind == "Cache":
            level = _number(each.attributes.get("depth"))
            # 2 is an instruction cache. Before hwloc 1.4 there was no type: all were data or unified.
            if level and level <= 9 and each.attributes.get("cache_type") != "2":
                self.caches.setdefault(level, []).append((each.index, cpus))
        elif kind == "PCIDev":
            self.devices[each.attributes.get("pci_busid", "")] = cpus
        elif kind == "OSDev":
            self.devices[each.attributes.get("name", "")] = cpus
        else:
            self.objects.setdefault(kind, []).append((each, cpus))


def _cores(seen: _Seen, online: CPUSet, notes: list[str]) -> list[CPUSet]:
    cores = [core for _, cpus in seen.objects.get("Core", ()) if (core := cpus & online)]
    if lone := online - union(cores):
        notes.append(f"cores are unknown for {named(lone)}: each CPU counts as a core")
    return cores + [CPUSet.of(cpu) for cpu in lone]


def _extras(
    root: _Object,
    machine: _Object,
    seen: _Seen,
    cores: list[CPUSet],
    packages: Mapping[int, CPUSet],
    online: CPUSet,
) -> dict[str, object]:
    """Return the levels that only some machines have."""
    nodes = [each for each, _ in seen.objects.get("NUMANode", ())]
    groups = seen.objects.get("Group", ())
    clusters = [(each.index, cpus) for each, cpus in groups if each.attributes.get("subtype") == "Cluster"]
    return {
        "dies": between(seen.told("Die"), cores, packages, online),
        "clusters": between(clusters, cores, packages, online),
        "memory": tuple(sorted({index for each in nodes if (index := each.index) is not None and _has_memory(each)})),
        "distances": _distances(root, machine, nodes, seen.node_depth),
        "kinds": _kinds(root, online),
        "devices": {name: cpus & online for name, cpus in sorted(seen.devices.items()) if name},
    }


def _has_memory(node: _Object) -> bool:
    # Before hwloc 1.0 the memory was an element below the node.
    told = [node.attributes.get("local_memory")] + [each.attributes.get("local_memory") for each in node.of("memory")]
    return any(_number(text) for text in told)


def _kinds(root: _Object, online: CPUSet) -> tuple[Kind, ...]:
    """Return kinds of cores that have a rank: Linux' capacity, or the kind's name, with 0 for the slower one."""
    ranked: list[tuple[int, CPUSet]] = []
    for each in root.of("cpukind"):
        told = {one.attributes.get("name"): one.attributes.get("value", "") for one in each.of("info")}
        rank = _number(told.get("LinuxCapacity"))
        if rank is None:
            rank = _CORE_KINDS.get(told.get("CoreType", ""))
        if rank is None:
            return ()
        if cpus := (each.cpus() or EMPTY) & online:
            ranked.append((rank, cpus))
    if len(ranked) < 2 or union(cpus for _, cpus in ranked) != online:
        return ()
    found: list[tuple[int, CPUSet]] = []
    for rank, cpus in sorted(ranked, key=lambda each: (-each[0], each[1].mask)):
        # Cores of one kind may differ by a few per cent, as the firmware favours some of them.
        if found and rank >= found[-1][0] * _SAME:
            found[-1] = (rank, found[-1][1] | cpus)
        else:
            found.append((rank, cpus))
    if len(found) < 2:
        return ()
    names = ["performance", *["middle"] * (len(found) - 2), "efficient"]
    return tuple(Kind(name, rank * 1024 // found[0][0], cpus) for name, (rank, cpus) in zip(names, found, strict=True))


def _distances(root: _Object, machine: _Object, nodes: list[_Object], depth: int) -> dict[int, dict[int, int]]:
    """Return the firmware's distances from node to node; empty if they are missing, or do not fit."""
    by_gp = {each.attributes.get("gp_index"): each.index for each in nodes}
    for each in root.of("distances2"):
        if each.attributes.get("type") != "NUMANode" or each.attributes.get("name", "NUMALatency") != "NUMALatency":
            continue
        words = " ".join(part.text for part in each.of("indexes")).split()
        by_os = each.attributes.get("indexing", "os") == "os"
        ids = [_number(word) if by_os else by_gp.get(word) for word in words]
        values = [_number(word) for word in " ".join(part.text for part in each.of("u64values")).split()]
        return _square(ids, values)
    for each in machine.of("distances"):
        # Format 1: multiples of a base, for the objects of a level in their logical order, which is that of the tree.
        if each.attributes.get("relative_depth") == str(depth):
            base = _decimal(each.attributes.get("latency_base"))
            told = [_decimal(one.attributes.get("value")) for one in each.of("latency")]
            values = [None if base is None or one is None else round(base * one) for one in told]
            return _square([node.index for node in nodes], values)
    return {}


def _square(ids: list[int | None], values: list[int | None]) -> dict[int, dict[int, int]]:
    known = [id for id in ids if id is not None]
    told = [value for value in values if value is not None]
    if not known or len(set(known)) != len(ids) or len(told) != len(values) or len(told) != len(ids) ** 2:
        return {}
    rows = (told[row * len(known) : (row + 1) * len(known)] for row in range(len(known)))
    return {id: dict(zip(known, row, strict=True)) for id, row in zip(known, rows, strict=True)}


def _mask(text: str) -> CPUSet:
    """Return a mask as hwloc prints it: words of 32 bits, highest first, 0 left out; `0xf...f` at the front for all
    above.
    """
    words = text.split(",")
    if len(words) > _MOST_WORDS:
        raise _no_mask(text)
    is_endless = words[0] == "0xf...f"
    value = 0
    try:
        for word in words[1:] if is_endless else words:
            value = value << 32 | _word(word, 10 if len(words) > 1 else len(text))
        if is_endless:
            value |= _ALL.mask >> 32 * (len(words) - 1) << 32 * (len(words) - 1)
        return CPUSet.from_mask(value)
    except (ValueError, CPUSetError) as error:
        raise _no_mask(text) from error


def _no_mask(text: str) -> StateError:
    shown = repr(text) if len(text) <= 60 else repr(text[:57]) + "..."
    return StateError(f"hwloc's XML has {shown}, which is not a mask of CPUs 0 to {MAX_CPU}")


def _word(text: str, longest: int) -> int:
    if text and (len(text) > longest or not _HEX.fullmatch(text)):
        raise ValueError(text)
    return int(text, 16) if text else 0


def _number(text: str | None) -> int | None:
    """Return a number below 2**63; None if it is missing, or unknown (4294967295)."""
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 18 or text == "4294967295":
        return None
    return int(text)


def _decimal(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) else None


def _tree(text: str) -> _Object:
    """Return the elements of a document that contains nothing but elements."""
    if len(text) > LIMIT:
        raise StateError(f"{len(text)} characters are too many to be a machine in hwloc's XML")
    parser = expat.ParserCreate()
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.buffer_text = True
    top = _Object("", {})
    open_now = [top]
    count = 0

    def starts(name: str, attributes: Mapping[str, str]) -> None:
        nonlocal count
        count += 1
        if len(open_now) > DEPTH or count > OBJECTS:
            raise StateError("it is not hwloc's XML: no machine has so many objects, or so deep")
        made = _Object(name, dict(attributes))
        open_now[-1].below.append(made)
        open_now.append(made)

    def ends(_: str) -> None:
        open_now.pop()

    def holds(text: str) -> None:
        open_now[-1].text += text

    def has_type(_name: str, _system: str | None, _public: str | None, has_own: int) -> None:
        # hwloc names hwloc.dtd, which is not fetched. A document with its own declarations is an attack on the reader.
        if has_own:
            raise StateError("it is not hwloc's XML: it declares a document type of its own")

    def refuses(*_: object) -> int:
        raise StateError("it is not hwloc's XML: it declares or names an entity")

    parser.StartElementHandler = starts
    parser.EndElementHandler = ends
    parser.CharacterDataHandler = holds
    parser.StartDoctypeDeclHandler = has_type
    parser.EntityDeclHandler = refuses
    parser.ExternalEntityRefHandler = refuses
    parser.SkippedEntityHandler = refuses
    try:
        parser.Parse(text, True)  # noqa: FBT003 # pyexpat takes it by position alone
    except (expat.ExpatError, UnicodeError) as error:
        raise StateError(f"it is not hwloc's XML: {error}") from error
    return top.below[0]
