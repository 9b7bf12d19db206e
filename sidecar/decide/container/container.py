"""Container: one container as the daemon knows it. Only `machine` makes one; everybody else reads.

A container's **footprint** is everywhere that it may be running, or would run if it started now:

- where it was seen, and where the engine would start it, at any moment, unseen (`place`);
- the CPUs of an order that is not answered yet (`line`);
- `doubts`: the CPUs of orders that failed half-way, or whose answer was lost, or that a look overlapped and
  contradicts;
- the CPUs that a held start was answered with (`start`).

What it is **sure** of is what it has whichever of these is true: nothing else is ever told to the workload.
"""

from __future__ import annotations

import enum
from functools import cached_property

import msgspec

from sidecar.decide.container.line import Barred, Doubt, Ends, Fault, Free, Line, Sent
from sidecar.decide.container.place import Place
from sidecar.decide.container.start import Answered, Held, Plain, Start
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.orders import ApplyCpuset
from state.cpuset import CPUSet
from state.mistakes import Mistake
from state.model import Demand, MemsRule
from state.refusal import Refusal


class Standing(enum.StrEnum):
    """What a container is to the sidecar, from its labels and settings alone."""

    MANAGED = "managed"
    """In the shared pool, or exclusive where its demand is granted."""
    MEMBER = "member"
    """In the shared pool by the cgroup that it lives in: wherever that may run, it may; it has no CPUs of its own."""
    STRANGER = "stranger"
    """Pinned by hand: never moved, and its CPUs are given to nobody."""
    UNMANAGED = "unmanaged"
    """Left alone entirely."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a container is, and what it asks for: a demand, or why what it asks cannot be understood."""

    standing: Standing
    demand: Demand | None = None
    refusal: Refusal | None = None
    warnings: tuple[Mistake, ...] = ()
    mems: MemsRule = MemsRule.KEEP
    """What becomes of its memory nodes; its label counts whether it asks for CPUs or not."""


class Container(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One container as last seen. Two small machines say what may happen to it: its `line` and its `start`."""

    view: ContainerView
    """The last look, with what orders are known to have changed since."""
    wish: Wish
    arrival: int
    """Orders first sights: higher is later."""
    known: int
    """The ticket of the newest news: older ones are old news."""
    place: Place
    line: Line = Free()
    barred: Barred | None = None
    """Not to be repeated before its pause is over, or another run began."""
    doubts: tuple[Doubt, ...] = ()
    start: Start = Plain()
    fault: Fault | None = None
    """What went wrong last, until an order succeeds."""
    keeps_mems: bool = False
    """Whether an order failed that changed its memory nodes: its CPUs are not to fail for them again."""
    is_lapsed: bool = False
    """Whether it rests for longer than it may keep its CPUs."""

    @property
    def order(self) -> ApplyCpuset | None:
        """The order that is not answered yet."""
        return self.line.order if isinstance(self.line, Sent) else None

    @cached_property
    def is_strict(self) -> bool:
        """Whether it never starts unseen, nor where the engine's configuration says: its runtime asks first."""
        return not isinstance(self.start, Plain)

    @cached_property
    def is_held(self) -> bool:
        """Whether a start of it waits for an answer."""
        return isinstance(self.start, Held)

    @cached_property
    def is_idle(self) -> bool:
        """Whether it runs nothing now, though it may start at any moment."""
        return not self.view.phase.is_live

    @cached_property
    def may_change_unseen(self) -> bool:
        """Whether something that was lost, or answered, may still take effect: a look ends no doubt of that."""
        return isinstance(self.start, Answered) or any(doubt.ends is Ends.ORDER for doubt in self.doubts)

    @property
    def is_disputed(self) -> bool:
        """Whether some news says that it is gone and other news that it is not: it is looked at before any order."""
        return any(doubt.ends is Ends.SIGHT for doubt in self.doubts)

    @property
    def is_doubtful(self) -> bool:
        """Whether it may be, or may come to be, elsewhere than where it was seen, is configured, or was ordered."""
        return bool(self.doubts) or isinstance(self.start, Answered)

    @cached_property
    def coming(self) -> int:
        """Mask of the CPUs that it may come to have: by an order, a doubt, or a start."""
        mask = self.line.order.update.cpus.mask if isinstance(self.line, Sent) else 0
        for doubt in self.doubts:
            mask |= doubt.cpus.mask
        return mask | self.start.cpus.mask if isinstance(self.start, Answered) else mask

    @cached_property
    def footprint(self) -> int:
        """Mask of everywhere that it may be running."""
        if self.view.phase is Phase.DEAD:
            # Half removed: it can neither be started nor updated, so what it is configured for holds no CPU.
            return 0
        if not self.is_strict:
            return self.coming | self.place.seen.mask | self.place.configured.mask
        return self.coming if self.is_idle else self.coming | self.place.seen.mask

    @cached_property
    def sure(self) -> CPUSet:
        """The CPUs that it has whatever became of every order on its way or in doubt, and though it may have been
        started anew, unseen; may be empty.
        """
        mask = self.place.seen.mask
        if isinstance(self.line, Sent):
            mask &= self.line.order.update.cpus.mask
        if not self.is_strict:
            mask &= self.place.configured.mask
        for doubt in self.doubts:
            mask &= doubt.cpus.mask
        return CPUSet.from_mask(mask & self.start.cpus.mask if isinstance(self.start, Answered) else mask)
