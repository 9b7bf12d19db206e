"""Line: what became of the last order to a container; and what is doubted and known to be wrong since."""

from __future__ import annotations

import enum

import msgspec

from sidecar.decide.orders import ApplyCpuset, Update
from state.cpuset import CPUSet


class Free(msgspec.Struct, frozen=True, tag="free"):
    """No order is outstanding: one may be given."""


class Sent(msgspec.Struct, frozen=True, tag="sent"):
    """An order is not answered yet.

    `is_overlapped`: a look arrived meanwhile, so neither it nor the answer is the last word. `is_late`: the answer is
    overdue, and other containers no longer wait for the slot.
    """

    order: ApplyCpuset
    is_overlapped: bool = False
    is_late: bool = False


class Paused(msgspec.Struct, frozen=True, tag="paused"):
    """The order of this number failed; the next is given once its `RetryDue` came."""

    order: int


Line = Free | Sent | Paused


class Barred(msgspec.Struct, frozen=True):
    """An update that the engine called wrong, and the number of the order that said so."""

    update: Update
    order: int


class Ends(enum.StrEnum):
    """What ends a doubt."""

    LOOK = "look"
    """The next look, or an order that is carried out."""
    ORDER = "order"
    """An order that is carried out: until then what was lost may still happen. The engine does one thing at a time, but
    it may refuse before it begins.
    """
    SIGHT = "sight"
    """The next look alone. Some news says that the container is gone, other news that it is not, so where it was last
    known to be is in doubt, and it is given no order.
    """


class Doubt(msgspec.Struct, frozen=True):
    """CPUs that a container may be running on, or may come to run on, though nobody saw it there."""

    cpus: CPUSet
    ends: Ends


class FaultKind(enum.StrEnum):
    """What went wrong with a container last."""

    REFUSED = "refused"
    """The engine called an order wrong, and did nothing."""
    FAILED = "failed"
    """The engine tried, and failed."""
    LOST = "lost"
    """No answer came."""
    INEFFECTIVE = "ineffective"
    """The engine accepted, and the kernel shows other CPUs."""
    NOT_STOPPED = "not-stopped"
    """It was to be stopped for want of CPUs, and was not."""


class Fault(msgspec.Struct, frozen=True):
    """What went wrong last. Decisions read `kind`; `text` is for people, in the words of the engine."""

    kind: FaultKind
    text: str
