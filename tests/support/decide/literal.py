"""The kubelet's order, written as literally and slowly as possible: lists, sorted again for every question.

It shares nothing with the program but the topology, so that this plain code can check the clever one.
"""

from __future__ import annotations

from collections.abc import Callable

from state.topology import Group, Topology


def literal(machine: Topology, available: set[int], count: int, algorithm: str) -> set[int] | None:
    """Return what `packed`, `spread` (the kubelet's own, by CPU number) or `along caches` takes."""
    if count > len(available):
        return None
    call = _Call(machine, available, count)
    call.whole(call.upper)
    call.whole(call.lower)
    if algorithm == "along caches":
        call.along_caches()
    if algorithm != "spread":
        call.whole(call.cores)
    for cpu in call.by_package() if algorithm == "spread" else call.by_core():
        call.take({cpu})
    return call.taken


class _Call:
    """One call: the free CPUs, the taken ones, and how many are still needed."""

    def __init__(self, machine: Topology, available: set[int], count: int) -> None:
        self.machine = machine
        self.free = set(available)
        self.taken: set[int] = set()
        self.needed = count
        self.numa_first = len(machine.packages) >= len(machine.nodes)

    def take(self, cpus: set[int]) -> None:
        """Take these CPUs, if all of them are needed."""
        if cpus and len(cpus) <= self.needed:
            self.taken |= cpus
            self.free -= cpus
            self.needed -= len(cpus)

    def whole(self, listed: Callable[[], list[Group]]) -> None:
        for group in [group for group in listed() if set(group.cpus) <= self.free]:
            self.take(set(group.cpus))

    def upper(self) -> list[Group]:
        return self._sorted(self.machine.nodes if self.numa_first else self.machine.packages)

    def lower(self) -> list[Group]:
        return self._under(self.upper(), self.machine.packages if self.numa_first else self.machine.nodes)

    def nodes(self) -> list[Group]:
        return self.upper() if self.numa_first else self.lower()

    def packages(self) -> list[Group]:
        return self.lower() if self.numa_first else self.upper()

    def caches(self) -> list[Group]:
        return self._under(self.nodes(), self.machine.caches)

    def cores(self) -> list[Group]:
        return self._under(self.lower(), self.machine.cores)

    def by_core(self) -> list[int]:
        return [cpu for core in self.cores() for cpu in sorted(set(core.cpus) & self.free)]

    def by_package(self) -> list[int]:
        return [cpu for package in self.packages() for cpu in sorted(set(package.cpus) & self.free)]

    def along_caches(self) -> None:
        """Take cache by cache: whole caches while the request is at least an average one, then a part that fits
        exactly.
        """
        average = len(self.machine.online) // len(self.machine.caches)
        width = len(self.machine.online) // len(self.machine.cores)
        for cache in self.caches():
            if self.needed >= average:
                self.whole(self.caches)
            if not self.needed:
                return
            here = set(cache.cpus) & self.free
            cores = sorted(core.id for core in self.machine.cores if set(core.cpus) & here)[: -(-self.needed // width)]
            part = sorted(cpu for core in self.machine.cores if core.id in cores for cpu in set(core.cpus) & self.free)
            if self.needed % 2 and width > 1 and len(part) > self.needed:
                part.pop()
            if len(part) == self.needed:
                self.take(set(part))
                return

    def _sorted(self, groups: tuple[Group, ...]) -> list[Group]:
        """Return the groups with a free CPU: fewest free first, then by id."""
        some = [group for group in groups if set(group.cpus) & self.free]
        return sorted(some, key=lambda group: (len(set(group.cpus) & self.free), group.id))

    def _under(self, parents: list[Group], groups: tuple[Group, ...]) -> list[Group]:
        """Return the same, in the order of their sorted parents."""
        return [
            group
            for parent in parents
            for group in self._sorted(groups)
            if set(group.cpus) & self.free & set(parent.cpus)
        ]
