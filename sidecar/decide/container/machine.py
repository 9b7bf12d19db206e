"""The state machine of a container: its next state after any news. Nothing else creates or changes a Container.

Two small machines run side by side, and interact only through doubts:

- the **line** of orders: Free, Sent, Paused. At most one order is outstanding. The machine tracks what it leaves in
  doubt, and what ends the doubt;
- the **start**, if the runtime asks first: Plain, Asks, Held, Answered.

Each is a table from a state and a kind of news to a rule. The tables are complete: they contain every pair, including
those that change nothing, and docs/architecture.md prints them. A rule is a pure function; docs/architecture.md prints
its docstring.

1. A **fresh look** is believed, except for what may still happen: CPUs of a lost order or of an answered start stay in
   doubt until a later order is carried out.
2. A look that **overlaps** an order is not conclusive, and neither is the answer: if they differ, both places are in
   doubt until the next look.
3. A **failed** order leaves its CPUs in doubt until a look, a **lost** order until a later order is carried out. An
   order without effect leaves no doubt, because its outcome includes the container's place.
4. A **refused** order changed nothing. It is barred: not repeated in this run of the container until its pause is over.
5. An order that **waited for a start** tells nothing about that start: its CPUs stay in doubt until a look.

Rules for changing this file: a rule reads only the container and the news; a new kind of news gets a complete row in a
table; only a look or an order ends a doubt, as its kind specifies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from sidecar.decide.container.container import Container, Standing, Wish
from sidecar.decide.container.line import Barred, Doubt, Ends, Fault, FaultKind, Free, Line, Paused, Sent
from sidecar.decide.container.news import (
    AnswerOverdue,
    Disputed,
    HoldAnswered,
    HoldBegan,
    HoldGivenUp,
    Lapsed,
    LineNews,
    Looked,
    News,
    NotStopped,
    OrderApplied,
    OrderFailed,
    OrderIneffective,
    OrderLost,
    OrderRefused,
    OrderSent,
    PauseEnded,
    Recognized,
    StartNews,
    WishRead,
)
from sidecar.decide.container.place import Place
from sidecar.decide.container.start import Answered, Asks, Held, Plain, Start, shows_strict_runtime
from sidecar.decide.facts import ContainerView, Phase
from state.cpuset import CPUSet

_made = msgspec.structs.replace

Rule = Callable[[Container, Any], Container]
"""Returns the container after this news, whose type is that of the rule's row in the table."""


def first_seen(view: ContainerView, place: Place, wish: Wish, arrival: int, began: int) -> Container:
    """Return a container at its first look."""
    start = Asks() if shows_strict_runtime(view) else Plain()
    return Container(view=view, wish=wish, arrival=arrival, known=began, place=place, start=start)


def after(container: Container, news: News) -> Container:
    """Return the container after this news."""
    match news:
        case NotStopped():
            return _made(container, fault=Fault(FaultKind.NOT_STOPPED, news.text))
        case Recognized():
            return _made(container, wish=news.wish)
        case Lapsed():
            return _made(container, is_lapsed=True)
        case Disputed():
            return _disputed(container)
        case HoldBegan() | HoldGivenUp() | HoldAnswered():
            return STARTS[type(container.start), type(news)](container, news)
        case Looked() | OrderApplied() | OrderIneffective():
            changed = LINES[type(container.line), type(news)](container, news)
            return STARTS[type(container.start), type(news)](changed, news)
        case _:
            return LINES[type(container.line), type(news)](container, news)


def rests(view: ContainerView) -> bool:
    """Return whether a container in this phase waits for a start that may never come."""
    return not view.phase.is_live and view.phase is not Phase.RESTARTING


# The line of orders.


def _same(container: Container, _: object) -> Container:
    """Change nothing."""
    return container


def _sent(container: Container, news: OrderSent) -> Container:
    """Make the order outstanding."""
    return _made(container, line=Sent(news.order))


def _looked(container: Container, news: Looked) -> Container:
    """Believe the look: the container exists, in the place shown. End the doubts that a look ends, and all of a dead
    container, which no order reaches. In another run nothing is barred; an ineffective order that took effect after all
    is no fault.
    """
    view, place, before = news.view, news.place, container.place
    is_made_good = place.seen == place.configured == before.configured != before.seen
    is_same_run = container.is_idle != view.phase.is_live and container.view.started_at == view.started_at
    return _made(
        container,
        view=view,
        wish=news.wish,
        known=news.began,
        place=place,
        doubts=() if view.phase is Phase.DEAD else tuple(each for each in container.doubts if each.ends is Ends.ORDER),
        barred=container.barred if is_same_run else None,
        fault=None if is_made_good else container.fault,
        is_lapsed=container.is_lapsed and rests(view),
    )


def _disputed(container: Container) -> Container:
    """Put the last known place in doubt until a look."""
    place = container.place.seen | container.place.configured
    return _made(container, doubts=_with(container.doubts, Doubt(place, Ends.SIGHT)))


def _overlapped(container: Container, news: Looked) -> Container:
    """Believe the look, and mark the order as overlapped."""
    assert isinstance(container.line, Sent)
    return _made(_looked(container, news), line=_made(container.line, is_overlapped=True))


def _applied(container: Container, news: OrderApplied) -> Container:
    """Set the place to the order's, and end the fault and all doubts except about its existence. If an overlapping look
    differs, its place is in doubt; if the order waited for a start, so are its CPUs.
    """
    assert isinstance(container.line, Sent)
    cpus = container.line.order.update.cpus
    doubts = [doubt for doubt in container.doubts if doubt.ends is Ends.SIGHT]
    if is_contradicted(container):
        doubts.append(Doubt(container.place.seen | container.place.configured, Ends.LOOK))
    if waited_for_a_start(container):
        doubts.append(Doubt(cpus, Ends.LOOK))
    return _made(
        container,
        view=_view_after(container.line, container.view, news.effective),
        place=Place(news.effective or cpus, cpus),
        line=Free(),
        doubts=tuple(doubts),
        fault=None,
        barred=None,
        known=news.ended,
    )


def _refused(container: Container, news: OrderRefused) -> Container:
    """Free the line, keep the place, and bar the order."""
    assert isinstance(container.line, Sent)
    number, update = container.line.order.number, container.line.order.update
    return _made(
        container,
        line=Free(),
        barred=Barred(update, number),
        fault=Fault(FaultKind.REFUSED, news.text),
        known=news.ended,
        # Whatever was wrong, a change of CPUs must not fail because of memory nodes again.
        keeps_mems=container.keeps_mems or update.mems is not None,
    )


def _failed(container: Container, news: OrderFailed) -> Container:
    """Pause; the order's CPUs are in doubt until a look."""
    assert isinstance(container.line, Sent)
    has_memory = container.line.order.update.mems is not None
    made = _doubted(container, Ends.LOOK, Fault(FaultKind.FAILED, news.text), news.ended)
    return _made(made, keeps_mems=container.keeps_mems or has_memory)


def _lost(container: Container, news: OrderLost) -> Container:
    """Pause; the order's CPUs are in doubt until an order is carried out."""
    return _doubted(container, Ends.ORDER, Fault(FaultKind.LOST, news.text), news.ended)


def _doubted(container: Container, ends: Ends, fault: Fault, ended: int) -> Container:
    assert isinstance(container.line, Sent)
    order = container.line.order
    return _made(
        container,
        line=Paused(order.number),
        doubts=_with(container.doubts, Doubt(order.update.cpus, ends)),
        fault=fault,
        known=ended,
    )


def _ineffective(container: Container, news: OrderIneffective) -> Container:
    """Pause; it is configured as ordered, and seen where the kernel shows it. No doubt remains about its CPUs, except
    for a live container whose runtime asks: the kernel may still apply the order, without another start.
    """
    assert isinstance(container.line, Sent)
    order = container.line.order
    doubts = [doubt for doubt in container.doubts if doubt.ends is Ends.SIGHT]
    if container.is_strict and not container.is_idle:
        doubts.append(Doubt(order.update.cpus, Ends.ORDER))
    return _made(
        container,
        view=_view_after(container.line, container.view, news.effective),
        place=Place(news.seen, order.update.cpus),
        line=Paused(order.number),
        doubts=tuple(doubts),
        fault=Fault(FaultKind.INEFFECTIVE, news.text),
        known=news.ended,
        keeps_mems=container.keeps_mems or order.update.mems is not None,
    )


def _late(container: Container, _: AnswerOverdue) -> Container:
    """Mark the order as late."""
    assert isinstance(container.line, Sent)
    return _made(container, line=_made(container.line, is_late=True))


def _unbarred(container: Container, news: PauseEnded) -> Container:
    """Lift the bar if it is that order's."""
    is_over = container.barred is not None and container.barred.order == news.order
    return _made(container, barred=None) if is_over else container


def _freed(container: Container, news: PauseEnded) -> Container:
    """End the pause and lift the bar, each if it is that order's."""
    is_over = isinstance(container.line, Paused) and container.line.order == news.order
    return _unbarred(_made(container, line=Free()) if is_over else container, news)


def _wished(container: Container, news: WishRead) -> Container:
    """Replace the wish. Whatever was barred, for CPUs or memory nodes, may be tried again."""
    return _made(container, wish=news.wish, barred=None, keeps_mems=False)


def is_contradicted(container: Container) -> bool:
    """Return whether a look that overlapped the outstanding order shows other CPUs than the order."""
    line, place = container.line, container.place
    if not isinstance(line, Sent) or not line.is_overlapped:
        return False
    return not place.configured == line.order.update.cpus == place.seen


def waited_for_a_start(container: Container) -> bool:
    """Return whether an order that is answered now may have waited for a held start, which may now be under way."""
    return container.is_strict and container.is_idle


def _view_after(line: Sent, view: ContainerView, effective: CPUSet | None) -> ContainerView:
    """Return what a look would show after the engine has configured the container as ordered."""
    update = line.order.update
    return _made(
        view,
        cpuset=str(update.cpus),
        effective=effective,
        nano_cpus=view.nano_cpus if update.nano_cpus is None else update.nano_cpus,
        cpu_quota=view.cpu_quota if update.cpu_quota is None else update.cpu_quota,
        mems=view.mems if update.mems is None else update.mems,
    )


def _with(doubts: tuple[Doubt, ...], doubt: Doubt) -> tuple[Doubt, ...]:
    return doubts if doubt in doubts else (*doubts, doubt)


# The start.


def _held(container: Container, news: HoldBegan) -> Container:
    """Hold the start; no earlier process runs any more. A start that was answered before may still happen."""
    start = container.start
    doubts = container.doubts
    if isinstance(start, Answered):
        doubts = _with(doubts, Doubt(start.cpus, Ends.ORDER))
    return _made(
        container,
        view=_made(container.view, phase=Phase.CREATED, effective=None),
        known=max(container.known, news.began),
        start=Held(news.number),
        doubts=doubts,
        is_lapsed=False,
    )


def _asks(container: Container, _: object) -> Container:
    """Expect no start until the runtime asks again."""
    return _made(container, start=Asks())


def _answered(container: Container, news: HoldAnswered) -> Container:
    """Expect a run on the CPUs of the answer, on the configured ones if it has no update, and none if it refuses."""
    if news.update is not None:
        return _made(container, start=Answered(news.update.cpus))
    if news.is_refused:
        return _made(container, start=Asks())
    doubt = Doubt(container.place.configured, Ends.LOOK)
    return _made(container, start=Asks(), doubts=_with(container.doubts, doubt))


def _shown(container: Container, news: Looked) -> Container:
    """Expect the runtime to ask before the next start, if the look shows the runtime that does."""
    return _made(container, start=Asks()) if shows_strict_runtime(news.view) else container


def _died(container: Container, news: Looked) -> Container:
    """Drop the answered start of a dead container, and of one that runs and is not managed, since no order follows; any
    other may still start.
    """
    is_left = news.view.phase.is_live and not news.view.is_glance and news.wish.standing is not Standing.MANAGED
    return _made(container, start=Asks()) if news.view.phase is Phase.DEAD or is_left else container


LINES: Final[Mapping[tuple[type[Line], type[LineNews]], Rule]] = {
    (Free, OrderSent): _sent,
    (Sent, OrderSent): _same,
    (Paused, OrderSent): _same,
    (Free, Looked): _looked,
    (Sent, Looked): _overlapped,
    (Paused, Looked): _looked,
    (Free, OrderApplied): _same,
    (Sent, OrderApplied): _applied,
    (Paused, OrderApplied): _same,
    (Free, OrderRefused): _same,
    (Sent, OrderRefused): _refused,
    (Paused, OrderRefused): _same,
    (Free, OrderFailed): _same,
    (Sent, OrderFailed): _failed,
    (Paused, OrderFailed): _same,
    (Free, OrderLost): _same,
    (Sent, OrderLost): _lost,
    (Paused, OrderLost): _same,
    (Free, OrderIneffective): _same,
    (Sent, OrderIneffective): _ineffective,
    (Paused, OrderIneffective): _same,
    (Free, AnswerOverdue): _same,
    (Sent, AnswerOverdue): _late,
    (Paused, AnswerOverdue): _same,
    (Free, PauseEnded): _unbarred,
    (Sent, PauseEnded): _unbarred,
    (Paused, PauseEnded): _freed,
    (Free, WishRead): _wished,
    (Sent, WishRead): _wished,
    (Paused, WishRead): _wished,
}
"""The rule for each state of the line and each kind of news about orders."""

STARTS: Final[Mapping[tuple[type[Start], type[StartNews]], Rule]] = {
    (Plain, Looked): _shown,
    (Asks, Looked): _same,
    (Held, Looked): _same,
    (Answered, Looked): _died,
    (Plain, OrderApplied): _same,
    (Asks, OrderApplied): _same,
    (Held, OrderApplied): _same,
    (Answered, OrderApplied): _asks,
    (Plain, OrderIneffective): _same,
    (Asks, OrderIneffective): _same,
    (Held, OrderIneffective): _same,
    (Answered, OrderIneffective): _asks,
    (Plain, HoldBegan): _held,
    (Asks, HoldBegan): _held,
    (Held, HoldBegan): _held,
    (Answered, HoldBegan): _held,
    (Plain, HoldGivenUp): _same,
    (Asks, HoldGivenUp): _same,
    (Held, HoldGivenUp): _asks,
    (Answered, HoldGivenUp): _same,
    (Plain, HoldAnswered): _same,
    (Asks, HoldAnswered): _same,
    (Held, HoldAnswered): _answered,
    (Answered, HoldAnswered): _same,
}
"""The rule for each state of the start and each kind of news about starts."""
