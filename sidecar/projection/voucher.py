"""The task that vouches for the projections: it renews their leases, as long as what they say is looked after.

It vouches that the daemon runs, hears its engine, decides, and has written what it decided. So it renews only if

1. the engine is reached, and all containers were looked at since;
2. each task on which the files depend shows a *sign* of life: it has nothing to do, or has done something since the
   last round;
3. the round comes in time: after a stall, nothing is known of what happened meanwhile before all had a turn.

Otherwise the leases run out, and begin again once all is well. At the end they are ended. The status document of the
host has a lease of its own, renewed with them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import trio

from sidecar.board import Board
from sidecar.projection.projections import Projections
from sidecar.status.status_lease import end_status_lease, renew_status_lease
from state.errors import ProjectionError, StateError
from state.lease import RENEW_SECONDS

Sign = Callable[[], int | None]
"""Returns how many rounds a task has done; None if it has nothing to do."""

_TURN: Final = 64
"""Leases that are renewed between two turns of other tasks: a quarter of a millisecond."""

_LATE_SECONDS: Final = RENEW_SECONDS
"""A round that is later than this comes after a stall."""


STUCK: Final = "the daemon runs, but decides nothing any more: what it shows is out of date; restart it"


class Voucher:
    """Renews the leases while the signs of life are there."""

    def __init__(
        self,
        board: Board,
        projections: Projections,
        state_dir: str,
        report: Callable[[str, str | None], None],
        signs: Sequence[Sign],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` gives seconds since 1970. The status document in `state_dir` is vouched for as well."""
        self._board = board
        self._projections = projections
        self._signs = signs
        self._report = report
        self._state_dir = state_dir
        self._clock = clock
        self._shown: list[int | None] = [None] * len(signs)
        """What the signs were in the last round."""
        self._judged_at = -math.inf
        """When that was."""

    async def run(self) -> None:
        """Renew until cancelled; then end all leases."""
        due = trio.current_time()
        try:
            while True:
                in_time = trio.current_time() - due <= _LATE_SECONDS
                if self._all_live() and in_time and self._board.latest.is_ready:
                    await self._renew()
                due = trio.current_time() + RENEW_SECONDS
                await self._pause(due)
        finally:
            self._board.vouched_at = 0.0
            with suppress(ProjectionError):
                self._projections.end_leases()
            end_status_lease(self._state_dir)

    async def _pause(self, due: float) -> None:
        """Wait for the next round, which is due at once when the engine is reached again."""
        if self._board.latest.is_ready:
            await trio.sleep_until(due)
            return
        with trio.move_on_at(due):
            async for world in self._board.worlds():
                if world.is_ready:
                    return

    def _all_live(self) -> bool:
        before, self._shown = self._shown, [sign() for sign in self._signs]
        is_so = all(now is None or now != was for now, was in zip(self._shown, before, strict=True))
        is_early, self._judged_at = trio.current_time() < self._judged_at + RENEW_SECONDS, trio.current_time()
        if is_so or not is_early:
            # In a round that comes early, because the engine is reached again, a task may not have had its turn yet.
            self._report("vouching", None if is_so else STUCK)
        return is_so

    async def _renew(self) -> None:
        errors: list[str] = []
        self._board.vouched_at = self._clock()
        if "status" in self._board.problems:
            # What is there is older than what was decided.
            end_status_lease(self._state_dir)
        else:
            try:
                renew_status_lease(self._state_dir, self._board.vouched_at)
            except StateError as error:
                errors.append(f"{self._state_dir}: {error}")
        places = self._projections.vouched()
        for first in range(0, len(places), _TURN):
            try:
                self._projections.renew(places[first : first + _TURN])
            except ProjectionError as error:
                errors.append(str(error))
            await trio.lowlevel.checkpoint()
        self._report("leases", "; ".join(errors[:5]) or None)
