"""Planted faults in waiting and giving, for the laws of `queuelaws`."""

from __future__ import annotations

from typing import Final

import pytest

from sidecar.decide.books import queue, vacancies
from sidecar.decide.container import askers
from sidecar.decide.container.container import Container
from sidecar.decide.moves import timers
from sidecar.decide.world import replace
from state.model import Refused, State
from tests.decide.lawbook import laws, takelaws
from tests.decide.lawbook.faults import Fault


def hands_nothing_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(vacancies, "_left_to", lambda state, demand: None)


def keeps_cpus_by_the_settings_of_today(patch: pytest.MonkeyPatch) -> None:
    """Time a rest that is under way by what is configured when its timer starts again."""
    honest = timers._rest_of
    patch.setattr(
        timers, "_rest_of", lambda world, grant, container: honest(world, replace(grant, rest=None), container)
    )


def serves_the_last_first(patch: pytest.MonkeyPatch) -> None:
    def turn(state: State, container: Container) -> tuple[int, int, int]:
        return (0, 0, -container.arrival)

    patch.setattr(queue, "_turn", turn)


def ignores_priorities(patch: pytest.MonkeyPatch) -> None:
    honest = queue._turn
    patch.setattr(queue, "_turn", lambda state, container: (0, *honest(state, container)[1:]))


def asks_again_only_what_was_seen_stopped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(askers, "has_restarted", lambda container, refused: False)


def puts_behind_what_loses_its_cpus(patch: pytest.MonkeyPatch) -> None:
    """Number a container anew when its grant ends."""
    honest = State.refused

    def refused(state: State, refused: Refused) -> State:
        return honest(state.released(refused.container) if refused.container in state.assignments else state, refused)

    patch.setattr(State, "refused", refused)


def rests_though_the_books_changed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(vacancies, "has_the_same_books", lambda last, world, state: True)


def rests_though_it_starts_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(vacancies, "is_refused_alike", lambda last, state, container: container.view.key in state.refusals)


FAULTS: Final = (
    Fault(keeps_cpus_by_the_settings_of_today, takelaws.AS_PROMISED, first=1598),
    Fault(hands_nothing_on, laws.HANDED_ON, first=459),
    Fault(puts_behind_what_loses_its_cpus, laws.KEEPS_ITS_PLACE, first=5),
    Fault(serves_the_last_first, laws.NO_OVERTAKING, first=7),
    Fault(ignores_priorities, laws.NO_OVERTAKING, first=116),
    Fault(asks_again_only_what_was_seen_stopped, laws.ASKED_AGAIN, first=14),
    Fault(rests_though_the_books_changed, laws.ASKED_AGAIN, first=15),
    Fault(rests_though_it_starts_again, laws.ASKED_AGAIN, first=28),
)
