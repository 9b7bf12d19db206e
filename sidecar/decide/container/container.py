"""Container: one container as the daemon knows it. Only `machine` creates and changes it; all other modules read it.

A container's **footprint** is every CPU on which it may be running, or would run if it started now:

- where it was seen, and where the engine would start it, at any moment, unseen (`place`);
- the CPUs of an outstanding order (`line`);
- `doubts`: the CPUs of orders that failed half-way, whose answer was lost, or that an overlapping look contradicts;
- the CPUs in the answer to a held start (`start`);
- where the hand wrote it, writes it now, or would at its birth (`grip`, `answers`).

What the hand guards (`is_guarded`) stays where it was written: doubts of the engine's orders do not count, and neither
does what the engine has configured if the hand covers its births.

It is **sure** of the CPUs that it has whichever of these is true. Only these are ever reported to the workload.
"""

from __future__ import annotations

import enum

import msgspec

from sidecar.decide.container.grip import Closed, Grip, Guarded, Loose, Writing
from sidecar.decide.container.line import BEHIND_A_START, Barred, Doubt, Ends, Fault, FaultKind, Free, Line, Sent
from sidecar.decide.container.place import Place
from sidecar.decide.container.start import Answered, Held, Plain, Start
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.orders import ApplyCpuset
from sidecar.systemd_names import is_inside_a_container
from state.cpuset import EMPTY, CPUSet
from state.demand import Demand, MemsRule
from state.derived_property import derived_property
from state.exec_rule import ExecRule
from state.mistakes import Mistake
from state.refusal import Refusal


class Standing(enum.StrEnum):
    """What a container is to the sidecar, from its labels and settings alone."""

    MANAGED = "managed"
    """In the shared pool, or exclusive if its demand is granted."""
    MEMBER = "member"
    """In the shared pool through its cgroup, the shared group: it may run where the group may. It has no own cpuset."""
    STRANGER = "stranger"
    """Pinned by hand: never moved, and its CPUs are granted to no other container."""
    UNMANAGED = "unmanaged"
    """Left alone entirely."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a container is, and what it asks for: a demand, or the reason why its request cannot be understood."""

    standing: Standing
    demand: Demand | None = None
    refusal: Refusal | None = None
    warnings: tuple[Mistake, ...] = ()
    mems: MemsRule = MemsRule.KEEP
    """The rule for its memory nodes. The label applies whether the container asks for CPUs or not."""
    rule: str = ""
    """The place of the configuration's rule from which it has labels; "" if all are its own."""
    is_kept_out: bool = False
    """Whether its label or the configuration keeps it out: it runs as it is, and what was changed is restored."""
    is_kept_out_by_owner: bool = False
    """Whether the configuration does: the owner's word is the right `pin` as well, if it is pinned by hand."""
    exec: ExecRule | None = None
    """Where processes begin that join it; None for the node's rule."""
    pin: CPUSet = EMPTY
    """Where it is pinned by hand without the right to stay there: it has those of these CPUs that are in the shared
    pool, as long as one is. Empty if it is not pinned so, or asks for CPUs.
    """


class Container(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One container as last seen. Three state machines determine what may happen to it: its `line` of orders to the
    engine, its `start`, and the hand's `grip` on its cgroup.
    """

    view: ContainerView
    """The last look, with the changes that orders are known to have made since."""
    wish: Wish
    arrival: int
    """The order of first sightings: higher is later."""
    known: int
    """The ticket of the newest news. News with an older ticket is outdated."""
    place: Place
    looked: int = 0
    """The ticket of the newest look, or of the glance that alone has shown it: an order's outcome is news, and no look.
    """
    line: Line = Free()
    barred: Barred | None = None
    """The update that is not repeated until its pause is over or another run begins."""
    doubts: tuple[Doubt, ...] = ()
    start: Start = Plain()
    fault: Fault | None = None
    """The last fault, until an order succeeds."""
    keeps_mems: bool = False
    """Whether an order that changed its memory nodes failed: a change of CPUs must not fail because of them again."""
    is_slow: bool = False
    """Whether its last order was answered late, or not at all: another program may hold its lock in the engine."""
    is_lapsed: bool = False
    """Whether it has rested for longer than it may keep its CPUs."""
    is_young: bool = False
    """Whether it was not there yet when the sidecar first counted containers, and came a moment ago."""
    grip: Grip = Loose()
    answers: tuple[CPUSet, ...] = ()
    """What the hand may write at its next birth: its answer in force, and one that is sent; empty without a hand."""
    is_covered: bool = False
    """Whether the hand answers each of its births: it never runs where the engine has configured it."""

    @property
    def order(self) -> ApplyCpuset | None:
        """The outstanding order; None if there is none."""
        return self.line.order if isinstance(self.line, Sent) else None

    @derived_property
    def is_strict(self) -> bool:
        """Whether its runtime asks before each start: it never starts unseen, and its configured CPUs do not count."""
        return not isinstance(self.start, Plain)

    @derived_property
    def is_held(self) -> bool:
        """Whether its start is held, waiting for an answer."""
        return isinstance(self.start, Held)

    @derived_property
    def is_starting(self) -> bool:
        """Whether a start of it was answered, and no look has shown it run since: it is about to run, or runs, on the
        CPUs of the answer, unless the start failed.
        """
        return self.is_idle and isinstance(self.start, Answered)

    @property
    def is_let_start(self) -> bool:
        """Whether a held start of it went on as it was, and no look has shown since what became of it: it is about to
        run, or runs, where it is configured. It may have not chosen the runtime that asked.
        """
        return self.is_idle and any(self.is_strict or doubt.ends is Ends.LOOK for doubt in self.doubts)

    @property
    def is_promised(self) -> bool:
        """Whether it was told to start on CPUs of its own, and no look has shown it run since."""
        return self.is_starting and isinstance(self.start, Answered) and self.start.is_exclusive

    @derived_property
    def is_idle(self) -> bool:
        """Whether it runs no process now. It may start at any moment."""
        return not self.view.phase.is_live

    @derived_property
    def may_change_unseen(self) -> bool:
        """Whether a lost order may still take effect, which no look can rule out, or an answered start."""
        return isinstance(self.start, Answered) or any(doubt.ends is Ends.ORDER for doubt in self.doubts)

    @property
    def may_change_memory(self) -> bool:
        """Whether such an order or start may change its memory nodes, too."""
        return isinstance(self.start, Answered) or any(
            doubt.ends is Ends.ORDER and doubt.has_mems for doubt in self.doubts
        )

    @property
    def is_unread(self) -> bool:
        """Whether its engine has not shown its labels yet: the kernel alone tells that it is there."""
        return self.view.is_glance and not self.view.labels and not self.view.image

    @property
    def is_held_back(self) -> bool:
        """Whether its last order had no effect: the kernel gives it other CPUs than the engine has configured."""
        return self.fault is not None and self.fault.kind is FaultKind.INEFFECTIVE

    @property
    def is_stuck(self) -> bool:
        """Whether it cannot be moved now: the engine does not answer its order, or did not, and no hand guards it."""
        is_late = isinstance(self.line, Sent) and self.line.is_late
        is_lost = self.fault is not None and self.fault.kind is FaultKind.LOST
        return (is_late or is_lost) and not self.is_guarded

    @property
    def is_disputed(self) -> bool:
        """Whether news contradicts itself about its existence: it gets no order before the next look."""
        return bool(self.doubts) and any(doubt.ends is Ends.SIGHT for doubt in self.doubts)

    @property
    def is_doubtful(self) -> bool:
        """Whether it may be, or may come to be, on CPUs other than those seen, configured or ordered."""
        return bool(self.doubts) or isinstance(self.start, Answered)

    @derived_property
    def is_guarded(self) -> bool:
        """Whether the hand undoes what an order of the engine does to it, or will do it at its birth."""
        if self.is_idle:
            return self.is_covered
        return isinstance(self.grip, Guarded) or (isinstance(self.grip, Writing) and self.grip.is_guarded)

    @property
    def is_by_hand(self) -> bool:
        """Whether the hand moves it: it is live, the hand covers it, and can write it."""
        return self.is_covered and not self.is_idle and not isinstance(self.grip, Closed)

    @property
    def written(self) -> CPUSet:
        """Where it would start now: what the hand answers, or what the engine has configured."""
        return self.answers[-1] if self.is_covered else self.place.configured

    @property
    def pulled(self) -> CPUSet:
        """Other CPUs than those seen, on which it may be by what the hand did."""
        return EMPTY if isinstance(self.grip, Guarded) else self.grip.unsure

    @property
    def starts_as_configured(self) -> bool:
        """Whether it may start unseen where the engine has configured it."""
        return not self.is_strict and not self.is_covered

    @derived_property
    def coming(self) -> int:
        """The CPUs that it may come to have by an order, a doubt, a start or the hand, as a mask."""
        mask = 0
        for cpus in self._coming():
            mask |= cpus.mask
        return mask

    @derived_property
    def coming_by_hand(self) -> int:
        """The CPUs that it may come to have by the hand, as a mask."""
        mask = 0
        for cpus in self._coming_by_hand():
            mask |= cpus.mask
        return mask

    def _coming_by_hand(self) -> list[CPUSet]:
        grip, found = self.grip, [*self.answers]
        if isinstance(grip, Guarded):
            found.append(grip.cpus)
        if isinstance(grip, Writing):
            found.append(grip.order.update.cpus)
        if pulled := self.pulled:
            found.append(pulled)
        return found

    def _coming(self) -> list[CPUSet]:
        """Return each set of CPUs that it may come to have."""
        line, found = self.line, self._coming_by_hand()
        if self.is_guarded:
            # An order that is carried out shows for an instant. One that is late may never be, and is not waited for.
            if isinstance(line, Sent) and not line.is_late and not self.is_idle:
                found.append(line.order.update.cpus)
            return found
        if isinstance(line, Sent):
            found.append(line.order.update.cpus)
        for doubt in self.doubts:
            # One that starts as configured may start anywhere, as long as a glance alone has shown it.
            if doubt.ends is not Ends.ENGINE or not self.starts_as_configured:
                found.append(doubt.cpus)
        if isinstance(self.start, Answered):
            found.append(self.start.cpus)
        return found

    @derived_property
    def is_followed(self) -> bool:
        """Whether its start is held, and an order may wait in the engine behind that: it takes effect afterwards."""
        if not self.is_held or self.is_guarded:
            return False
        return isinstance(self.line, Sent) or any(doubt.ends in BEHIND_A_START for doubt in self.doubts)

    @derived_property
    def present(self) -> CPUSet:
        """The CPUs where it was last seen, or where its answered start puts it, of which no look tells yet."""
        return self.start.cpus if self.is_idle and isinstance(self.start, Answered) else self.place.seen

    @derived_property
    def footprint(self) -> int:
        """Every CPU on which it may be running, or would run if it started now, as a mask."""
        if self.view.phase is Phase.DEAD:
            # Half removed: it can neither be started nor updated, so its configured CPUs do not count.
            return 0
        if self.is_idle and self.wish.standing is Standing.STRANGER:
            # It starts where it is pinned. If these CPUs are offline, the engine does not start it.
            return self.coming | self.place.configured.mask
        if self.starts_as_configured:
            return self.coming | self.place.seen.mask | self.place.configured.mask
        return self.coming if self.is_idle else self.coming | self.place.seen.mask

    @derived_property
    def sure(self) -> CPUSet:
        """The CPUs that it has regardless of the outcome of orders outstanding or in doubt, and of unseen restarts; may
        be empty. Where an order leads that an earlier run of the sidecar left in the engine is not known. Nor is
        what the engine has configured, as long as a glance alone shows the container: what the kernel shows is sure.
        One that would start inside another container gets what that has then. What a lost hand may have moved is sure
        of nothing until a look or a write, and so is what a hand could not write: it may be another run, moved before.
        What slipped while it was written is sure of nothing until that is over.
        """
        if not self.view.phase.is_live and is_inside_a_container(self.view.cgroup_parent, self.view.pod):
            return EMPTY
        if not self.is_guarded and any(doubt.ends is Ends.ENGINE for doubt in self.doubts):
            return EMPTY
        if isinstance(self.grip, Loose) and (self.grip.is_moved or self.grip.unsure not in (EMPTY, self.place.seen)):
            return EMPTY
        if isinstance(self.grip, Closed) and self.grip.unsure:
            return EMPTY
        if isinstance(self.grip, Writing) and (self.grip.slipped or self.grip.is_moved):
            return EMPTY
        mask = self.place.seen.mask
        if self.view.is_glance and self.starts_as_configured and (self.answers or self.pulled or self.is_disputed):
            # The hand may move its group as anybody's, or may have before it was lost, also since this glance.
            return EMPTY
        if self.view.is_glance and (self.starts_as_configured or not self.is_idle):
            mask &= (self.view.effective or EMPTY).mask
        if self.starts_as_configured:
            mask &= self.place.configured.mask
        for cpus in self._coming():
            mask &= cpus.mask
        return CPUSet.from_mask(mask)
