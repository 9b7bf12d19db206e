"""The second machine of a container: its next start, if the runtime asks first. A part of `machine`, which calls it.

The rules for changing this file are those of `machine`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.line import Doubt, Ends
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
    """Hold the start; no earlier process runs any more. A start that was answered before may still happen."""
    start = container.start
    doubts = container.doubts
    if isinstance(start, Answered):
        doubts = with_doubt(doubts, Doubt(start.cpus, Ends.ORDER))
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
    return _made(container, start=Asks(), doubts=with_doubt(container.doubts, doubt))


def _shown(container: Container, news: Looked) -> Container:
    """Expect the runtime to ask before the next start, if the look shows the runtime that does."""
    return _made(container, start=Asks()) if shows_strict_runtime(news.view) else container


def _died(container: Container, news: Looked) -> Container:
    """Drop the answered start of a dead container, and of one that runs and is not managed, since no order follows; any
    other may still start.
    """
    is_left = news.view.phase.is_live and not news.view.is_glance and news.wish.standing is not Standing.MANAGED
    return _made(container, start=Asks()) if news.view.phase is Phase.DEAD or is_left else container


STARTS: Final[Mapping[tuple[type[Start], type[StartNews]], Rule]] = {
    (Plain, Looked): _shown,
    (Asks, Looked): same,
    (Held, Looked): same,
    (Answered, Looked): _died,
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
