"""World: all that the allocator knows. The books (State), the machine, the settings, and each container as last seen.

Nothing here changes in place; `replace` makes new values, and the dicts are never written to. Each mapping beside the
containers has one writer: `timers` moves/timers, `signalled` and `stops` moves/signals, `loads` books/load_wish.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TypeVar

import msgspec

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.footprint import Reach, reach_of
from sidecar.decide.container.place import cpus_of
from sidecar.decide.facts import EngineInfo, Load, Purpose, ViewKind
from sidecar.decide.settings import Settings
from state.claim import claimed
from state.cpuset import EMPTY, CPUSet
from state.key import ContainerKey
from state.model import State
from state.refusal import Refusal
from state.topology import Topology

replace = msgspec.structs.replace


T = TypeVar("T")


class Told(msgspec.Struct, frozen=True):
    """What a workload was last told by signal: the CPUs in force, and those of them that are leaving."""

    cpus: CPUSet
    leaving: CPUSet


class Away(msgspec.Struct, frozen=True, tag="away"):
    """The engine is not reached: what happens now is unseen. `reason` is for people."""

    reason: str = ""


class Connected(msgspec.Struct, frozen=True, tag="connected"):
    """The engine is reached since this ticket, and not everything was looked at since."""

    since: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """An inventory was taken since the engine was reached, at this ticket: only now anything is ordered."""

    since: int


Readiness = Away | Connected | Ready


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What a repair of the books did to the grant of this name, which held these CPUs: it `holds` others now, or none
    because of a refusal.
    """

    name: str
    held: CPUSet
    holds: CPUSet = EMPTY
    refusal: Refusal | None = None


class World(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything that decisions depend on. `numbers` gives orders, timers and arrivals their numbers."""

    state: State
    topology: Topology
    settings: Settings
    containers: Mapping[ContainerKey, Container] = {}
    timers: Mapping[ContainerKey, Mapping[Purpose, int]] = {}
    """The numbers of the timers that run, by container and by what they wait for."""
    signalled: Mapping[ContainerKey, Told] = {}
    """By container, what it was last told by signal."""
    stops: Mapping[ContainerKey, str] = {}
    """By container, `started_at` of the start that was ordered to be stopped."""
    loads: Mapping[ContainerKey, Load] = {}
    """By container, what it did last."""
    engine: EngineInfo | None = None
    readiness: Readiness = Away()
    is_releasing: bool = False
    is_defragmenting: bool = False
    """Whether the next decision looks for better CPUs: a grant ended, or somebody ordered it."""
    numbers: int = 0
    horizon: int = 0
    """The newest ticket at which it was known who exists: an older look at an unknown container proves nothing."""
    notes: tuple[Note, ...] = ()
    """What people should know about the books: what a repair had to change, and why."""

    @property
    def is_ready(self) -> bool:
        """Whether everything was looked at since the engine was reached; nothing is ordered before."""
        return isinstance(self.readiness, Ready)

    def with_container(self, container: Container) -> World:
        """The world with this container as it is now."""
        return replace(self, containers={**self.containers, container.view.key: container})

    def without_container(self, key: ContainerKey, ticket: int) -> World:
        """The world, and the books, without a container that no longer exists, as somebody found at `ticket`."""
        return replace(
            self,
            containers=without(self.containers, key),
            timers=without(self.timers, key),
            signalled=without(self.signalled, key),
            stops=without(self.stops, key),
            loads=without(self.loads, key),
            state=self.state.forgetting(key),
            horizon=max(self.horizon, ticket),
            is_defragmenting=self.is_defragmenting or key in self.state.assignments,
        )

    def named(self, engine: str) -> World:
        """The world in which this engine has claimed the books that name none."""
        state = claimed(self.state, engine)
        return self if state is self.state else replace(self, state=state)

    def key_of(self, id: str) -> ContainerKey:
        """The key of a container that somebody knows by its id alone: as it is known or stands in the books, or else of
        the engine that is connected.
        """
        for key in (*self.containers, *self.state.assignments, *self.state.originals):
            if key.id == id:
                return key
        return ContainerKey(self.engine.name if self.engine else "", id)

    @cached_property
    def strangers(self) -> CPUSet:
        """CPUs that containers pinned by hand run on, or would start on."""
        mask = 0
        for container in self.containers.values():
            if container.wish.standing is Standing.STRANGER:
                mask |= container.footprint
        return CPUSet.from_mask(mask)

    @cached_property
    def group(self) -> Container | None:
        """The cgroup that confines the shared pool as one, as if it were a container; None where there is none."""
        if not self.settings.shared_slice:
            return None
        return next((each for each in self.containers.values() if each.view.kind is ViewKind.GROUP), None)

    def sure_of(self, container: Container) -> CPUSet:
        """Make the CPUs that a container has whatever became of every order: in a group, no others than the group's.

        Where the group has none of the CPUs that a container in it is pinned to, the kernel lets it run on all of the
        group's, and takes them back with the group's next change: it is sure of none of these.
        """
        if not container.view.in_shared_group or self.group is None:
            return container.sure
        configured = container.place.configured & cpus_of(container.view.cpuset, self.state.online)
        is_member = container.wish.standing is Standing.MEMBER
        return self.group.sure & (configured if is_member else configured & container.sure)

    def confined_by(self, key: ContainerKey) -> tuple[ContainerKey, ...]:
        """Whose CPUs an order to this container changes: its own, and where it is the group those of all in it."""
        if self.group is None or key != self.group.view.key:
            return (key,)
        return (key, *(member for member, each in self.containers.items() if each.view.in_shared_group))

    @cached_property
    def reach(self) -> Reach:
        """Where everybody may be running. Containers that are left alone count as little as the host's processes do,
        and those of a group are where the group is.
        """
        assignments = self.state.assignments
        apart = (Standing.UNMANAGED, Standing.MEMBER)
        return reach_of(
            (container.footprint, key in assignments)
            for key, container in self.containers.items()
            if container.wish.standing not in apart
        )


def without(mapping: Mapping[ContainerKey, T], key: ContainerKey) -> Mapping[ContainerKey, T]:
    """The mapping without a container; the same one where it does not speak of it."""
    return {each: value for each, value in mapping.items() if each != key} if key in mapping else mapping
