"""Grants and what else must survive: Assignment, Refused, Originals, State.

State is everything that must survive: it is what the checkpoint holds. The shared pool is not stored but derived:
every online CPU that is not granted is shared, so no step, crash or bug can lose a CPU. Values never change; a change
is a new value, and the dicts inside are never written to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from state.cause import Cause
from state.cpuset import EMPTY, CPUSet, union
from state.demand import Demand, QuotaRule
from state.derived_property import derived_property
from state.key import ContainerKey
from state.leaving import Leaving
from state.refusal import Refusal

T = TypeVar("T")


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a grant, and why it was made."""

    gained: CPUSet = EMPTY
    lost: CPUSet = EMPTY
    cause: Cause


KEPT_MOVES: Final = 5
"""The last changes of a grant are remembered, this many, for `explain`."""


class Rest(msgspec.Struct, frozen=True, kw_only=True):
    """How long a container that does not run keeps its CPUs, as promised when its rest began. `started_at` is its last
    start, "" if there was none: after another start, the rest is another.
    """

    seconds: float
    started_at: str = ""


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A grant: these CPUs are this container's alone as long as it stands in the State.

    `original` is what the container was first granted and never loses: the whole grant, or the floor of an elastic
    container. `layers` is what an elastic container holds in addition, in the order in which it came. `since` numbers
    grants in their order (higher is later). `ordered` is the size that `resize` ordered. `cooling` numbers its last
    growth while it may not be shrunk again for its own sake; None after that. `forced` counts takes without its
    acknowledgement. `asked` numbers the containers in the order in which they first asked. `is_measured` if its size
    follows its load, and a load was known. `ended` is the start, by `started_at`, since whose end the container rests
    longer than it may keep its CPUs, if the grant could not end yet; None otherwise. `rest` is the rest of a container
    that does not run, or that of a vacancy, once it began.
    """

    demand: Demand
    cpus: CPUSet
    original: CPUSet
    since: int
    layers: tuple[CPUSet, ...] = ()
    ordered: int | None = None
    leaving: Leaving | None = None
    cooling: int | None = None
    forced: int = 0
    moves: tuple[Move, ...] = ()
    asked: int = 0
    is_measured: bool = False
    ended: str | None = None
    rest: Rest | None = None

    @property
    def container(self) -> ContainerKey:
        """The container that holds it."""
        return self.demand.container

    @property
    def name(self) -> str:
        """The container's name when it was last seen."""
        return self.demand.name

    @property
    def is_lifting(self) -> bool:
        """Whether the container's CPU limit is lifted while it holds this grant."""
        return self.demand.quota is QuotaRule.LIFT


IN_BUNDLE: Final = 0
"""Stands in `lifts` for a limit that a runtime may have lifted at a start: the engine then shows the original."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was not granted, and why. `demand` is None if the labels themselves were the reason.

    `started_at` is the engine's time stamp of the start that was refused; None if it was not recorded. `asked` numbers
    the containers in the order in which they first asked; None before the refusal is recorded. `released_at` is when
    people released its CPUs; "" if they did not.
    """

    container: ContainerKey
    name: str
    refusal: Refusal
    demand: Demand | None = None
    started_at: str | None = None
    asked: int | None = None
    released_at: str = ""


class Originals(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that the container was created with, which the engine forgets at the first update.

    `cpuset` and `mems` are the engine's text, "" if nothing was set. `nano_cpus` is in 1e-9 CPUs, `cpu_quota` and
    `cpu_period` in microseconds, each 0 if nothing was set. `cgroup_parent`, which never changes, is "" if it names
    none, and not set if an earlier version wrote this.
    """

    cpuset: str = ""
    mems: str = ""
    nano_cpus: int = 0
    cpu_quota: int = 0
    cpu_period: int = 0
    cgroup_parent: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def parent(self) -> str | None:
        """The cgroup parent that it names; None if that is not known."""
        return None if isinstance(self.cgroup_parent, msgspec.UnsetType) else self.cgroup_parent


class State(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Every CPU of the host, and the container that holds it: *the books*. Containers stand in it by their keys.

    `online` is what may be used at all; `reserved` is never granted, and is in the shared pool unless `strict`;
    `counted` are the CPUs that a count of reserved ones stands for, online or not: others stand in while they are not.
    It is empty for a list, and None in a State of an earlier version. `isolated` may be granted, and is never in the
    shared pool. `lifts` holds the values, in 1e-9 CPUs, to which the limit of a container was lifted: the sidecar set a
    limit of such a value, and restores the original. `vacancies` are the last grants of containers that are gone, for
    their successors. `lapsed` have never run, and kept no CPUs for it. `held_back` are members of the shared group
    whose last order had no effect, with the reason, for people; "" if a look showed it. `unlooked` are CPUs that grants
    gained before all containers were looked at: another may be pinned there. `lent` are granted CPUs that stay in the
    shared pool until other containers have left CPUs that replace them there. `has_gaps` if a container with a grant is
    gone, and nothing was decided since. `grants` counts all grants ever made, and numbers the next; `asks` does so for
    containers that first ask. `cores` are those with several threads, with
    all of these, as they were seen: no machine tells the core of an offline CPU. They are not set where none has
    several, and if an earlier version wrote this.
    """

    policy: str = "none"
    online: CPUSet = EMPTY
    reserved: CPUSet = EMPTY
    strict: bool = False
    isolated: CPUSet = EMPTY
    assignments: Mapping[ContainerKey, Assignment] = {}
    refusals: Mapping[ContainerKey, Refused] = {}
    originals: Mapping[ContainerKey, Originals] = {}
    lifts: Mapping[ContainerKey, tuple[int, ...]] = {}
    vacancies: Mapping[ContainerKey, Assignment] = {}
    lapsed: tuple[ContainerKey, ...] = ()
    held_back: Mapping[ContainerKey, str] = {}
    counted: CPUSet | None = None
    unlooked: CPUSet = EMPTY
    lent: CPUSet = EMPTY
    cores: tuple[CPUSet, ...] | msgspec.UnsetType = msgspec.UNSET
    has_gaps: bool = False
    asks: int = 0
    grants: int = 0
    takes: int = 0
    """Counts all changes of grants ever made, and numbers the next."""
    forced: int = 0
    """Takes whose grace ended before the workload acknowledged, ever."""
    acknowledged: int = 0
    """Takes that the workload acknowledged in time, ever."""

    @derived_property
    def exclusive(self) -> CPUSet:
        """All CPUs that are granted."""
        return union(assignment.cpus for assignment in self.assignments.values())

    @derived_property
    def by_age(self) -> tuple[Assignment, ...]:
        """The grants in the order in which they were made."""
        return tuple(sorted(self.assignments.values(), key=lambda each: each.since))

    @derived_property
    def leaving(self) -> CPUSet:
        """All CPUs that a container may still be using but no longer holds, and that no other enters before it has left
        them: all but the refuge, which is open to all.
        """
        return self._being_left - self.refuge

    @derived_property
    def _being_left(self) -> CPUSet:
        return union(each.leaving.cpus for each in self.assignments.values() if each.leaving)

    @derived_property
    def shared(self) -> CPUSet:
        """The shared pool: where all containers without a grant may run.

        A strict reservation keeps the reserved CPUs out of it, unless there is nothing else: it is never empty.
        """
        pool = self.online - self.exclusive - self.isolated
        return (pool - self.reserved if self.strict else pool) or self.reserved

    @derived_property
    def vacated(self) -> CPUSet:
        """The shared pool in force: without what a container is still leaving, and with what is lent to it; the refuge
        if that is nothing.
        """
        return (self.shared - self.leaving) | self.lent or self.refuge

    @derived_property
    def refuge(self) -> CPUSet:
        """The reserved CPUs, for containers that may be nowhere else now: those that no container is still leaving, if
        there are any. Else they are closed to none: a container may have to wait on the very CPU that it is leaving.
        """
        return (self.reserved - self._being_left) or self.reserved

    @derived_property
    def assignable(self) -> CPUSet:
        """What could be granted now: all CPUs that are neither granted nor reserved nor vacant."""
        return self.online - self.exclusive - self.reserved - self.vacant

    @derived_property
    def vacant(self) -> CPUSet:
        """All CPUs that are kept for the successors of containers that are gone: of those that had a role."""
        return union(each.cpus for each in self.vacancies.values() if each.demand.role) if self.vacancies else EMPTY

    def granted(self, demand: Demand, cpus: CPUSet, original: CPUSet = EMPTY) -> State:
        """Return the State after granting `cpus`. An earlier refusal of the same container is forgotten."""
        key, layers = demand.container, (cpus - original,) if original and cpus - original else ()
        asked = self._asked(key)
        made = Assignment(
            demand=demand, cpus=cpus, original=original or cpus, since=self.grants, layers=layers, asked=asked
        )
        return msgspec.structs.replace(
            self,
            assignments={**self.assignments, key: made},
            refusals=_without(self.refusals, key),
            vacancies=_without(self.vacancies, key),
            grants=self.grants + 1,
            asks=max(self.asks, asked + 1),
        )

    def holding(self, assignment: Assignment) -> State:
        """Return the State with this grant in place of the one that its container had."""
        return msgspec.structs.replace(self, assignments={**self.assignments, assignment.container: assignment})

    def refused(self, refused: Refused) -> State:
        """Return the State after a refusal; CPUs that the container held are shared again."""
        asked = self._asked(refused.container)
        refused = msgspec.structs.replace(refused, asked=asked)
        if self.refusals.get(refused.container) == refused and refused.container not in self.assignments:
            return self
        return msgspec.structs.replace(
            self,
            assignments=_without(self.assignments, refused.container),
            refusals={**self.refusals, refused.container: refused},
            asks=max(self.asks, asked + 1),
        )

    def _asked(self, key: ContainerKey) -> int:
        """Return the number of a container in the order of first asking: its own, or the next."""
        known = self.refusals.get(key) or self.assignments.get(key)
        return self.asks if known is None or known.asked is None else known.asked

    def has_records(self, container: ContainerKey) -> bool:
        """Return whether anything is recorded of a container: what it has or was refused, or what is to be put back."""
        records = (self.assignments, self.refusals, self.originals, self.lifts)
        return any(container in each for each in records)

    def released(self, container: ContainerKey) -> State:
        """Return the State after a container released its CPUs, or its request: it may ask again."""
        if container not in self.assignments and container not in self.refusals:
            return self
        return msgspec.structs.replace(
            self,
            assignments=_without(self.assignments, container),
            refusals=_without(self.refusals, container),
        )

    def remembering(self, container: ContainerKey, originals: Originals) -> State:
        """Return the State with a container's original settings, which are never overwritten once written."""
        if container in self.originals:
            return self
        return msgspec.structs.replace(self, originals={**self.originals, container: originals})

    def naming_parent(self, container: ContainerKey, cgroup_parent: str) -> State:
        """Return the State with the cgroup parent of a container whose originals an earlier version remembered."""
        originals = msgspec.structs.replace(self.originals[container], cgroup_parent=cgroup_parent)
        return msgspec.structs.replace(self, originals={**self.originals, container: originals})

    def lifting(self, container: ContainerKey, nano_cpus: int) -> State:
        """Return the State with one more value of a container's lifted limit; called before the limit is lifted."""
        known = self.lifts.get(container, ())
        if nano_cpus in known:
            return self
        return msgspec.structs.replace(self, lifts={**self.lifts, container: (*known, nano_cpus)})

    def shown(self, container: ContainerKey) -> State:
        """Return the State after an order wrote a container's limit: the engine shows what it is."""
        known = self.lifts.get(container, ())
        if IN_BUNDLE not in known:
            return self
        values = tuple(value for value in known if value != IN_BUNDLE)
        lifts = {**self.lifts, container: values} if values else _without(self.lifts, container)
        return msgspec.structs.replace(self, lifts=lifts)

    def put_back(self, container: ContainerKey) -> State:
        """Return the State after a container's own limit was restored."""
        if container not in self.lifts:
            return self
        return msgspec.structs.replace(self, lifts=_without(self.lifts, container))

    def restored(self, container: ContainerKey) -> State:
        """Return the State without a container's originals: all that it has is its own again."""
        state = self.put_back(container)
        return msgspec.structs.replace(state, originals=_without(state.originals, container))

    def vacated_by(self, container: ContainerKey) -> State:
        """Return the State after a container went for good: its CPUs, if it had any, are kept for a successor."""
        went = self.assignments.get(container)
        state = self.released(container)
        if went is None:
            return state
        # What was promised to it at its stop was for its own next start.
        vacancy = msgspec.structs.replace(went, rest=None)
        return msgspec.structs.replace(state, vacancies={**state.vacancies, container: vacancy})

    def keeping(self, vacancies: Mapping[ContainerKey, Assignment]) -> State:
        """Return the State with these vacancies and no others."""
        return self if vacancies == self.vacancies else msgspec.structs.replace(self, vacancies=vacancies)

    def _with_its_place_taken(self, container: ContainerKey) -> State:
        """Return the State in which a successor of a refused container asked when that one did, if it asked later."""
        went = self.refusals.get(container)
        if went is None or went.demand is None or went.asked is None:
            return self
        for key, each in self.refusals.items():
            if each.demand and each.demand.succeeds(went.demand) and each.asked is not None and each.asked > went.asked:
                heir = msgspec.structs.replace(each, asked=went.asked)
                return msgspec.structs.replace(self, refusals={**self.refusals, key: heir})
        return self

    def forgetting(self, container: ContainerKey) -> State:
        """Return the State without any trace of a container that no longer exists, but the vacancy that it leaves, and
        its place in the queue if its successor waits already.
        """
        state = self._with_its_place_taken(container).vacated_by(container).put_back(container)
        if container in state.lapsed:
            state = msgspec.structs.replace(state, lapsed=tuple(key for key in state.lapsed if key != container))
        if container in state.held_back:
            state = msgspec.structs.replace(state, held_back=_without(state.held_back, container))
        if container not in state.originals:
            return state
        return msgspec.structs.replace(state, originals=_without(state.originals, container))


def _without(mapping: Mapping[ContainerKey, T], key: ContainerKey) -> Mapping[ContainerKey, T]:
    if key not in mapping:
        return mapping
    return {k: v for k, v in mapping.items() if k != key}
