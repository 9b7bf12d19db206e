"""Make one level of a machine out of what a foreign description says of it: each online CPU in exactly one group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from state.cpuset import EMPTY, CPUSet, union
from state.topology import CacheLevel, Group

Told = tuple[int | None, CPUSet]
"""A group as a document tells it: its id, None where it has none, and its CPUs, online or not."""


def completed(told: Iterable[Told], online: CPUSet, level: str, notes: list[str]) -> dict[int, CPUSet]:
    """The groups by id, with each online CPU once; {}, with a note, where none is told.

    1. Of two groups that name a CPU the narrower has it, then the lower: a node without CPUs of its own may name
       those that are near it.
    2. Ids that are missing or repeat are replaced by the lowest CPU of each group, for the whole level.
    3. CPUs in no group go to the lowest.
    """
    kept = _apart(told, online, level, notes)
    found = numbered(kept)
    if not found:
        notes.append(f"{level}s are not told: the next larger level counts instead")
        return {}
    if untold := online - union(found.values()):
        lowest = min(found)
        notes.append(f"CPUs {untold} are in no {level}: counted in {level} {lowest}")
        found[lowest] |= untold
    return found


def numbered(groups: Iterable[Told]) -> dict[int, CPUSet]:
    """Groups without a CPU in common, by their ids; all by their lowest CPUs where an id is missing or repeats."""
    kept = list(groups)
    repeated = Counter(id for id, _ in kept)
    if None in repeated or any(count > 1 for count in repeated.values()):
        return {cpus.lowest(): cpus for _, cpus in kept}
    return {id: cpus for id, cpus in kept if id is not None}


def levels_of(told: Mapping[int, Iterable[Told]], online: CPUSet, notes: list[str]) -> tuple[CacheLevel, ...]:
    """The caches of each level, from level 1 upwards."""
    made = []
    for level, caches in sorted(told.items()):
        found = numbered(_apart(caches, online, f"level {level} cache", notes))
        groups = sorted((Group(id, cpus) for id, cpus in found.items()), key=lambda group: group.cpus.lowest())
        if groups:
            made.append(CacheLevel(level, tuple(groups)))
    return tuple(made)


def last_level(
    levels: tuple[CacheLevel, ...],
    packages: Mapping[int, CPUSet],
    cores: list[CPUSet],
    online: CPUSet,
    notes: list[str],
) -> list[CPUSet] | dict[int, CPUSet]:
    """The largest cache of each CPU at level 2 or beyond: a level 1 cache is a core's own, and tells nothing.

    By id where all are of one level; CPUs without one share a cache with those of their package that have none
    either. Nothing, with a note, where no cache is told, or none beyond those that each core has for itself: they
    tell nothing that the cores do not, and below level 3 are no last-level caches to the kubelet either.
    """
    found: list[tuple[int, Group]] = []
    left = online
    for each in sorted(levels, key=lambda each: -each.level):
        if each.level >= 2:
            found += [(each.level, Group(group.id, cpus)) for group in each.groups if (cpus := group.cpus & left)]
            left = online - union(group.cpus for _, group in found)
    private = {core.mask for core in cores}
    is_shared = any(level >= 3 or group.cpus.mask not in private for level, group in found)
    if not is_shared and (len(cores) > 1 or not found):
        notes.append("no cache is told that cores share: each package counts as one")
        return []
    if not left and len({level for level, _ in found}) == 1:
        return {group.id: group.cpus for _, group in found}
    if left:
        notes.append(f"caches are not told for CPUs {left}: those of one package count as one")
    # Ids count at one level only: level 2 may have a cache 0 as well as level 3.
    return [group.cpus for _, group in found] + [
        alone for package in (packages or {0: online}).values() if (alone := package & left)
    ]


def between(
    told: Iterable[Told], cores: list[CPUSet], packages: Mapping[int, CPUSet], online: CPUSet
) -> tuple[Group, ...]:
    """A level between cores and packages, by lowest CPU; none where it does not hold every CPU once, in whole cores,
    or is the cores or the packages again.
    """
    groups = {cpus & online for _, cpus in told} - {EMPTY}
    is_whole = all(core <= group or core.isdisjoint(group) for core in cores for group in groups)
    is_again = groups in (set(cores), set(packages.values()), {online})
    if not is_whole or is_again or union(groups) != online or sum(map(len, groups)) != len(online):
        return ()
    return tuple(sorted((Group(cpus.lowest(), cpus) for cpus in groups), key=lambda group: group.id))


def _apart(told: Iterable[Told], online: CPUSet, level: str, notes: list[str]) -> list[Told]:
    """The groups with online CPUs, none of which is in two."""
    given = [(id, cpus & online) for id, cpus in told]
    kept, taken, disputed = [], EMPTY, EMPTY
    for id, cpus in sorted(given, key=lambda each: (len(each[1]), -1 if each[0] is None else each[0], each[1].mask)):
        if own := cpus - taken:
            # A group that is a repetition, or only names what others have, is no group of its own.
            disputed |= cpus & taken
            kept.append((id, own))
        taken |= cpus
    if disputed:
        notes.append(f"CPUs {disputed} are in more than one {level}: the smallest that names them has them")
    return sorted(kept, key=lambda each: each[1].lowest())
