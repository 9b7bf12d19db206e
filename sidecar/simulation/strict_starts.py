"""StrictStarts: starts that a container's runtime holds until the sidecar has answered, in virtual time.

1. The turn of the start comes, and the runtime asks. From then on the engine holds the container's lock: the sidecar
   sees no more than a glance, and orders wait.
2. The sidecar answers, with CPUs or a refusal. With CPUs the container starts on them, after the
   time of any start.
3. A sidecar that ends before it answers is asked again when it is back. If it is not back in time, or does not answer
   in time, the container does not start.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from sidecar.decide.facts import StartHeld, StartLetGo
from sidecar.decide.orders import AnswerStart
from sidecar.failures import EngineRefused
from sidecar.simulation.agenda import Agenda
from sidecar.simulation.busy_container import BusyContainer
from sidecar.simulation.busy_host import BusyHost
from sidecar.simulation.model_host import STARTABLE
from sidecar.simulation.model_limits import Limits, check
from sidecar.simulation.model_sidecar import ModelSidecar
from sidecar.words.refusals import sentence

ANSWER_SECONDS: Final = 30.0
"""How long the sidecar holds a start at most, as the API does."""

PATIENCE_SECONDS: Final = 10.0
"""How long the runtime waits for a sidecar that does not run: its default."""

NOT_RUNNING: Final = "the sidecar does not run"

TOO_LATE: Final = f"its CPUs were not free of others within {ANSWER_SECONDS:g} s"

WAITS_FOR_ITS_TURN: Final = 0
"""In place of the number of a start that is to be asked about when the engine is done with the container."""


Outcome = Callable[[BusyContainer, str], None]
"""Receives the end of a start, and why the container does not run; "" if it does."""


class StrictStarts:
    """The starts that are held. `ended` receives the end of each, `needless` each container that runs already."""

    def __init__(
        self,
        host: BusyHost,
        agenda: Agenda,
        takes: float,
        ended: Outcome,
        needless: Callable[[BusyContainer], None] = lambda _: None,
    ) -> None:
        """Begin without any. A start that may go on `takes` so many seconds."""
        self._host = host
        self._agenda = agenda
        self._takes = takes
        self._ended = ended
        self._needless = needless

    def begin(self, real: BusyContainer, sidecar: ModelSidecar) -> None:
        """Start it when the engine is done with it: the runtime asks then (1)."""
        real.held = WAITS_FOR_ITS_TURN
        self._agenda.at(real.free_at, partial(self._turn, real, sidecar))

    def ask_again(self, sidecar: ModelSidecar) -> None:
        """Ask a sidecar that has started about all starts that are held (3)."""
        for real in list(self._host.containers.values()):
            if real.held:
                self._ask(real, sidecar)

    def outlast(self) -> None:
        """Wait for a sidecar that was killed, as long as a runtime does (3)."""
        for real in self._host.containers.values():
            if real.held:
                self._end_in(PATIENCE_SECONDS, real, real.held, NOT_RUNNING)

    def answered(self, order: AnswerStart) -> None:
        """Let a start go on as the sidecar answered, or end it (2)."""
        real = self._host.containers.get(order.container)
        if real is None or real.held != order.number:
            return
        if order.refusal is not None:
            self._end(real, sentence(order.refusal))
            return
        real.is_starting, real.free_at = True, self._agenda.later(self._takes)
        limits = real.limits
        if order.update is not None:
            limits = msgspec.structs.replace(limits, cpuset=str(order.update.cpus))
        self._agenda.at(real.free_at, partial(self._enter, real, limits))
        _unlock(real)

    def _turn(self, real: BusyContainer, sidecar: ModelSidecar) -> None:
        if not self._is_there(real):
            return
        if real.phase in STARTABLE:
            self._ask(real, sidecar)
        else:
            self._needless(real)
            _unlock(real)

    def _ask(self, real: BusyContainer, sidecar: ModelSidecar) -> None:
        real.held = number = sidecar.ticket()
        if not sidecar.is_running:
            self._end_in(PATIENCE_SECONDS, real, number, NOT_RUNNING)
            return
        known, view = sidecar.world.containers.get(real.key), real.bundle()
        if known and not known.view.is_glance:
            view = msgspec.structs.replace(known.view, cpuset=view.cpuset, mems=view.mems)
        sidecar.hear(StartHeld(view, number, sidecar.ticket()))
        self._end_in(ANSWER_SECONDS, real, number, TOO_LATE, lambda: sidecar.hear(StartLetGo(real.key, number)))

    def _end_in(
        self, seconds: float, real: BusyContainer, number: int, why: str, then: Callable[[], None] | None = None
    ) -> None:
        def end() -> None:
            if self._is_there(real) and real.held == number:
                if then:
                    then()
                self._end(real, why)

        self._agenda.after(seconds, end)

    def _end(self, real: BusyContainer, why: str) -> None:
        _unlock(real)
        self._ended(real, why)

    def _enter(self, real: BusyContainer, limits: Limits) -> None:
        if not self._is_there(real):
            return
        real.is_starting, why = False, ""
        try:
            check(limits, self._host.present())
            self._host.enter(real, limits, self._agenda.now)
            real.begin(self._agenda.now)
        except EngineRefused as error:
            why = str(error)
        self._ended(real, why)

    def _is_there(self, real: BusyContainer) -> bool:
        return self._host.containers.get(real.key) is real


def _unlock(real: BusyContainer) -> None:
    """Let the engine go on with what waits for the lock of a container."""
    waiting, real.waiting, real.held = real.waiting, [], None
    for each in waiting:
        each()
