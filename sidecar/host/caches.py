"""The caches of a machine, level by level, and the last of them, which placement goes by.

1. Of each CPU the directories index0, index1, ... are read, each a cache with a level and a type; instruction caches
   are passed over. An index, or a level, that a lower CPU's list shares with this CPU is not read again.
2. A cache that says who shares it, and names nobody at all, is its core's own: old Itaniums say so. One that names
   others, and not the CPU itself, is not believed.
3. The last-level cache of a CPU is the one of its highest level. Where nowhere a cache is told that several cores
   share, and none of level 3 either, the caches tell nothing that the cores do not: each package counts as one, which
   is what the kubelet assumes too.
4. Ids are the kernel's where it tells them for a whole level, each once; else the lowest CPUs.
"""

from __future__ import annotations

from typing import Final

import msgspec

from sidecar.host.files import numbered
from sidecar.host.told import Told, say_disputed
from state.cpuset import CPUSet, union
from state.topology import CacheLevel, Group

_MAX_INDEX: Final = 15
"""Caches of one CPU that are looked at: real ones have up to five."""

_MAX_LEVEL: Final = 9

_LAST_LEVELS: Final = 3
"""From this level on a cache counts as a last-level one even where it is one core's own, as for the kubelet."""


class _Cache(msgspec.Struct, frozen=True):
    cpus: CPUSet
    at: str


class _Level(msgspec.Struct):
    """The caches of one level, while they are found."""

    caches: list[_Cache]
    covered: int = 0
    disputed: int = 0


def cache_levels(told: Told, cpu_dir: str, online: CPUSet, cores: list[CPUSet]) -> tuple[CacheLevel, ...]:
    """The data and unified caches of each level; none where none are told."""
    levels: dict[int, _Level] = {}
    # 1. By index, the CPUs that some lower CPU's cache of that index is shared with.
    shared_at: dict[int, int] = {}
    # The kernel numbers data before instructions, so an index and a level have one type on all CPUs.
    types: dict[tuple[int, int], str | None] = {}
    value = told.files.value
    # A directory that tells no level is as good as not there: a record does not have it.
    first = f"{cpu_dir}/cpu{online.lowest()}/cache"
    listed = (n for n in numbered(told.files, first, "index") if n <= _MAX_INDEX)
    known = max((n for n in listed if value(f"{first}/index{n}/level") is not None), default=-1)
    for cpu in online:
        bit = 1 << cpu
        if levels and all(level.covered & bit for level in levels.values()):
            continue
        for index in range(_MAX_INDEX + 1):
            if shared_at.get(index, 0) & bit:
                continue
            at = f"{cpu_dir}/cpu{cpu}/cache/index{index}"
            text = value(f"{at}/level")
            if text is None:
                # Past what the first CPU has, the first gap is the end.
                if index > known:
                    break
                continue
            number = int(text) if text.isdigit() and len(text) == 1 else 0
            level = levels.get(number)
            if not 1 <= number <= _MAX_LEVEL or (level and level.covered & bit):
                continue
            if types.get((index, number)) is None:
                types[index, number] = value(f"{at}/type")
            if types[index, number] == "Instruction":
                continue
            if (sharing := _sharing(told, at, cpu, cores)) is None:
                continue
            level = levels.setdefault(number, _Level([]))
            mask = (sharing.mask | bit) & online.mask
            shared_at[index] = shared_at.get(index, 0) | mask
            level.disputed |= mask & level.covered
            mask &= ~level.covered
            level.covered |= mask
            level.caches.append(_Cache(CPUSet.from_mask(mask), at))
    for number in sorted(levels):
        say_disputed(told, f"level {number} cache", CPUSet.from_mask(levels[number].disputed))
    highest = max(levels, default=0)
    return tuple(
        CacheLevel(number, _identified(told, levels[number].caches, ask=number >= min(_LAST_LEVELS, highest)))
        for number in sorted(levels)
    )


def last_level(
    told: Told, levels: tuple[CacheLevel, ...], online: CPUSet, cores: list[CPUSet], packages: dict[int, CPUSet] | None
) -> dict[int, CPUSet] | None:
    """The last-level caches by id, each CPU in one; None where they tell nothing."""
    beyond = [level for level in levels if level.level >= 2]
    if not beyond:
        told.note(f"caches are missing: {'each package' if packages else 'the machine'} counts as one")
        return None
    # 3.
    private = {core.mask for core in cores}
    if beyond[-1].level < _LAST_LEVELS and len(cores) > 1 and all(g.cpus.mask in private for g in beyond[-1].groups):
        told.note(f"no cache is told that cores share: {'each package' if packages else 'the machine'} counts as one")
        return None
    found: list[Group] = []
    left = online.mask
    for level in reversed(beyond):
        found += (Group(each.id, CPUSet.from_mask(m)) for each in level.groups if (m := each.cpus.mask & left))
        left &= ~union(group.cpus for group in level.groups).mask
    by_kernel = left == 0 and len(found) == len(beyond[-1].groups)
    if left:
        untold = CPUSet.from_mask(left)
        told.note(f"caches are not told for CPUs {untold}: those of one package count as one")
        parts = (package & untold for package in (packages or {0: online}).values())
        found += (Group(part.lowest(), part) for part in parts if part)
    return {group.id if by_kernel else group.cpus.lowest(): group.cpus for group in found}


def _sharing(told: Told, at: str, cpu: int, cores: list[CPUSet]) -> CPUSet | None:
    if sharing := told.naming(cpu, at, ("shared_cpu_list",), ("shared_cpu_map",)):
        return sharing
    # 2.
    named = told.cpus(f"{at}/shared_cpu_list"), told.mask(f"{at}/shared_cpu_map")
    if named == (None, None) or any(named):
        return None
    return next(core for core in cores if cpu in core)


def _identified(told: Told, caches: list[_Cache], *, ask: bool) -> tuple[Group, ...]:
    """4. The caches as groups, ascending by lowest CPU. `ask` is whether to look for the kernel's ids at all."""
    ids = [told.number(f"{cache.at}/id") for cache in caches] if ask else []
    kernels = [id for id in ids if id is not None]
    if len(set(kernels)) != len(caches):
        kernels = [cache.cpus.lowest() for cache in caches]
    made = (Group(id, cache.cpus) for id, cache in zip(kernels, caches, strict=True))
    return tuple(sorted(made, key=lambda group: group.cpus.lowest()))
