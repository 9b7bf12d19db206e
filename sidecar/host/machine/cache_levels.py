"""The caches of a machine, level by level.

1. For each CPU the directories index0, index1, ... are read, each a cache with a level and a type; instruction caches
   are skipped. An index, or a level, that a lower CPU's list shares with this CPU is not read again.
2. A cache with an empty list of sharers is its core's own: old Itaniums report that. A list that names other CPUs, and
   not the CPU itself, is ignored.
3. Ids are the kernel's if it reports them for a whole level, each once; else the lowest CPUs.
"""

from __future__ import annotations

from typing import Final

import msgspec

from sidecar.host.machine.group_levels import LAST_LEVELS
from sidecar.host.machine.sources import numbered
from sidecar.host.machine.values import MachineFiles, say_disputed
from state.cpuset import CPUSet
from state.topology import CacheLevel, Group

_MAX_INDEX: Final = 15
"""Caches of one CPU that are read: real ones have up to five."""

_TYPES: Final = (None, "Data", "Instruction", "Unified", "Unknown")
"""What the kernel calls a cache (drivers/base/cacheinfo.c); None: it does not say."""

_MAX_LEVEL: Final = 9


class _Cache(msgspec.Struct, frozen=True):
    cpus: CPUSet
    at: str


class _Level(msgspec.Struct):
    """The caches of one level, while they are collected."""

    caches: list[_Cache]
    covered: int = 0
    disputed: int = 0


def cache_levels(told: MachineFiles, cpu_dir: str, online: CPUSet, cores: list[CPUSet]) -> tuple[CacheLevel, ...]:
    """Return the data and unified caches of each level; none if none are reported."""
    levels: dict[int, _Level] = {}
    # 1. By index, the CPUs that share a lower CPU's cache of that index.
    shared_at: dict[int, int] = {}
    # The kernel numbers data before instructions, so an index and a level have one type on all CPUs.
    types: dict[tuple[int, int], str | None] = {}
    value = told.files.value
    # A directory without a level counts as missing: a record does not have it.
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
                # Beyond the first CPU's last one, the first gap is the end.
                if index > known:
                    break
                continue
            number = int(text) if text.isdigit() and len(text) == 1 else 0
            level = levels.get(number)
            if not 1 <= number <= _MAX_LEVEL:
                told.note_ignored(f"{at}/level", f"{text[:40]!r} is not the level of a cache")
                continue
            if level and level.covered & bit:
                continue
            if types.get((index, number)) is None:
                kind = types[index, number] = value(f"{at}/type")
                if kind not in _TYPES:
                    told.note_ignored(f"{at}/type", f"{(kind or '')[:40]!r} is not the type of a cache")
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
        CacheLevel(number, _identified(told, levels[number].caches, ask=number >= min(LAST_LEVELS, highest)))
        for number in sorted(levels)
    )


def _sharing(told: MachineFiles, at: str, cpu: int, cores: list[CPUSet]) -> CPUSet | None:
    if sharing := told.naming(cpu, at, ("shared_cpu_list",), ("shared_cpu_map",)):
        return sharing
    # 2.
    named = told.cpus(f"{at}/shared_cpu_list"), told.mask(f"{at}/shared_cpu_map")
    if named == (None, None) or any(named):
        return None
    return next(core for core in cores if cpu in core)


def _identified(told: MachineFiles, caches: list[_Cache], *, ask: bool) -> tuple[Group, ...]:
    """Return the caches as groups, ascending by lowest CPU (3). `ask`: whether to look for the kernel's ids at all."""
    ids = [told.number(f"{cache.at}/id") for cache in caches] if ask else []
    kernels = [id for id in ids if id is not None]
    if len(set(kernels)) != len(caches):
        kernels = [cache.cpus.lowest() for cache in caches]
    made = (Group(id, cache.cpus) for id, cache in zip(kernels, caches, strict=True))
    return tuple(sorted(made, key=lambda group: group.cpus.lowest()))
