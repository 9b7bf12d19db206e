"""Line: the state of the last order to a container; and the doubts and faults that orders leave."""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from sidecar.decide.orders import ApplyCpuset, Update
from state.cpuset import CPUSet


class Free(msgspec.Struct, frozen=True, tag="free"):
    """No order is outstanding, so the next may be given."""


class Sent(msgspec.Struct, frozen=True, tag="sent"):
    """An order is outstanding.

    `is_overlapped`: a look arrived in the meantime, so neither the look nor the answer is conclusive. `is_late`: the
    answer is overdue, and the order no longer occupies a slot.
    """

    order: ApplyCpuset
    is_overlapped: bool = False
    is_late: bool = False


class Paused(msgspec.Struct, frozen=True, tag="paused"):
    """The order of this number failed. The next order is given after its `RetryDue`."""

    order: int


Line = Free | Sent | Paused


class Barred(msgspec.Struct, frozen=True):
    """An update that the engine refused, and the number of the refused order."""

    update: Update
    order: int


class Ends(enum.StrEnum):
    """The event that ends a doubt."""

    LOOK = "look"
    """The next look, the next order that is carried out, or a start that is held: what it is about is over then."""
    ENGINE = "engine"
    """The next look, or the next order that is carried out: each of them waits behind what an earlier run of the
    sidecar left in the engine for the container. A glance does not, nor does the hold of a start.
    """
    ORDER = "order"
    """The next order that is carried out: until then a lost order may still take effect. The engine does one thing at a
    time, but it may refuse an order before it begins.
    """
    SIGHT = "sight"
    """The next look only. News contradicts itself about the container's existence. Its last known place is in doubt,
    and it gets no order.
    """


BEHIND_A_START: Final = (Ends.ENGINE, Ends.ORDER)
"""Doubts about orders that may wait in the engine behind a start that is held."""


class Doubt(msgspec.Struct, frozen=True):
    """CPUs on which a container may be running, or may come to run, although no look has shown it there. `has_mems` if
    its memory nodes may change with them.
    """

    cpus: CPUSet
    ends: Ends
    has_mems: bool = False


class FaultKind(enum.StrEnum):
    """The kind of the last fault of a container."""

    REFUSED = "refused"
    """The engine refused an order, and did nothing."""
    FAILED = "failed"
    """The engine tried an order, and failed."""
    LOST = "lost"
    """No answer came."""
    INEFFECTIVE = "ineffective"
    """The engine accepted an order, but the kernel shows other CPUs."""
    NOT_STOPPED = "not-stopped"
    """A stop for lack of CPUs failed."""


class Fault(msgspec.Struct, frozen=True):
    """The last fault. Decisions read `kind`; `text` is for people, in the words of the engine."""

    kind: FaultKind
    text: str
