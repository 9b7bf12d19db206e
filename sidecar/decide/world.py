"""World: all that the allocator knows. The books (State), the machine, the settings, and each container as last seen.

Nothing here changes in place; `replace` makes new values, and the dicts are never written to. Each mapping beside the
containers has one writer: `timers` moves/timers, `signalled` and `stops` moves/signals, `loads` decide/loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TypeVar

import msgspec

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.footprint import Reach, reach_of
from sidecar.decide.facts import EngineInfo, Load, Purpose, ViewKind
from sidecar.decide.settings import Settings
from state.cpuset import EMPTY, CPUSet
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
    containers: Mapping[str, Container] = {}
    timers: Mapping[str, Mapping[Purpose, int]] = {}
    """The numbers of the timers that run, by container and by what they wait for."""
    signalled: Mapping[str, Told] = {}
    """By container, what it was last told by signal."""
    stops: Mapping[str, str] = {}
    """By container, `started_at` of the start that was ordered to be stopped."""
    loads: Mapping[str, Load] = {}
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
        return replace(self, containers={**self.containers, container.view.id: container})

    def without_container(self, id: str, ticket: int) -> World:
        """The world, and the books, without a container that no longer exists, as somebody found at `ticket`."""
        return replace(
            self,
            containers=without(self.containers, id),
            timers=without(self.timers, id),
            signalled=without(self.signalled, id),
            stops=without(self.stops, id),
            loads=without(self.loads, id),
            state=self.state.forgetting(id),
            horizon=max(self.horizon, ticket),
            is_defragmenting=self.is_defragmenting or id in self.state.assignments,
        )

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
        """The CPUs that a container has whatever became of every order: in a group, no others than the group's."""
        if not container.view.in_shared_group or self.group is None:
            return container.sure
        is_member = container.wish.standing is Standing.MEMBER
        return self.group.sure & (container.place.configured if is_member else container.sure)

    def confined_by(self, id: str) -> tuple[str, ...]:
        """Whose CPUs an order to this container changes: its own, and where it is the group those of all in it."""
        if self.group is None or id != self.group.view.id:
            return (id,)
        return (id, *(id for id, each in self.containers.items() if each.view.in_shared_group))

    @cached_property
    def reach(self) -> Reach:
        """Where everybody may be running. Containers that are left alone count as little as the host's processes do,
        and those of a group are where the group is.
        """
        assignments = self.state.assignments
        apart = (Standing.UNMANAGED, Standing.MEMBER)
        return reach_of(
            (container.footprint, id in assignments)
            for id, container in self.containers.items()
            if container.wish.standing not in apart
        )


def without(mapping: Mapping[str, T], id: str) -> Mapping[str, T]:
    """The mapping without a container; the same one where it does not speak of it."""
    return {key: value for key, value in mapping.items() if key != id} if id in mapping else mapping
