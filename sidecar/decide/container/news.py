"""News of one container: what the machine hears. Facts say it to the daemon; orders and answers, to itself."""

from __future__ import annotations

import msgspec

from sidecar.decide.container.container import Wish
from sidecar.decide.container.place import Place
from sidecar.decide.facts import ContainerView
from sidecar.decide.orders import ApplyCpuset, Update
from state.cpuset import CPUSet


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """A look that is newer than all that is known, at ticket `began`; its place and its wish, as read from it."""

    view: ContainerView
    place: Place
    wish: Wish
    began: int


class OrderSent(msgspec.Struct, frozen=True):
    """An order leaves."""

    order: ApplyCpuset


class OrderApplied(msgspec.Struct, frozen=True):
    """The order took effect. `effective` is the kernel's word afterwards, None where there is none."""

    effective: CPUSet | None
    ended: int


class OrderRefused(msgspec.Struct, frozen=True):
    """The engine called the order wrong: nothing changed."""

    text: str
    ended: int


class OrderFailed(msgspec.Struct, frozen=True):
    """The engine tried the order: kernel and engine may disagree."""

    text: str
    ended: int


class OrderLost(msgspec.Struct, frozen=True):
    """No answer to the order: it may yet take effect."""

    text: str
    ended: int


class OrderIneffective(msgspec.Struct, frozen=True):
    """The engine accepted the order, and the kernel shows `seen`; `effective` is its word where it said one."""

    seen: CPUSet
    effective: CPUSet | None
    text: str
    ended: int


class AnswerOverdue(msgspec.Struct, frozen=True):
    """The answer to the order is overdue."""


class PauseEnded(msgspec.Struct, frozen=True):
    """The pause after the failed order of this number is over."""

    order: int


class NotStopped(msgspec.Struct, frozen=True):
    """It was to be stopped, and was not."""

    text: str


class WishRead(msgspec.Struct, frozen=True):
    """Settings or the machine changed: its wish was read again."""

    wish: Wish


class Lapsed(msgspec.Struct, frozen=True):
    """It rested for as long as it may keep its CPUs."""


class Disputed(msgspec.Struct, frozen=True):
    """Some news says that it is gone, other news that it is not."""


class HoldBegan(msgspec.Struct, frozen=True):
    """Its runtime asks about the start of this number."""

    number: int
    began: int


class HoldGivenUp(msgspec.Struct, frozen=True):
    """The start that was held is no longer waited for, and did not happen."""


class HoldAnswered(msgspec.Struct, frozen=True):
    """The start that was held goes on with `update`, or as it is where that is None; or not at all."""

    update: Update | None
    is_refused: bool


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
"""What the machine of orders hears."""

StartNews = Looked | OrderApplied | OrderIneffective | HoldBegan | HoldGivenUp | HoldAnswered
"""What the machine of starts hears."""

News = LineNews | StartNews | NotStopped | Lapsed | Disputed
