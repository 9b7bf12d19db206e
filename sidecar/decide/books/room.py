"""What the shared pool keeps, and so how many CPUs can be exclusive. No other module knows this rule.

The pool keeps `shared_min` CPUs, and at least one. If the node grants whole cores only (`full-pcpus-only`) and shares
no reserved CPU (`strict-cpu-reservation`), the pool also keeps one whole core. That is the node's rule: it binds
containers with options of their own too, and their options do not change it. (The kubelet lets a strict reservation
leave nothing, and then neither moves shared containers nor starts again.)

`Room.objection` applies the rule to particular CPUs. `most` and `spare` tell how many CPUs the rule allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

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
    """The CPUs that may be granted on top of a State, in addition to those `held`.

    `shared` is the shared pool of this State; `pool` is the pool that it would have without grants. The pool keeps
    `keep` CPUs and, if `keeps_core` is set, one of the machine's `cores` whole. `givable` are all CPUs that may be
    granted. `full_cores` are those that count as whole for a container with `full-pcpus-only`.
    """

    shared: CPUSet
    cores: tuple[Group, ...]
    full_cores: tuple[Group, ...]
    keep: int = 1
    keeps_core: bool = False
    givable: CPUSet = EMPTY
    held: CPUSet = EMPTY
    pool: CPUSet = EMPTY

    @property
    def lack(self) -> int:
        """How many CPUs the pool has too few."""
        return max(0, self.keep - len(self.shared))

    def objection(self, cpus: CPUSet) -> Refusal | None:
        """Return why these CPUs may not be granted in addition to those held; None if they may. CPUs outside the pool,
        such as isolated ones, take nothing from it.
        """
        left = self.shared - cpus
        if left == self.shared or self._suffices(left):
            return None
        by_cores = self.keeps_core and cpus == self._whole(cpus)
        part = len(replace(self, givable=cpus).spare(by_cores=by_cores))
        would_fit = (part,) if part else ()
        detail = PoolEmptied(
            count=len(cpus),
            shared=len(self.shared),
            keep=self.keep,
            by_cores=not self._has_core(left),
            would_fit=would_fit,
        )
        return Refusal(RefusalCode.POOL_WOULD_BE_EMPTY, detail)

    def most(self, *, by_cores: bool = False) -> int:
        """Return how many CPUs could be exclusive in total if present grants could lie anywhere; `by_cores`: in whole
        cores.
        """
        everything = replace(self, shared=self.pool, givable=self.givable | self.held)
        return len(everything.spare(by_cores=by_cores))

    def spare(self, *, by_cores: bool = False) -> CPUSet:
        """Return a largest set of CPUs that may be granted together, in addition to those held; `by_cores`: of whole
        cores.

        The last CPUs are kept back for the pool. A demand of this size may still be refused because of how its CPUs
        would lie.
        """
        if not self._suffices(self.shared):
            outside = self.givable - self.shared
            return self._whole(outside) if by_cores else outside
        wanted = self._whole(self.givable) if by_cores else self.givable
        return max((self._cut(wanted - core, by_cores=by_cores) for core in self._staying(wanted)), key=len)

    def missing_from(self, now: CPUSet, others: Iterable[int]) -> CPUSet:
        """Return the first of these other CPUs that the pool needs in addition to those that it has `now`, until it has
        what it keeps, or has as much as it is to have.
        """
        offered, found = list(others), EMPTY
        if self._has_core(self.shared) and not self._has_core(now):
            found = self._completing(now, offered)
        return found | self.filling(now | found, offered)

    def filling(self, now: CPUSet, others: Iterable[int]) -> CPUSet:
        """Return the first of these other CPUs that make those `now` as many as the pool keeps, or is to have."""
        found, enough = EMPTY, min(self.keep, len(self.shared))
        for cpu in others if len(now) < enough else ():
            found |= CPUSet.of(cpu)
            if len(now | found) >= enough:
                break
        return found

    def _completing(self, now: CPUSet, others: Sequence[int]) -> CPUSet:
        """Return the fewest of these other CPUs with which the pool has a whole core, of such ones the first; none if
        there is no such core.
        """
        lacking = (core.cpus - now for core in self.cores)
        possible = [cpus for cpus in lacking if cpus <= CPUSet(others)]
        return min(possible, key=lambda cpus: (len(cpus), max(map(others.index, cpus), default=0)), default=EMPTY)

    def _suffices(self, left: CPUSet) -> bool:
        """Return whether these CPUs are enough for the pool."""
        return len(left) >= self.keep and self._has_core(left)

    def _has_core(self, left: CPUSet) -> bool:
        """Return whether one of the machine's cores is whole in these CPUs, if the pool must keep one."""
        return not self.keeps_core or any(core.cpus <= left for core in self.cores)

    def _whole(self, cpus: CPUSet) -> CPUSet:
        """Return the CPUs of the full cores that lie wholly within these CPUs."""
        return union(core.cpus for core in self.full_cores if core.cpus <= cpus)

    def _staying(self, wanted: CPUSet) -> Iterable[CPUSet]:
        """Return the candidates for the core that stays: for each number of wanted CPUs that a core costs, the last
        such core.
        """
        if not self.keeps_core:
            return (EMPTY,)
        pool, cost = self.shared.mask, wanted.mask
        cores = (core.cpus for core in self.cores if core.cpus.mask & ~pool == 0)
        return {(core.mask & cost).bit_count(): core for core in cores}.values()

    def _cut(self, wanted: CPUSet, *, by_cores: bool) -> CPUSet:
        """Return the wanted CPUs less the fewest that leave the pool enough; `by_cores`: less the cores with the fewest
        CPUs in total.
        """
        missing = self.keep - len(self.shared - wanted)
        if missing <= 0:
            return wanted
        if not by_cores:
            # Keeping back CPUs outside the pool, such as isolated ones, would not help the pool.
            return wanted - CPUSet(list(wanted & self.shared)[-missing:])
        # By the number of CPUs that the pool could regain: the smallest set of cores for it.
        smallest = {0: EMPTY}
        for core, regained in self._last_cores(wanted, missing):
            for before, cores in list(smallest.items()):
                reached = min(missing, before + regained)
                if reached not in smallest or len(cores) + len(core) < len(smallest[reached]):
                    smallest[reached] = cores | core
        return wanted - smallest[missing]

    def _last_cores(self, wanted: CPUSet, missing: int) -> Iterator[tuple[CPUSet, int]]:
        """Yield the wanted cores that may have to be kept back, the last first, each with its number of CPUs in the
        pool. Of cores that are alike, yield as many as would be enough alone.
        """
        regained_by: Counter[tuple[int, int]] = Counter()
        for core in (core.cpus for core in reversed(self.full_cores) if core.cpus <= wanted):
            alike = (len(core), regained := len(core & self.shared))
            if regained and regained_by[alike] < missing:
                regained_by[alike] += regained
                yield core, regained


def room(topology: Topology, settings: Settings, state: State, strangers: CPUSet = EMPTY) -> Room:
    """Return the room in this State. The CPUs of `strangers` may not be granted."""
    givable = state.assignable - strangers
    return Room(
        shared=_kept_in(state),
        cores=topology.cores,
        full_cores=topology.full_cores,
        keep=max(1, settings.shared_min),
        keeps_core=state.strict and FULL_PCPUS_ONLY in settings.options,
        givable=givable & topology.isolated if settings.isolated is IsolatedRule.ONLY else givable,
        held=state.exclusive,
        pool=_kept_in(replace(state, assignments={}) if state.assignments else state),
    )


def _kept_in(state: State) -> CPUSet:
    """Return what counts of the shared pool: not vacant CPUs, which are in it for a while only, nor the reserved ones,
    where under a strict reservation containers run for want of others.
    """
    pool = state.shared - state.vacant
    return pool - state.reserved if state.strict else pool


def room_in(world: World, state: State) -> Room:
    """Return the room in this State, on the machine and under the settings of this world."""
    return room(world.topology, world.settings, state, world.strangers)


def capacity(world: World) -> int:
    """Return how many CPUs containers with the node's own options could hold at once if none were granted yet; 0 under
    the policy `none`. A node may advertise this number to a scheduler that only counts.
    """
    return _spare_in(world, replace(world.state, assignments={}, vacancies={}))


def free(world: World) -> int:
    """Return how many more CPUs containers with the node's own options could hold now; 0 under the policy `none`."""
    return _spare_in(world, world.state)


def _spare_in(world: World, state: State) -> int:
    settings = world.settings
    if settings.policy is PolicyName.NONE:
        return 0
    return len(room_in(world, state).spare(by_cores=FULL_PCPUS_ONLY in settings.options))
