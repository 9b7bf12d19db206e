"""World: all that the allocator knows: the State, the machine, the settings, and each container as last seen.

Nothing here changes in place: `replace` makes new values, dicts are never written to. Each mapping but `containers` has
one writer: moves/timers that of `timers`, moves/signals of `signalled` and `stops`, books/load_wish of `loads`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import msgspec

from sidecar.decide.contacts import Contact, UnitSources, info_of, sees_all, starting_unseen
from sidecar.decide.container.askers import is_waiting
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.footprint import Reach, reach_of
from sidecar.decide.container.place import cpus_of
from sidecar.decide.facts import EngineInfo, Load, Phase, Purpose, ViewKind
from sidecar.decide.hand_state import HandState, has_place, is_insider, owned_by_strays
from sidecar.decide.settings import PolicyName, Settings, TenantRight
from state.claim import claimed
from state.cpuset import EMPTY, CPUSet, union
from state.derived_property import derived_property
from state.key import ContainerKey
from state.model import State
from state.refusal import Refusal
from state.topology import Topology

replace = msgspec.structs.replace
K = TypeVar("K")
T = TypeVar("T")


class Told(msgspec.Struct, frozen=True):
    """What was last reported to a workload: the CPUs in force, and those of them that are leaving."""

    cpus: CPUSet
    leaving: CPUSet


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What a refit did to the grant of the container `name`, which `held` these CPUs: now it `holds` others, or none
    because of a refusal.
    """

    name: str
    held: CPUSet
    holds: CPUSet = EMPTY
    refusal: Refusal | None = None


class World(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything that decisions depend on. `numbers` is the next number for orders, timers and arrivals."""

    state: State
    topology: Topology
    settings: Settings
    containers: Mapping[ContainerKey, Container] = {}
    timers: Mapping[ContainerKey, Mapping[Purpose, int]] = {}
    """The numbers of the running timers, by container and purpose."""
    signalled: Mapping[ContainerKey, Told] = {}
    """By container, what was last reported to it, for those that ask for a signal."""
    stops: Mapping[ContainerKey, str] = {}
    """By container, `started_at` of the start that was last ordered to stop."""
    loads: Mapping[ContainerKey, Load] = {}
    """By container, its last load."""
    contacts: Mapping[str, Contact] = {}
    """The engines of this host by their names, as far as these are known."""
    sources: UnitSources = UnitSources()
    """Where the units of this host come from, and of which of these they are known."""
    is_releasing: bool = False
    is_defragmenting: bool = False
    """Whether an exchange was ordered: the next decision looks for better CPUs."""
    is_answered: bool = False
    """Whether the last decision answered all containers that asked, and left the grants as they were."""
    numbers: int = 0
    horizon: int = 0
    """The newest ticket of a removal, an inventory or the end of a hand: an older look at an unknown container proves
    nothing.
    """
    notes: tuple[Note, ...] = ()
    """The changes that the last refit made to grants, for people."""
    hand: HandState | None = None
    """The hand on the cgroups; None without one: then the engine alone changes CPUs."""
    handless: str = ""
    """Why there is no hand, as a sentence's end; "" if that is not known."""

    @derived_property
    def is_ready(self) -> bool:
        """Whether an inventory of any engine was taken since that was reached. No order is given before."""
        return any(each.is_ready for each in self.contacts.values())

    @derived_property
    def sees_all(self) -> bool:
        """Whether that is so of every engine."""
        return sees_all(self.contacts.values())

    def is_absent(self, key: ContainerKey) -> bool:
        """Return whether the engine of a container is not ready: it keeps what it has, and is answered and ordered
        nothing. A unit, or what belongs to an unknown engine, is with all engines alone; a unit until it is listed too.
        """
        if contact := self.contacts.get(key.engine):
            return not contact.is_ready
        return not (self.is_ready and (not key.is_unit or key.engine in self.sources.listed))

    def is_away(self, key: ContainerKey) -> bool:
        """Return whether the engine of a container is not reached; all engines, if it is not known of which it is."""
        contact = self.contacts.get(key.engine)
        return all(each.is_away for each in (self.contacts.values() if contact is None else (contact,)))

    def info_of(self, engine: str) -> EngineInfo | None:
        """Return what an engine told of itself, or else the only engine; None if it is not known."""
        return info_of(self.contacts, engine)

    @property
    def engine(self) -> EngineInfo | None:
        """What the first engine told of itself that was reached; None if none was."""
        return next((each.info for each in self.contacts.values() if each.info), None)

    def with_contact(self, name: str, contact: Contact) -> World:
        """Return the world in which this is what is known of an engine."""
        return replace(self, contacts={**self.contacts, name: contact})

    @derived_property
    def is_blind(self) -> bool:
        """Whether containers may start now unseen and anywhere, because no hand surely answers their births."""
        hand, unseen = self.hand, starting_unseen(self.contacts)
        return any(hand is None or not hand.answers_births_of(name, self.contacts) for name in unseen)

    def with_container(self, container: Container) -> World:
        """Return the world with this container, new or replaced."""
        return replace(self, containers={**self.containers, container.view.key: container})

    def without_container(self, key: ContainerKey, ticket: int) -> World:
        """Return the world, and its State, without a container that was found not to exist at `ticket`."""
        state = self.state.forgetting(key)
        return replace(
            self,
            containers=without(self.containers, key),
            timers=without(self.timers, key),
            signalled=without(self.signalled, key),
            stops=without(self.stops, key),
            loads=without(self.loads, key),
            state=replace(state, has_gaps=True) if key in self.state.assignments else state,
            horizon=max(self.horizon, ticket),
        )

    def named(self, engine: str) -> World:
        """Return the world in which this engine has claimed the records that name no engine."""
        state = claimed(self.state, engine)
        return self if state is self.state else replace(self, state=state)

    def key_of(self, id: str) -> ContainerKey:
        """Return the key of a container by its id alone: of the known or recorded container with this id, or else of
        the only engine; one that names none, if there are several.
        """
        for key in (*self.containers, *self.state.assignments, *self.state.originals):
            if key.id == id:
                return key
        return ContainerKey(next(iter(self.contacts)) if len(self.contacts) == 1 else "", id)

    @derived_property
    def strangers(self) -> CPUSet:
        """The CPUs on which containers pinned by hand run, would start, or are at home: no others are granted them."""
        mask = 0
        for container in self.containers.values():
            mask |= self.kept_by_pin(container)
        return CPUSet.from_mask(mask)

    def kept_by_pin(self, container: Container) -> int:
        """Return the CPUs, as a mask, that no other container is granted now because this one is pinned there by hand.

        Without the right to be there, it keeps what was granted to none, and is kept for none, as long as it runs. One
        whose pin is offline is pinned to none of those where it runs, nor is one that is displaced.
        """
        if container.wish.standing is Standing.STRANGER and self.holds_its_pin(container):
            if not self.is_displaced(container):
                return container.footprint if self.has_pin_online(container) else 0
            return self.home_of(container).mask
        if container.is_idle or not container.wish.pin:
            return 0
        state = self.state
        return container.wish.pin.mask & ~(state.exclusive | state.leaving | state.vacant).mask

    def has_pin_online(self, container: Container) -> bool:
        """Return whether any of the CPUs that are configured for a container that is pinned by hand is online."""
        return not container.place.configured.isdisjoint(self.topology.online)

    def holds_its_pin(self, container: Container) -> bool:
        """Return whether one that is pinned by hand keeps its CPUs from others now: while it rests, only if tenants may
        pin, or the owner of the host kept it out, or pinned it, as a unit of its own.
        """
        is_the_hosts = container.wish.is_kept_out_by_owner or container.view.kind is ViewKind.UNIT
        has_right = is_the_hosts or TenantRight.PIN in self.settings.may
        return has_right or not container.is_idle

    def pool_for(self, container: Container, pool: CPUSet) -> CPUSet:
        """Return where a container without a grant runs: on the CPUs to which it is pinned by hand, as far as no other
        container has or is leaving them, and its shared group is there; in this pool if none is left.
        """
        state = self.state
        pin = container.wish.pin & pool if container.view.in_shared_group else container.wish.pin
        return (pin and pin & (state.online - state.exclusive - state.leaving)) or pool

    def stuck_beside(self, key: ContainerKey) -> CPUSet:
        """Return the CPUs on which containers other than this one may be that cannot be moved now: no owner is settled
        there soon.
        """
        return union(CPUSet.from_mask(each.footprint) for each in self._stuck if each.view.key != key)

    @derived_property
    def _stuck(self) -> tuple[Container, ...]:
        return tuple(each for key, each in self.containers.items() if each.is_stuck or self.is_absent(key))

    def is_displaced(self, container: Container) -> bool:
        """Return whether the sidecar moved a container that is pinned by hand, and it is not back (`moves/release`)."""
        is_pinned = container.wish.standing is Standing.STRANGER and not container.wish.is_kept_out
        has_way = self.settings.policy is not PolicyName.NONE and container.view.phase is not Phase.DEAD
        return is_pinned and has_way and container.view.key in self.state.originals

    def home_of(self, container: Container) -> CPUSet:
        """Return the online CPUs to which its owner pinned a container that is displaced; none of any other."""
        originals = self.state.originals.get(container.view.key) if self.is_displaced(container) else None
        return cpus_of(originals.cpuset, EMPTY) & self.state.online if originals else EMPTY

    @derived_property
    def derived(self) -> dict[Hashable, tuple[object, object]]:
        """What functions have derived from this world and its grants, for the same questions: no part of its value."""
        return {}

    @derived_property
    def queue(self) -> tuple[ContainerKey, ...]:
        """The containers that are granted CPUs as soon as these come free, in their turns (`books/queue`)."""
        waiting = [
            (-refused.demand.priority, refused.asked or 0, key)
            for key, refused in self.state.refusals.items()
            if refused.demand and (container := self.containers.get(key)) and is_waiting(container, refused)
        ]
        return tuple(key for *_, key in sorted(waiting))

    @derived_property
    def group(self) -> Container | None:
        """The shared group, as if it were a container; None if there is none."""
        if not self.settings.shared_slice:
            return None
        return next((each for each in self.containers.values() if each.view.kind is ViewKind.GROUP), None)

    def sure_of(self, container: Container) -> CPUSet:
        """Return the CPUs that a container has regardless of the outcome of orders: in a group, only the group's.

        One whose pin is outside its group has all of the group's until that changes, and is sure of none; a glance may
        hide such a pin. One that is held back has what a look shows. An insider is sure of none, and so is one that is
        left alone or released, and not displaced, as long as the hand may answer its birth, until the next look; and
        one that the hand may move, because it does not know it yet.
        """
        if is_insider(self.hand, container.view.key) or self.is_let_go(container) or self._may_be_answered(container):
            return EMPTY
        if not container.view.in_shared_group or self.group is None:
            return container.sure
        configured = container.place.configured & cpus_of(container.view.cpuset, self.state.online)
        if container.view.is_glance:
            return EMPTY
        is_member = container.wish.standing is Standing.MEMBER and not container.is_held_back
        return self.group.sure & (configured if is_member else configured & container.sure)

    def confined_by(self, key: ContainerKey) -> tuple[ContainerKey, ...]:
        """Return the containers whose CPUs an order to this one changes: itself and, for the group, its members."""
        if self.group is None or key != self.group.view.key:
            return (key,)
        return (key, *(member for member, each in self.containers.items() if each.view.in_shared_group))

    @derived_property
    def reach(self) -> Reach:
        """Where containers are for which others wait: those that the sidecar places, and those that have a grant.

        1. Others wait for one that is pinned by hand if it has a grant, as while its engine is away, or was moved. One
           that was told to start alone counts as if it had a grant, until that start is over.
        2. One that may start where no hand answers, and that cannot be ordered because its lock is held, runs nothing.
           It counts where hand and orders may put it. No other is alone where it may start (`may_run`).
        3. Members of the shared group are represented by the group, and newborns are one more container.
        """
        return self.reach_by(self.counted)

    def reach_by(self, count: Callable[[Container], int]) -> Reach:
        """Return the same, where others wait for each container as this function counts."""
        grants = self.state.assignments
        placed = (
            (count(each), key in grants or each.is_promised)
            for key, each in self.containers.items()
            if each.wish.standing is Standing.MANAGED or key in grants or each.is_promised or self.is_displaced(each)
        )
        return reach_of((*placed, (self.newborns, False)))

    def counted(self, container: Container) -> int:
        """Return where others wait for a container, as a mask (`reach`, 2)."""
        return container.coming if container.view.is_glance and self.is_unmet(container) else container.footprint

    def is_unmet(self, container: Container) -> bool:
        """Return whether a container is known by a glance alone beside a hand, rests, and may start unseen where no
        hand answers: it may name any cgroup parent.
        """
        is_unknown = container.view.is_glance and container.is_idle and container.starts_as_configured
        return is_unknown and self.hand is not None and self.hand.is_answering

    def parent_of(self, container: Container) -> str | None:
        """Return the cgroup parent that a container names, which never changes; "" if it names none, and None if that
        is not known: a glance does not show it, but the books may have it.
        """
        if not container.view.is_glance or container.view.cgroup_parent:
            return container.view.cgroup_parent
        originals = self.state.originals.get(container.view.key)
        return originals.parent if originals is not None else None

    @derived_property
    def promised(self) -> int:
        """The CPUs, as a mask, on which containers were told to start alone, and are not seen running yet."""
        return reach_of((each.present.mask, True) for each in self.containers.values() if each.is_promised).exclusive

    @derived_property
    def starting(self) -> int:
        """The CPUs, as a mask, on which any containers were told to start, and are not seen running yet."""
        return reach_of((each.present.mask, False) for each in self.containers.values() if each.is_starting).touched

    @derived_property
    def newborns(self) -> int:
        """The CPUs, as a mask, on which cgroups may be that were born and are not known yet. One that turns out to be
        left alone is one of them until the hand lets it go.
        """
        if self.hand is None or not self.hand.is_answering:
            return self.hand.newborns(self.state.online) if self.hand else 0
        known, placed = {*self.state.assignments}, (Standing.MANAGED, Standing.MEMBER)
        known.update(key for key, each in self.containers.items() if each.wish.standing in placed)
        shown = {key for key, each in self.containers.items() if has_place(each.view)}
        return self.hand.newborns(self.state.online) | owned_by_strays(self.hand, known, shown)

    def may_run(self, container: Container) -> int:
        """Return the CPUs, as a mask, on which a container may run now, as far as the sidecar can see.

        1. A member of the shared group is represented by the group.
        2. One whose cpuset is wrested from the hand may be anywhere while it runs.
        3. One that the sidecar places, or that is pinned by hand, may start at any moment: its footprint counts.
        4. One that is left alone, and that the hand lets go, may be anywhere until the look that follows.
        5. An unmanaged one may run anywhere, so it counts only while it runs, and while it is about to: it restarts,
           the engine holds its lock, or its held start goes on.
        6. In the shared group no container has CPUs outside the group's.
        """
        standing, view, group = container.wish.standing, container.view, self.group
        # 1. A member.
        if standing is Standing.MEMBER and group is not None:
            return 0
        # 2. Wrested.
        if self.hand is not None and view.key in self.hand.wrested and not container.is_idle:
            return self.state.online.mask
        # 3. Placed, or pinned.
        if standing in (Standing.MANAGED, Standing.MEMBER):
            return container.footprint
        # 4. Let go.
        if self.is_let_go(container):
            mask = self.state.online.mask
        elif standing is Standing.STRANGER:
            mask = container.footprint
        # 5. Unmanaged.
        elif view.phase.is_live and not view.is_glance:
            mask = container.place.seen.mask
        elif view.phase is Phase.RESTARTING or view.is_glance or container.is_let_start:
            mask = container.footprint
        else:
            return 0
        # 6. In the group.
        return mask & group.footprint if view.in_shared_group and group is not None else mask

    def is_let_go(self, container: Container) -> bool:
        """Return whether the hand is letting go this live container: it gets back what only the hand knows."""
        is_let_go = bool(container.pulled) or (self.hand is not None and self.hand.lets_go(container.view.key))
        return is_let_go and (_runs_unmoved(container) or (self.is_releasing and not container.is_idle))

    def _may_be_answered(self, container: Container) -> bool:
        """Return whether the hand does not know this live container yet, or not that it is left alone."""
        hand, key = self.hand, container.view.key
        if hand is None or container.is_idle:
            return False
        is_left_alone = _runs_unmoved(container) and not self.is_displaced(container)
        return bool(hand.answers_for(key) if is_left_alone else container.answers and hand.returned_to(key))

    @derived_property
    def company(self) -> Reach:
        """Where containers may run now, including those that the sidecar never moves."""
        known = ((self.may_run(each), key in self.state.assignments) for key, each in self.containers.items())
        return reach_of((*known, (self.newborns, False)))


def without(mapping: Mapping[K, T], key: K) -> Mapping[K, T]:
    """Return the mapping without a key; the same mapping if it does not contain it."""
    return {each: value for each, value in mapping.items() if each != key} if key in mapping else mapping


def _runs_unmoved(container: Container) -> bool:
    """Return whether it is live and left alone."""
    return container.view.phase.is_live and container.wish.standing not in (Standing.MANAGED, Standing.MEMBER)
