"""Our reading of a machine against hwloc's sets and lscpu's counts. hwloc is right more often: it comes first."""

from __future__ import annotations

from collections.abc import Iterator

from state.cpuset import EMPTY, CPUSet
from tests.machines import reasons
from tests.machines.case import Case, Deviation, given, sets, shown


def compared(case: Case) -> Iterator[Deviation]:
    """Yield the differences between our reading and theirs."""
    if hwloc := case.expected.get("hwloc"):
        yield from _cores(case, given(hwloc.get("core", [])))
        yield from _packages(case, given(hwloc.get("package", [])))
        yield from _nodes(case, {int(id): CPUSet(cpus) for id, cpus in hwloc.get("numa", {}).items()})
        yield from _caches(case, 3, given(hwloc.get("l3", [])))
        yield from _dies(case, given(hwloc.get("die", [])))
        yield from _counts(case, hwloc.get("counts", {}))
    if lscpu := case.expected.get("lscpu"):
        yield from _lscpu(case, lscpu)


def _cores(case: Case, theirs: set[CPUSet]) -> Iterator[Deviation]:
    ours = sets(case.topology.cores)
    if ours == theirs:
        return
    silent = reasons.untold(case, reasons.CORE_FILES)
    reason = ""
    if theirs and reasons.are_modules(case, ours, theirs):
        reason = reasons.MODULES
    elif silent and reasons.without(ours, silent) == reasons.without(theirs, silent):
        reason = reasons.UNTOLD
    elif reasons.contradicts(case, reasons.CORE_FILES):
        reason = reasons.CONTRADICTION
    yield _differ("cores", ours, theirs, reason)


def _packages(case: Case, theirs: set[CPUSet]) -> Iterator[Deviation]:
    ours = sets(case.topology.packages)
    if ours == theirs:
        return
    silent = reasons.untold(case, reasons.PACKAGE_FILES)
    reason = ""
    if silent and reasons.without(ours, silent) == reasons.without(theirs, silent):
        reason = reasons.UNTOLD
    elif reasons.packages_contradict(case):
        reason = reasons.CONTRADICTION
    yield _differ("packages", ours, theirs, reason)


def _nodes(case: Case, theirs: dict[int, CPUSet]) -> Iterator[Deviation]:
    ours = {group.id: group.cpus for group in case.topology.nodes}
    if ours == theirs:
        return
    told = case.nodes()
    torn = reasons.torn_nodes(case)
    # Memory-only nodes, as the kernel reports them, may have any CPUs, or be missing.
    theirs_with_cpus = {id: cpus for id, cpus in theirs.items() if told.get(id) != EMPTY}
    reason = ""
    if not any(told.values()):
        reason = reasons.NO_NODES if set(theirs.values()) <= {case.topology.online} else ""
    elif ours == theirs_with_cpus:
        reason = reasons.WITHOUT_CPUS
    elif torn and all(ours.get(id, EMPTY) - torn == theirs_with_cpus.get(id, EMPTY) - torn for id in {*ours, *theirs}):
        reason = reasons.IN_NO_NODE
    different = sorted(id for id in {*ours, *theirs} if ours.get(id) != theirs.get(id))
    here, there = ({id: str(nodes[id]) for id in different[:8] if id in nodes} for nodes in (ours, theirs))
    yield Deviation(f"nodes: {here or 'none'} here, hwloc says {there or 'none'}", reason)


def _caches(case: Case, level: int, theirs: set[CPUSet]) -> Iterator[Deviation]:
    ours = _at_level(case, level)
    if ours == theirs:
        return
    yield _differ(f"level {level} caches", ours, theirs, _why_caches(case, level))


def _dies(case: Case, theirs: set[CPUSet]) -> Iterator[Deviation]:
    ours = sets(case.topology.dies)
    # Dies equal to the packages are no level of their own.
    if ours == theirs or (not ours and theirs == sets(case.topology.packages)):
        return
    reason = reasons.CONTRADICTION if reasons.contradicts(case, reasons.DIE_FILES) else ""
    yield _differ("dies", ours, theirs, reason)


def _counts(case: Case, counts: dict[str, int]) -> Iterator[Deviation]:
    if (theirs := counts.get("PU")) is not None and theirs != len(case.topology.online):
        yield Deviation(f"{len(case.topology.online)} CPUs are online, hwloc says {theirs}")
    for level in (1, 2, 4):
        # hwloc counts data and unified caches, as we do; it does not count levels that it was not asked for.
        theirs = counts.get(f"L{level}Cache")
        ours = len(_at_level(case, level))
        if theirs is not None and theirs != ours:
            text = f"{ours} level {level} caches, hwloc says {theirs}"
            yield Deviation(text, _why_caches(case, level))


def _lscpu(case: Case, counts: dict[str, int]) -> Iterator[Deviation]:
    machine = case.topology
    hwloc = case.expected.get("hwloc") or {}
    ours = {
        "cpus": (len(machine.online), hwloc.get("counts", {}).get("PU")),
        "cores": (len(machine.cores), len(hwloc["core"]) if "core" in hwloc else None),
        "sockets": (len(machine.packages), len(hwloc["package"]) if "package" in hwloc else None),
        "nodes": (len(machine.nodes), len(hwloc["numa"]) if "numa" in hwloc else None),
    }
    for name, (count, by_hwloc) in ours.items():
        theirs = counts.get(name)
        if theirs is None or theirs == count:
            continue
        reason = ""
        if name == "nodes" and theirs == 0 and not any(case.nodes().values()):
            reason = reasons.NO_NODES
        elif by_hwloc == count:
            reason = reasons.OTHER_PROGRAM
        elif name == "nodes" and theirs == len(case.nodes()):
            reason = reasons.WITH_CPULESS_NODES
        elif name == "cpus" and theirs == len(machine.online | machine.offline):
            reason = reasons.WITH_OFFLINE
        elif name in ("cores", "sockets") and reasons.is_by_clusters(case):
            reason = reasons.BY_CLUSTER
        elif name in ("cores", "sockets") and _is_silent(case, name):
            reason = reasons.UNTOLD
        yield Deviation(f"{count} {name}, lscpu says {theirs}", reason)


def _is_silent(case: Case, name: str) -> bool:
    return bool(reasons.untold(case, reasons.CORE_FILES if name == "cores" else reasons.PACKAGE_FILES))


def _at_level(case: Case, level: int) -> set[CPUSet]:
    return {group.cpus for each in case.topology.cache_levels if each.level == level for group in each.groups}


def _why_caches(case: Case, level: int) -> str:
    if not case.indexes(0):
        return reasons.DEVICE_TREE
    if reasons.caches_contradict(case, level):
        return reasons.CONTRADICTION
    return ""


def _differ(level: str, ours: set[CPUSet], theirs: set[CPUSet], reason: str) -> Deviation:
    return Deviation(f"{level}: {shown(ours - theirs)} here, hwloc says {shown(theirs - ours)}", reason)
