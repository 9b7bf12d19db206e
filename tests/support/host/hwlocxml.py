"""Machines as hwloc writes them: the XML of its formats 1 and 2, from a Topology."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from xml.sax.saxutils import quoteattr

from state.cpuset import CPUSet
from state.topology import Group, Topology


def mask(cpus: CPUSet) -> str:
    """Write a mask as hwloc does: words of 32 bits, highest first; a word of zeros is empty, except the last."""
    words = []
    value = cpus.mask
    while value:
        words.append(value & 0xFFFFFFFF)
        value >>= 32
    shown = [f"0x{word:08x}" if word else "" for word in reversed(words)]
    return ",".join([*shown[:-1], shown[-1] or "0x0"]) if shown else "0x0"


def element(name: str, /, *below: str, **attributes: object) -> str:
    """Return one element with its children."""
    told = "".join(f" {key}={quoteattr(str(value))}" for key, value in attributes.items())
    return f"<{name}{told}>{''.join(below)}</{name}>" if below else f"<{name}{told}/>"


def thing(type: str, cpus: CPUSet, /, *below: str, **attributes: object) -> str:  # noqa: A002 - hwloc's word
    """Return an object that has CPUs."""
    return element("object", *below, type=type, cpuset=mask(cpus), complete_cpuset=mask(cpus), **attributes)


def document(*below: str, format: int = 2) -> str:  # noqa: A002 - hwloc's word
    """Return the file around the objects."""
    version = {"version": "2.0"} if format == 2 else {}
    name = "hwloc2.dtd" if format == 2 else "hwloc.dtd"
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "{name}">\n'
    return head + element("topology", *below, **version)


Level = tuple[Sequence[Group], Callable[[Group, list[str]], str]]


def _nested(cpus: CPUSet, levels: Sequence[Level]) -> list[str]:
    """Return the objects of the first level that lie within `cpus`, with those of the next level in them, and so on."""
    if not levels:
        return []
    groups, made = levels[0]
    return [made(group, _nested(group.cpus, levels[1:])) for group in groups if group.cpus <= cpus]


def _pus(core: CPUSet, online: CPUSet) -> list[str]:
    return [thing("PU", CPUSet.of(cpu) & online, os_index=cpu) for cpu in core]


def format1(machine: Topology) -> str:
    """Write packages within nodes; caches by depth; the online CPUs in a mask of the root."""

    def core(group: Group, _: list[str]) -> str:
        return thing("Core", group.cpus, *_pus(group.cpus, machine.online), os_index=group.id % 3)

    levels: list[Level] = [
        (machine.nodes, lambda group, below: thing("NUMANode", group.cpus, *below, os_index=group.id, local_memory=9)),
        (machine.packages, lambda group, below: thing("Socket", group.cpus, *below, os_index=group.id)),
        (machine.caches, lambda group, below: thing("Cache", group.cpus, *below, depth=3, cache_type=0)),
        (machine.cores, lambda group, _: thing("Cache", group.cpus, core(group, []), depth=1, cache_type=1)),
    ]
    every = machine.online | machine.offline
    squares = [element("latency", value=f"{d / 10:.6f}") for row in machine.distances.values() for d in row.values()]
    distances = element("distances", *squares, nbobjs=len(machine.nodes), relative_depth=1, latency_base="10.000000")
    return document(
        element(
            "object",
            *([distances] if squares else []),
            *_nested(machine.online, levels),
            type="Machine",
            os_index=0,
            cpuset=mask(machine.online),
            complete_cpuset=mask(every),
            online_cpuset=mask(machine.online),
            allowed_cpuset=mask(every),
        ),
        format=1,
    )


def format2(machine: Topology) -> str:
    """Write nodes next to the objects that they are the memory of; a type for each level of cache; the rest by the
    complete mask.
    """

    def core(group: Group, _: list[str]) -> str:
        inner = thing("Core", group.cpus, *_pus(group.cpus, machine.online), os_index=group.id % 3)
        return thing("L1Cache", group.cpus, thing("L1iCache", group.cpus, inner, os_index=7))

    nodes = [
        thing("NUMANode", group.cpus, element("page_type", size=4096), os_index=group.id, local_memory=1 << 30)
        for group in machine.nodes
    ]
    levels: list[Level] = [
        (machine.packages, lambda group, below: thing("Package", group.cpus, *below, os_index=group.id)),
        (machine.dies or machine.packages, lambda group, below: thing("Die", group.cpus, *below)),
        (machine.caches, lambda group, below: thing("L3Cache", group.cpus, *below, os_index=group.id)),
        (machine.cores, core),
    ]
    every = machine.online | machine.offline
    root = element(
        "object",
        *nodes,
        *_nested(machine.online, levels),
        type="Machine",
        cpuset=mask(machine.online),
        complete_cpuset=mask(every),
        allowed_cpuset=mask(machine.online),
    )
    ids = " ".join(str(id) for id in machine.distances)
    values = " ".join(str(d) for row in machine.distances.values() for d in row.values())
    distances = element(
        "distances2",
        element("indexes", ids, length=len(ids)),
        element("u64values", values, length=len(values)),
        type="NUMANode",
        nbobjs=len(machine.distances),
        kind=5,
        name="NUMALatency",
        indexing="os",
    )
    kinds = [
        element("cpukind", element("info", name="LinuxCapacity", value=kind.capacity), cpuset=mask(kind.cpus))
        for kind in reversed(machine.kinds)
    ]
    return document(root, *([distances] if ids else []), element("support", name="discovery.pu"), *kinds)
