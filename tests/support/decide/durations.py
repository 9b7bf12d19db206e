"""What a history does with time: it has no clock, so it remembers how long notices and rests were promised to last."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sidecar.decide.facts import Purpose
from sidecar.decide.orders import StartTimer
from sidecar.decide.settings import Settings
from sidecar.decide.world import World, replace
from state.key import ContainerKey
from tests.support.decide.real import Real

_GRACES: Final = (2.0, 20.0, 0.5)
_LINGERS: Final = (10.0, 60.0, 1.0)
"""Seconds. Never 0: without any rest, histories would go other ways."""

_Rest = tuple[str, int]
"""Which rest it is: the last start that a look showed, and the number of the grant."""


class Promises:
    """The seconds of each notice as it was first announced, and of each rest that a restart cut off; and what was made
    shorter since.
    """

    def __init__(self) -> None:
        self.shortened: list[str] = []
        self._announced: dict[tuple[ContainerKey, int], float] = {}
        self._cut_off: dict[ContainerKey, tuple[_Rest, float]] = {}

    def restarted(self, timers: Iterable[StartTimer], world: World, reals: dict[ContainerKey, Real]) -> None:
        """Note the rests that are under way as the sidecar is killed."""
        self._cut_off = {}
        for timer in timers:
            is_running = world.timers.get(timer.container, {}).get(Purpose.LINGER) == timer.number
            rest = _rest(timer.container, world, reals.get(timer.container))
            if timer.purpose is Purpose.LINGER and is_running and rest:
                self._cut_off[timer.container] = (rest, timer.seconds)

    def heard(self, timer: StartTimer, world: World, real: Real | None) -> None:
        """Note what a timer that begins promises, or how it breaks what was promised."""
        if timer.purpose is Purpose.GRACE:
            first = self._announced.setdefault((timer.container, timer.number), timer.seconds)
            self._compare(timer, "notice", first)
        elif timer.purpose is Purpose.LINGER:
            rest, seconds = self._cut_off.pop(timer.container, (None, 0.0))
            if rest == _rest(timer.container, world, real):
                self._compare(timer, "rest", seconds)

    def _compare(self, timer: StartTimer, what: str, first: float) -> None:
        if timer.seconds < first:
            whose = timer.container.id[-4:]
            self.shortened.append(f"{whose} was promised {first:g} s of {what}, and has {timer.seconds:g} s")


def _rest(key: ContainerKey, world: World, real: Real | None) -> _Rest | None:
    """Return which rest it is; None where that is not told: a start that was held and given up ends a rest, too."""
    state, known = world.state, world.containers.get(key)
    grant = state.vacancies.get(key) if known is None else state.assignments.get(key)
    if grant is None or (real is not None and real.asks):
        return None
    return (known.view.started_at if known else "gone", grant.since)


def otherwise_timed(settings: Settings, how: int) -> Settings:
    """Return the same settings with other durations."""
    which = how % len(_GRACES)
    return replace(settings, grace_seconds=_GRACES[which], linger_seconds=_LINGERS[which])
