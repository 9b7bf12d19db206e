"""What must hold for every machine, whatever others report: it is read, survives its record, and its levels are
lawful.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from sidecar.host.machine.record import read_record, record, unpack
from sidecar.host.machine.sysfs import read_topology
from state.cpuset import CPUSet, union
from state.topology import Group, Topology
from tests.machines.case import Case, Deviation, shown
from tests.machines.reasons import (
    CLUSTER_FILES,
    CONTRADICTION,
    CORE_FILES,
    DIE_FILES,
    PACKAGE_FILES,
    caches_contradict,
    contradicts,
    packages_contradict,
)

_PARTITIONS = ("cores", "caches", "nodes", "packages")
_FILES = {"core": CORE_FILES, "cluster": CLUSTER_FILES, "die": DIE_FILES, "package": PACKAGE_FILES}


def _is_like(recorded: Topology, machine: Topology) -> bool:
    return set(recorded.notes) <= set(machine.notes) and replace(recorded, notes=machine.notes) == machine


def round_trip(root: Path, machine: Topology) -> Iterator[Deviation]:
    """Check that a record of the machine is the machine, and unpacked gives the same bytes again. A record leaves out
    what is not one line of text, so it may have fewer notes.
    """
    text = record(root)
    if not _is_like(read_record(text), machine):
        yield Deviation("the record is not read as the machine is")
    with tempfile.TemporaryDirectory() as directory:
        unpack(text, directory)
        if not _is_like(read_topology(directory), machine):
            yield Deviation("the unpacked record is not read as the machine is")
        if record(directory) != text:
            yield Deviation("the unpacked record is recorded as other bytes")


def lawful(case: Case) -> Iterator[Deviation]:
    """Check that each level that every machine has holds each online CPU once; the others at most once; and they are
    nested.
    """
    machine = case.topology
    for level in _PARTITIONS:
        yield from _once(level, getattr(machine, level), machine.online, whole=True)
    for level in ("clusters", "dies"):
        yield from _once(level, getattr(machine, level), machine.online, whole=bool(getattr(machine, level)))
    for each in machine.cache_levels:
        yield from _once(f"level {each.level} caches", each.groups, machine.online, whole=False)
    levels = {
        "core": machine.cores,
        "cluster": machine.clusters,
        "die": machine.dies,
        "package": machine.packages,
    }
    for inner, outer in (
        ("core", "cluster"),
        ("core", "die"),
        ("core", "package"),
        ("cluster", "die"),
        ("cluster", "package"),
        ("die", "package"),
    ):
        for group in _crossing(levels[inner], levels[outer]):
            is_torn = contradicts(case, _FILES[inner]) or contradicts(case, _FILES[outer]) or packages_contradict(case)
            reason = CONTRADICTION if is_torn else ""
            yield Deviation(f"the {inner} {shown([group])} is in more than one {outer}", reason)
    for smaller, larger in zip(machine.cache_levels, machine.cache_levels[1:], strict=False):
        for group in _crossing(smaller.groups, larger.groups):
            is_torn = caches_contradict(case, smaller.level) or caches_contradict(case, larger.level)
            reason = CONTRADICTION if is_torn else ""
            yield Deviation(f"the level {smaller.level} cache {shown([group])} is in several of the next level", reason)
    if not machine.isolated <= machine.online or not machine.offline.isdisjoint(machine.online):
        yield Deviation("isolated CPUs that are not online, or offline ones that are")


def _once(level: str, groups: Iterable[Group], online: CPUSet, *, whole: bool) -> Iterator[Deviation]:
    held = list(groups)
    if sum(len(group.cpus) for group in held) != len(union(group.cpus for group in held)):
        yield Deviation(f"a CPU is in two {level}")
    if whole and union(group.cpus for group in held) != online:
        yield Deviation(f"the {level} do not hold every online CPU")
    if len({group.id for group in held}) != len(held) or not all(group.cpus for group in held):
        yield Deviation(f"the {level} have an id twice, or an empty group")


def _crossing(inner: Iterable[Group], outer: Iterable[Group]) -> list[CPUSet]:
    """Return the inner groups that are in more than one outer one. A part that no outer group holds does not count."""
    held = list(outer)
    return [group.cpus for group in inner if sum(not group.cpus.isdisjoint(each.cpus) for each in held) > 1]
