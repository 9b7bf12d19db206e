"""News of one container: the input of its state machine, from facts and from the daemon's own orders and answers."""

from __future__ import annotations

import msgspec

from sidecar.decide.container.container import Wish
from sidecar.decide.container.line import Ends
from sidecar.decide.container.place import Place
from sidecar.decide.facts import ContainerView
from sidecar.decide.orders import ApplyCpuset, Update, WriteCpuset
from state.cpuset import CPUSet


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """A look that is newer than all earlier news, at ticket `began`, with the place and the wish read from it."""

    view: ContainerView
    place: Place
    wish: Wish
    began: int


class OrderSent(msgspec.Struct, frozen=True):
    """An order is sent."""

    order: ApplyCpuset


class OrderApplied(msgspec.Struct, frozen=True):
    """The order took effect. `effective` is what the kernel shows afterwards, None if it shows nothing."""

    effective: CPUSet | None
    ended: int


class OrderRefused(msgspec.Struct, frozen=True):
    """The engine refused the order: nothing changed."""

    text: str


class OrderFailed(msgspec.Struct, frozen=True):
    """The engine failed while it carried out the order: kernel and engine may disagree."""

    text: str
    ended: int


class OrderLost(msgspec.Struct, frozen=True):
    """No answer came to the order: it may still take effect."""

    text: str


class OrderIneffective(msgspec.Struct, frozen=True):
    """The engine accepted the order, but the container is on `seen`; `effective` is what the kernel shows, None if it
    shows nothing.
    """

    seen: CPUSet
    effective: CPUSet | None
    text: str
    ended: int


class AnswerOverdue(msgspec.Struct, frozen=True):
    """The answer to the order is overdue."""


class PauseEnded(msgspec.Struct, frozen=True):
    """The pause after the failed order of this number is over."""

    order: int


class HeldBack(msgspec.Struct, frozen=True):
    """Its last order had no effect, as the State remembers; `text` is for people. A look shows the same without one:
    "". None: a look shows the end of it.
    """

    text: str | None


class NotStopped(msgspec.Struct, frozen=True):
    """A stop of the container failed."""

    text: str


class WishRead(msgspec.Struct, frozen=True):
    """Settings or the machine changed, and its wish was read again."""

    wish: Wish


class CpusCame(msgspec.Struct, frozen=True):
    """These CPUs came online, to those that were. Until a look, it may be in this place: on those for which it is
    configured as well. If it may be anywhere, it may be on them.
    """

    place: Place
    came: CPUSet
    online: CPUSet


class CpusWent(msgspec.Struct, frozen=True):
    """All CPUs on which it was seen went offline: until a look, it may run anywhere on those that are left. Or all to
    which an order leads, outstanding or lost: so it may until that ends.
    """

    online: CPUSet
    ends: Ends = Ends.LOOK


class Recognized(msgspec.Struct, frozen=True):
    """News other than a look changed what a look would show, and its wish was read from that."""

    wish: Wish


class Lapsed(msgspec.Struct, frozen=True):
    """It has rested for as long as it may keep its CPUs."""


class Came(msgspec.Struct, frozen=True):
    """It came while the sidecar was watching."""


class Lasted(msgspec.Struct, frozen=True):
    """It came a while ago."""


class Disputed(msgspec.Struct, frozen=True):
    """News contradicts itself about the container's existence."""


class HoldBegan(msgspec.Struct, frozen=True):
    """Its runtime asks about the start of this number. `view` and `place` are what the runtime's bundle shows, if that
    is news as a look would be (`with_bundle`). `is_usual`: it did not choose that runtime.
    """

    number: int
    began: int
    view: ContainerView | None = None
    place: Place | None = None
    is_usual: bool = False


class HoldGivenUp(msgspec.Struct, frozen=True):
    """The runtime gave up the held start: it did not happen."""


class HoldAnswered(msgspec.Struct, frozen=True):
    """The held start goes on with `update`, unchanged if that is None; if `is_refused`, not at all. If `is_exclusive`,
    the CPUs of the update are its own.
    """

    update: Update | None
    is_refused: bool
    is_exclusive: bool = False


class WriteSent(msgspec.Struct, frozen=True):
    """A write of its cgroup is ordered from the hand."""

    order: WriteCpuset


class WriteDone(msgspec.Struct, frozen=True):
    """The hand wrote its cgroup, which shows these CPUs."""

    effective: CPUSet
    ended: int


class WriteUndone(msgspec.Struct, frozen=True):
    """The hand could not write its cgroup. `is_missing`: it found none."""

    text: str
    is_missing: bool
    ended: int


class SlipTold(msgspec.Struct, frozen=True):
    """The hand can neither guard nor move it any more, `text` is why; it may be on any of these CPUs."""

    text: str
    cpus: CPUSet
    ended: int


class AnswersTold(msgspec.Struct, frozen=True):
    """The hand may answer its next birth with any of these; none without a hand. `is_covered`: it surely answers it."""

    answers: tuple[CPUSet, ...]
    is_covered: bool


class LetGo(msgspec.Struct, frozen=True):
    """The hand leaves it alone, or is lost: it may be on these CPUs, although no look has shown it there."""

    cpus: CPUSet
    ended: int = 0


LineNews = (
    Looked
    | OrderSent
    | OrderApplied
    | OrderRefused
    | OrderFailed
    | OrderLost
    | OrderIneffective
    | AnswerOverdue
    | PauseEnded
    | WishRead
)
"""The input of the machine of orders."""

StartNews = Looked | OrderApplied | OrderIneffective | HoldBegan | HoldGivenUp | HoldAnswered
"""The input of the machine of starts."""

GripNews = Looked | HoldBegan | WriteSent | WriteDone | WriteUndone | SlipTold | AnswersTold | LetGo
"""The input of the machine of the hand's grip."""

News = (
    LineNews
    | StartNews
    | GripNews
    | HeldBack
    | NotStopped
    | CpusCame
    | CpusWent
    | Recognized
    | Lapsed
    | Disputed
    | Came
    | Lasted
)
