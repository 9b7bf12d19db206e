"""Tree: a machine's groups as CPU masks, and which groups lie in which, computed once for a topology.

Every tuple of masks is in ascending order of the groups' ids, so a stable sort by anything else breaks ties by id.
A group that reaches into several larger ones (firmware reports such machines) is listed in each.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import msgspec

Masks = tuple[int, ...]


class Tree(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The levels of a machine, and the two levels above cores in the order of placement.

    With at least as many packages as nodes, `upper` are the nodes and `lower` the packages; else the other way round.
    """

    online: int
    cores: Masks
    caches: Masks
    nodes: Masks
    packages: Masks
    upper: Masks
    lower: Masks
    lower_in: dict[int, Masks]
    """By the mask of an upper group."""
    cores_in: dict[int, Masks]
    """By the mask of a node, package or cache."""
    caches_in: dict[int, Masks]
    """By the mask of a node."""

    is_numa_first: bool
    """Whether nodes stand above packages."""

    @cached_property
    def parts(self) -> dict[int, Tree]:
        """By the mask of a node: the same tree, without the upper and lower groups that have no CPU of the node."""

        def part(node: int) -> Tree:
            upper, lower = (tuple(mask for mask in level if mask & node) for level in (self.upper, self.lower))
            return msgspec.structs.replace(self, upper=upper, lower=lower)

        return {node: part(node) for node in self.nodes}


def tree(cores: Iterable[Masks], caches: Iterable[Masks], nodes: Iterable[Masks], packages: Iterable[Masks]) -> Tree:
    """Return the tree of levels given as pairs of id and mask, in any order."""
    core, cache, node, package = (_by_id(level) for level in (cores, caches, nodes, packages))
    is_numa_first = len(package) >= len(node)
    upper, lower = (node, package) if is_numa_first else (package, node)
    return Tree(
        online=sum(core),
        cores=core,
        caches=cache,
        nodes=node,
        packages=package,
        upper=upper,
        lower=lower,
        lower_in=_inside(lower, upper),
        cores_in=_inside(core, node + package + cache),
        caches_in=_inside(cache, node),
        is_numa_first=is_numa_first,
    )


def _by_id(level: Iterable[Masks]) -> Masks:
    return tuple(mask for _, mask in sorted(level))


def _inside(groups: Masks, larger: Masks) -> dict[int, Masks]:
    return {mask: tuple(group for group in groups if group & mask) for mask in larger}
