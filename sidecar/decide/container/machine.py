"""The state machine of a container: its next state after any news. Nothing else creates or changes a Container.

Three small machines run side by side, and interact only through doubts and through the hand's cover:

- the **line** of orders: Free, Sent, Paused. At most one order is outstanding. The machine tracks what it leaves in
  doubt, and what ends the doubt;
- the **start**, if the runtime asks first: Plain, Asks, Held, Answered;
- the **grip** of the hand on its cgroup: Loose, Writing, Guarded, Closed (`grip_machine`). What is guarded stays where
  it was written, so an order then changes what the engine has configured, and nothing else. An order that is
  outstanding when cover ends counts as overlapped.

Each is a table from a state and a kind of news to a rule. The tables are complete: they contain every pair, including
those that change nothing, and docs/architecture.md prints them. A rule is a pure function; docs/architecture.md prints
its docstring.

1. A **fresh look** is believed, except for what may still happen: CPUs of a lost order stay in doubt until a later
   order is carried out, and those of an answered start while only a glance is possible.
2. A look that **overlaps** an order is not conclusive, and neither is the answer: if they differ, both places are in
   doubt until the next look.
3. A **failed** order leaves its CPUs in doubt until a look, a **lost** order until a later order is carried out. An
   order without effect leaves no doubt, because its outcome includes the container's place.
4. A **refused** order changed nothing. It is barred: not repeated in this run of the container until its pause is over.
5. An order that **waited for a start** tells nothing about that start: its CPUs stay in doubt until a look.
6. An order that an **earlier run** of the sidecar left in the engine may lead anywhere, until a look or an order gets
   through to the engine.
7. A start that is **held** ends every doubt but those about orders that may wait behind it.

Rules for changing this file: a rule reads only the container and the news; a new kind of news gets a complete row in a
table; only a look or an order ends a doubt, as its kind specifies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from sidecar.decide.container.container import Container, Wish
from sidecar.decide.container.grip_machine import GRIPS, is_same_run, widened
from sidecar.decide.container.line import Barred, Doubt, Ends, Fault, FaultKind, Free, Line, Paused, Sent
from sidecar.decide.container.news import (
    AnswerOverdue,
    AnswersTold,
    Came,
    CpusCame,
    CpusWent,
    Disputed,
    HeldBack,
    HoldAnswered,
    HoldBegan,
    HoldGivenUp,
    Lapsed,
    Lasted,
    LetGo,
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
    SlipTold,
    WishRead,
    WriteDone,
    WriteSent,
    WriteUndone,
)
from sidecar.decide.container.place import Place
from sidecar.decide.container.start import Asks, Plain, shows_strict_runtime
from sidecar.decide.container.start_machine import STARTS
from sidecar.decide.container.tables import Rule, same, with_doubt
from sidecar.decide.facts import ContainerView, Phase
from state.cpuset import EMPTY, CPUSet

_made = msgspec.structs.replace


def first_seen(
    view: ContainerView, place: Place, wish: Wish, arrival: int, began: int, left: CPUSet = EMPTY
) -> Container:
    """Return a container at its first look. An order that an earlier run of the sidecar left in the engine may put it
    on the CPUs `left`.
    """
    start = Asks() if shows_strict_runtime(view) else Plain()
    doubts = (Doubt(left, Ends.ENGINE),) if left else ()
    return Container(
        view=view, wish=wish, arrival=arrival, known=began, place=place, looked=began, start=start, doubts=doubts
    )


def after(container: Container, news: News) -> Container:
    """Return the container after this news."""
    match news:
        case HeldBack():
            return _made(container, fault=None if news.text is None else Fault(FaultKind.INEFFECTIVE, news.text))
        case NotStopped():
            return _made(container, fault=Fault(FaultKind.NOT_STOPPED, news.text))
        case CpusCame():
            grip = widened(container.grip, news.came, news.online)
            return _made(container, place=news.place, doubts=_widened(container.doubts, news), grip=grip)
        case CpusWent():
            return _made(container, doubts=with_doubt(container.doubts, Doubt(news.online, news.ends)))
        case Recognized():
            return _made(container, wish=news.wish)
        case Lapsed():
            return _made(container, is_lapsed=True)
        case Came():
            return _made(container, is_young=True)
        case Lasted():
            return _made(container, is_young=False)
        case Disputed():
            return _disputed(container)
        case WriteSent() | WriteDone() | WriteUndone() | SlipTold() | AnswersTold() | LetGo():
            return GRIPS[type(container.grip), type(news)](container, news)
        case HoldBegan():
            changed = GRIPS[type(container.grip), HoldBegan](container, news)
            return STARTS[type(container.start), HoldBegan](changed, news)
        case HoldGivenUp() | HoldAnswered():
            return STARTS[type(container.start), type(news)](container, news)
        case Looked():
            # The grip first: it compares the look with the one before.
            changed = GRIPS[type(container.grip), Looked](container, news)
            changed = LINES[type(container.line), Looked](changed, news)
            return STARTS[type(container.start), Looked](changed, news)
        case OrderApplied() | OrderIneffective():
            changed = LINES[type(container.line), type(news)](container, news)
            return STARTS[type(container.start), type(news)](changed, news)
        case _:
            return LINES[type(container.line), type(news)](container, news)


def rests(view: ContainerView) -> bool:
    """Return whether a container in this phase waits for a start that may never come."""
    return not view.phase.is_live and view.phase is not Phase.RESTARTING


# The line of orders.


def _sent(container: Container, news: OrderSent) -> Container:
    """Make the order outstanding."""
    return _made(container, line=Sent(news.order))


def _looked(container: Container, news: Looked) -> Container:
    """Believe the look: the container exists, in the place shown. End the doubts that a look ends, and all of a dead
    container, which no order reaches. In another run nothing is barred, and another rest is timed again; an ineffective
    order that took effect after all is no fault.
    """
    view, place, before = news.view, news.place, container.place
    is_made_good = place.seen == place.configured == before.configured != before.seen
    return _made(
        container,
        view=view,
        wish=news.wish,
        known=news.began,
        looked=container.looked if view.is_glance else news.began,
        place=place,
        doubts=() if view.phase is Phase.DEAD else tuple(each for each in container.doubts if each.ends is Ends.ORDER),
        barred=container.barred if is_same_run(container.view, view) else None,
        fault=None if is_made_good else container.fault,
        is_lapsed=container.is_lapsed and rests(view) and not _has_run_between(container.view, view),
    )


def _has_run_between(before: ContainerView, view: ContainerView) -> bool:
    """Return whether a container ran and stopped between two looks; a glance does not show it."""
    is_shown = not before.is_glance and not view.is_glance
    return is_shown and before.started_at != view.started_at


def _widened(doubts: tuple[Doubt, ...], news: CpusCame) -> tuple[Doubt, ...]:
    """Return the doubts after CPUs came online: one that includes all that were is that it may be anywhere."""
    return tuple(_made(doubt, cpus=doubt.cpus | news.came) if news.online <= doubt.cpus else doubt for doubt in doubts)


def _disputed(container: Container) -> Container:
    """Put the last known place in doubt until a look."""
    place = container.place.seen | container.place.configured
    return _made(container, doubts=with_doubt(container.doubts, Doubt(place, Ends.SIGHT)))


def _overlapped(container: Container, news: Looked) -> Container:
    """Believe the look, and mark the order as overlapped."""
    assert isinstance(container.line, Sent)
    return _made(_looked(container, news), line=_made(container.line, is_overlapped=True))


def _applied(container: Container, news: OrderApplied) -> Container:
    """Set the place to the order's, and end the fault and all doubts except about its existence. If an overlapping look
    differs, its place is in doubt; if the order waited for a start, so are its CPUs. What the hand moves stays where
    it was seen, if nothing else is shown. It is slow if the order was late.
    """
    assert isinstance(container.line, Sent)
    cpus, effective = container.line.order.update.cpus, news.effective
    seen = effective or cpus
    if effective is None and container.is_by_hand:
        seen, effective = container.place.seen, container.view.effective
    doubts = [doubt for doubt in container.doubts if doubt.ends is Ends.SIGHT]
    if is_contradicted(container):
        doubts.append(Doubt(container.place.seen | container.place.configured, Ends.LOOK))
    if waited_for_a_start(container):
        doubts.append(Doubt(cpus, Ends.LOOK))
    return _made(
        container,
        view=_view_after(container.line, container.view, effective),
        place=Place(seen, cpus),
        line=Free(),
        doubts=tuple(doubts),
        fault=None,
        barred=None,
        is_slow=container.line.is_late,
        known=news.ended,
    )


def _refused(container: Container, news: OrderRefused) -> Container:
    """Free the line, keep the place, and bar the order. A look that began before is as good as ever."""
    assert isinstance(container.line, Sent)
    number, update = container.line.order.number, container.line.order.update
    return _made(
        container,
        line=Free(),
        barred=Barred(update, number),
        fault=Fault(FaultKind.REFUSED, news.text),
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
    """Pause; the order's CPUs are in doubt until an order is carried out. It is slow. A look that began before it was
    lost is as good as ever.
    """
    made = _doubted(container, Ends.ORDER, Fault(FaultKind.LOST, news.text), container.known)
    return _made(made, is_slow=True)


def _doubted(container: Container, ends: Ends, fault: Fault, ended: int) -> Container:
    assert isinstance(container.line, Sent)
    order = container.line.order
    return _made(
        container,
        line=Paused(order.number),
        doubts=with_doubt(container.doubts, Doubt(order.update.cpus, ends, order.update.mems is not None)),
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
        doubts.append(Doubt(order.update.cpus, Ends.ORDER, order.update.mems is not None))
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
    """Mark the order as late, and the container as slow."""
    assert isinstance(container.line, Sent)
    return _made(container, line=_made(container.line, is_late=True), is_slow=True)


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


LINES: Final[Mapping[tuple[type[Line], type[LineNews]], Rule]] = {
    (Free, OrderSent): _sent,
    (Sent, OrderSent): same,
    (Paused, OrderSent): same,
    (Free, Looked): _looked,
    (Sent, Looked): _overlapped,
    (Paused, Looked): _looked,
    (Free, OrderApplied): same,
    (Sent, OrderApplied): _applied,
    (Paused, OrderApplied): same,
    (Free, OrderRefused): same,
    (Sent, OrderRefused): _refused,
    (Paused, OrderRefused): same,
    (Free, OrderFailed): same,
    (Sent, OrderFailed): _failed,
    (Paused, OrderFailed): same,
    (Free, OrderLost): same,
    (Sent, OrderLost): _lost,
    (Paused, OrderLost): same,
    (Free, OrderIneffective): same,
    (Sent, OrderIneffective): _ineffective,
    (Paused, OrderIneffective): same,
    (Free, AnswerOverdue): same,
    (Sent, AnswerOverdue): _late,
    (Paused, AnswerOverdue): same,
    (Free, PauseEnded): _unbarred,
    (Sent, PauseEnded): _unbarred,
    (Paused, PauseEnded): _freed,
    (Free, WishRead): _wished,
    (Sent, WishRead): _wished,
    (Paused, WishRead): _wished,
}
"""The rule for each state of the line and each kind of news about orders."""
