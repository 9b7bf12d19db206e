"""Levels of a machine, from any source: the last-level caches; and, for foreign descriptions, each online CPU in
exactly one group of a level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from sidecar.words.counts import agree, named
from state.cpuset import EMPTY, CPUSet, union
from state.topology import CacheLevel, Group

LAST_LEVELS: Final = 3
"""From this level on a cache counts as a last-level one even if it belongs to one core, as in the kubelet."""

Told = tuple[int | None, CPUSet]
"""A group in a document: its id, None if it has none, and its CPUs, online or not."""


def completed(told: Iterable[Told], online: CPUSet, level: str, notes: list[str]) -> dict[int, CPUSet]:
    """Return the groups by id, with each online CPU once; {}, with a note, if there are none.

    1. If two groups name a CPU the narrower has it, then the lower: a node without CPUs of its own may name those that
    are
      near it.
    2. Ids that are missing or repeat are replaced by the lowest CPU of each group, for the whole level.
    3. CPUs in no group go to the lowest.
    """
    kept = _apart(told, online, level, notes)
    found = numbered(kept)
    if not found:
        notes.append(f"{level}s are unknown: the next larger level is used instead")
        return {}
    if untold := online - union(found.values()):
        lowest = min(found)
        notes.append(f"{named(untold)} {agree(len(untold), 'is', 'are')} in no {level}: counted in {level} {lowest}")
        found[lowest] |= untold
    return found


def numbered(groups: Iterable[Told]) -> dict[int, CPUSet]:
    """Return disjoint groups by their IDs; all by their lowest CPUs if an ID is missing or repeats."""
    kept = list(groups)
    repeated = Counter(id for id, _ in kept)
    if None in repeated or any(count > 1 for count in repeated.values()):
        return {cpus.lowest(): cpus for _, cpus in kept}
    return {id: cpus for id, cpus in kept if id is not None}


def levels_of(told: Mapping[int, Iterable[Told]], online: CPUSet, notes: list[str]) -> tuple[CacheLevel, ...]:
    """Return the caches of each level, from level 1 upwards."""
    made = []
    for level, caches in sorted(told.items()):
        found = numbered(_apart(caches, online, f"level {level} cache", notes))
        groups = sorted((Group(id, cpus) for id, cpus in found.items()), key=lambda group: group.cpus.lowest())
        if groups:
            made.append(CacheLevel(level, tuple(groups)))
    return tuple(made)


def last_level(
    levels: tuple[CacheLevel, ...],
    packages: Mapping[int, CPUSet] | None,
    cores: list[CPUSet],
    online: CPUSet,
    note: Callable[[str], None],
) -> dict[int, CPUSet] | None:
    """Return the last-level caches by id, each CPU in one: for each CPU the one of its highest level, at level 2 or
    beyond.

    Return None, with a note, if no cache is shared by several cores, and none is of level 3: such caches add nothing to
    the cores, and each package counts as one cache, as in the kubelet. CPUs without a cache share one with those of
    their package that have none either. Ids are the lowest CPUs unless all are of one level: the kernel's are unique
    per level.
    """
    instead = f"{'each package' if packages else 'the machine'} counts as one"
    beyond = [level for level in levels if level.level >= 2]
    if not beyond:
        note(f"caches are missing: {instead}")
        return None
    highest, private = beyond[-1], {core.mask for core in cores}
    if highest.level < LAST_LEVELS and len(cores) > 1 and all(g.cpus.mask in private for g in highest.groups):
        note(f"no cache that cores share is known: {instead}")
        return None
    found: list[Group] = []
    left = online
    for level in reversed(beyond):
        found += (Group(group.id, cpus) for group in level.groups if (cpus := group.cpus & left))
        left -= union(group.cpus for group in level.groups)
    has_ids = not left and len(found) == len(highest.groups)
    if left:
        note(f"caches are unknown for {named(left)}: those of one package count as one")
        parts = (package & left for package in (packages or {0: online}).values())
        found += (Group(part.lowest(), part) for part in parts if part)
    return {group.id if has_ids else group.cpus.lowest(): group.cpus for group in found}


def between(
    told: Iterable[Told], cores: list[CPUSet], packages: Mapping[int, CPUSet], online: CPUSet
) -> tuple[Group, ...]:
    """Return a level between cores and packages, by lowest CPU.

    Return none if it does not hold every CPU once, in whole cores, or if it equals the cores or the packages.
    """
    groups = {cpus & online for _, cpus in told} - {EMPTY}
    is_whole = all(core <= group or core.isdisjoint(group) for core in cores for group in groups)
    is_again = groups in (set(cores), set(packages.values()), {online})
    if not is_whole or is_again or union(groups) != online or sum(map(len, groups)) != len(online):
        return ()
    return tuple(sorted((Group(cpus.lowest(), cpus) for cpus in groups), key=lambda group: group.id))


def _apart(told: Iterable[Told], online: CPUSet, level: str, notes: list[str]) -> list[Told]:
    """Return the groups with online CPUs, made disjoint."""
    given = [(id, cpus & online) for id, cpus in told]
    kept, taken, disputed = [], EMPTY, EMPTY
    for id, cpus in sorted(given, key=lambda each: (len(each[1]), -1 if each[0] is None else each[0], each[1].mask)):
        if own := cpus - taken:
            # A repetition, or a group that only names CPUs of others, is no group of its own.
            disputed |= cpus & taken
            kept.append((id, own))
        taken |= cpus
    if disputed:
        notes.append(
            f"{named(disputed)} {agree(len(disputed), 'is', 'are')} in more than one {level}: the smallest one counts"
        )
    return sorted(kept, key=lambda each: each[1].lowest())
