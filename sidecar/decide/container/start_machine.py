"""The second machine of a container: its next start, if the runtime asks first. A part of `machine`, which calls it.

The rules for changing this file are those of `machine`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.line import BEHIND_A_START, Doubt, Ends
from sidecar.decide.container.news import (
    HoldAnswered,
    HoldBegan,
    HoldGivenUp,
    Looked,
    OrderApplied,
    OrderIneffective,
    StartNews,
)
from sidecar.decide.container.start import Answered, Asks, Held, Plain, Start, shows_strict_runtime
from sidecar.decide.container.tables import Rule, same, with_doubt
from sidecar.decide.facts import Phase

_made = msgspec.structs.replace


def _held(container: Container, news: HoldBegan) -> Container:
    """Hold the start: the container exists, no earlier process runs any more, and no start that was answered before is
    still to come, because the engine does one at a time. In doubt remains what orders may do that wait behind the
    start. What the runtime's bundle shows, and no look did, is as it shows it.
    """
    return _made(
        container,
        view=_made(news.view or container.view, phase=Phase.CREATED, effective=None),
        place=news.place or container.place,
        known=max(container.known, news.began),
        start=Held(news.number, news.is_usual),
        doubts=tuple(each for each in container.doubts if each.ends in BEHIND_A_START),
        is_lapsed=False,
    )


def _asks(container: Container, _: object) -> Container:
    """Expect no start until the runtime asks again; any start, if the container did not choose that runtime."""
    return _made(container, start=_next(container))


def _answered(container: Container, news: HoldAnswered) -> Container:
    """Expect a run on the CPUs of the answer, on the configured ones if it has no update, and none if it refuses."""
    if news.is_refused:
        return _made(container, start=_next(container))
    if news.update is not None:
        return _made(container, start=Answered(news.update.cpus, news.is_exclusive, _is_usual(container)))
    doubts = with_doubt(container.doubts, Doubt(container.place.configured, Ends.LOOK))
    return _made(container, start=_next(container), doubts=doubts)


def _shown(container: Container, news: Looked) -> Container:
    """Expect the runtime to ask before the next start, if the look shows the runtime that does."""
    return _made(container, start=Asks()) if shows_strict_runtime(news.view) else container


def _happened(container: Container, news: Looked) -> Container:
    """Drop the answered start: the engine holds its lock until it has happened or failed, and until then only a glance
    is possible. One of a dead container never happens. Where the kernel does not show a managed container's CPUs, it
    runs on those of the answer until an order is carried out.
    """
    view = news.view
    is_under_way = view.is_glance and view.phase is not Phase.DEAD
    is_unshown = view.phase.is_live and view.effective is None and news.wish.standing is Standing.MANAGED
    return container if is_under_way or is_unshown else _made(container, start=_next(container))


def _is_usual(container: Container) -> bool:
    return isinstance(container.start, Held | Answered) and container.start.is_usual


def _next(container: Container) -> Start:
    """Return what is known of its start after this one."""
    return Plain() if _is_usual(container) else Asks()


STARTS: Final[Mapping[tuple[type[Start], type[StartNews]], Rule]] = {
    (Plain, Looked): _shown,
    (Asks, Looked): same,
    (Held, Looked): same,
    (Answered, Looked): _happened,
    (Plain, OrderApplied): same,
    (Asks, OrderApplied): same,
    (Held, OrderApplied): same,
    (Answered, OrderApplied): _asks,
    (Plain, OrderIneffective): same,
    (Asks, OrderIneffective): same,
    (Held, OrderIneffective): same,
    (Answered, OrderIneffective): _asks,
    (Plain, HoldBegan): _held,
    (Asks, HoldBegan): _held,
    (Held, HoldBegan): _held,
    (Answered, HoldBegan): _held,
    (Plain, HoldGivenUp): same,
    (Asks, HoldGivenUp): same,
    (Held, HoldGivenUp): _asks,
    (Answered, HoldGivenUp): same,
    (Plain, HoldAnswered): same,
    (Asks, HoldAnswered): same,
    (Held, HoldAnswered): _answered,
    (Answered, HoldAnswered): same,
}
"""The rule for each state of the start and each kind of news about starts."""
