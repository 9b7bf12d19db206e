"""What the shared pool keeps, and so how much can be exclusive: this is the only place that knows.

The pool keeps `shared_min` CPUs, and at least one. Where the node gives all by whole cores (`full-pcpus-only`) and
shares no reserved CPU (`strict-cpu-reservation`), one whole core stays as well. That is the node's rule: a container
with options of its own is bound by it, and changes nothing of it. (The kubelet lets a strict reservation leave nothing,
and then neither moves shared containers nor starts again.)

`Room.objection` is the rule, asked of particular CPUs. How many there are, `most` and `spare`, is what it allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from sidecar.decide.placement.options import FULL_PCPUS_ONLY
from sidecar.decide.settings import IsolatedRule, PolicyName, Settings
from sidecar.decide.world import World
from state.cpuset import EMPTY, CPUSet, union
from state.model import State
from state.refusal import PoolEmptied, Refusal, RefusalCode
from state.topology import Group, Topology

replace = msgspec.structs.replace


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """What may be given exclusively in some books, besides what is `held`.

    `shared` is the shared pool of these books, and `pool` is what it would be if nobody held anything. It keeps `keep`
    CPUs, and where `keeps_core` is set one of the machine's `cores` whole. `givable` is what may be given at all.
    """

    shared: CPUSet
    cores: tuple[Group, ...]
    keep: int = 1
    keeps_core: bool = False
    givable: CPUSet = EMPTY
    held: CPUSet = EMPTY
    pool: CPUSet = EMPTY

    def objection(self, cpus: CPUSet) -> Refusal | None:
        """Why these CPUs may not be given, besides what is held; None if they may."""
        left = self.shared - cpus
        if self._suffices(left):
            return None
        by_cores = self.keeps_core and cpus == self._whole(cpus)
        part = len(replace(self, givable=cpus).spare(by_cores=by_cores))
        return _too_little(len(cpus), shared=len(self.shared), keep=self.keep, left=len(left), part=part)

    def most(self, *, by_cores: bool = False) -> int:
        """How many CPUs could be exclusive in all, were what is held now anywhere else; `by_cores`, in whole ones."""
        everything = replace(self, shared=self.pool, givable=self.givable | self.held)
        return len(everything.spare(by_cores=by_cores))

    def spare(self, *, by_cores: bool = False) -> CPUSet:
        """A largest set of CPUs that may be given together, besides what is held; `by_cores`, of whole ones.

        What is kept back for the pool are the last ones. One demand of this size may still be refused, for how its CPUs
        would lie.
        """
        if not self._suffices(self.shared):
            return EMPTY
        wanted = self._whole(self.givable) if by_cores else self.givable
        return max((self._cut(wanted - core, by_cores=by_cores) for core in self._staying(wanted)), key=len)

    def _suffices(self, left: CPUSet) -> bool:
        """Whether so much is enough for the pool."""
        return len(left) >= self.keep and (not self.keeps_core or any(core.cpus <= left for core in self.cores))

    def _whole(self, cpus: CPUSet) -> CPUSet:
        """The whole cores of these CPUs."""
        return union(core.cpus for core in self.cores if core.cpus <= cpus)

    def _staying(self, wanted: CPUSet) -> Iterable[CPUSet]:
        """Which core could be the one that stays: of those that cost equally many of the wanted CPUs, the last."""
        if not self.keeps_core:
            return (EMPTY,)
        pool, cost = self.shared.mask, wanted.mask
        cores = (core.cpus for core in self.cores if core.cpus.mask & ~pool == 0)
        return {(core.mask & cost).bit_count(): core for core in cores}.values()

    def _cut(self, wanted: CPUSet, *, by_cores: bool) -> CPUSet:
        """The wanted CPUs without the fewest, or the cores with the fewest CPUs, that leave the pool enough of them."""
        missing = self.keep - len(self.shared - wanted)
        if missing <= 0:
            return wanted
        if not by_cores:
            # CPUs that are not in the pool, as isolated ones, would be kept back for nothing.
            return wanted - CPUSet(list(wanted & self.shared)[-missing:])
        # To each number of CPUs that the pool could have back: the smallest set of cores that does it.
        smallest = {0: EMPTY}
        for core, regained in self._last_cores(wanted, missing):
            for before, cores in list(smallest.items()):
                reached = min(missing, before + regained)
                if reached not in smallest or len(cores) + len(core) < len(smallest[reached]):
                    smallest[reached] = cores | core
        return wanted - smallest[missing]

    def _last_cores(self, wanted: CPUSet, missing: int) -> Iterator[tuple[CPUSet, int]]:
        """The wanted cores that may have to be kept back, the last ones first, and how many CPUs the pool has of each:
        of cores that are alike as many as would be enough alone.
        """
        regained_by: Counter[tuple[int, int]] = Counter()
        for core in (core.cpus for core in reversed(self.cores) if core.cpus <= wanted):
            alike = (len(core), regained := len(core & self.shared))
            if regained and regained_by[alike] < missing:
                regained_by[alike] += regained
                yield core, regained


def room(topology: Topology, settings: Settings, state: State, strangers: CPUSet = EMPTY) -> Room:
    """Make the room that there is in these books; what is a stranger's is not to be given."""
    givable = state.assignable - strangers
    return Room(
        shared=state.shared,
        cores=topology.cores,
        keep=max(1, settings.shared_min),
        keeps_core=state.strict and FULL_PCPUS_ONLY in settings.options,
        givable=givable & topology.isolated if settings.isolated is IsolatedRule.ONLY else givable,
        held=state.exclusive,
        pool=replace(state, assignments={}).shared if state.assignments else state.shared,
    )


def room_in(world: World, state: State) -> Room:
    """Make the room that there is in these books of this world."""
    return room(world.topology, world.settings, state, world.strangers)


def capacity(world: World) -> int:
    """How many CPUs containers with the node's own options could have at once, if nobody held any yet: what it may tell
    a scheduler that only counts. 0 under the policy none.
    """
    return _spare_in(world, replace(world.state, assignments={}))


def free(world: World) -> int:
    """How many more CPUs containers with the node's own options could have now."""
    return _spare_in(world, world.state)


def _spare_in(world: World, state: State) -> int:
    settings = world.settings
    if settings.policy is PolicyName.NONE:
        return 0
    return len(room_in(world, state).spare(by_cores=FULL_PCPUS_ONLY in settings.options))


def _too_little(asked: int, *, shared: int, keep: int, left: int, part: int) -> Refusal:
    """The objection, where a part of what was asked for could be given."""
    would_fit = (part,) if part else ()
    detail = PoolEmptied(count=asked, shared=shared, keep=keep, by_cores=left >= keep, would_fit=would_fit)
    return Refusal(RefusalCode.POOL_WOULD_BE_EMPTY, detail)
