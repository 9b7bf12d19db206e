"""The task that vouches for the projections: it renews their leases, as long as what they say is looked after.

It vouches that the daemon runs, hears its engine, decides, and has written what it decided. So it renews only if

1. the engine of the container is reached, all of that engine's containers were looked at since, and it has answered
   something lately (`observe/pulse`): one that hangs keeps its connections;
2. each task on which the files depend shows a *sign* of life: it has nothing to do, or has done something since the
   last round;
3. the round comes in time: after a stall, nothing is known of what happened meanwhile before all had a turn.

Otherwise the leases run out, and begin again once all is well. At the end they are ended. The status document of the
host has a lease of its own, renewed with them as long as any engine is reached.

That a task is stuck is a problem once leases have run out for it, in rounds that came in time: on a machine so busy
that the daemon gets no CPU for seconds, no task shows a sign either, and all of them go on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import trio

from sidecar.beat import next_beat
from sidecar.board import Board
from sidecar.projection.belongings import own_place, short_of
from sidecar.projection.projection_of import has_projection
from sidecar.projection.projections import Projections
from sidecar.status.status_lease import end_status_lease, renew_status_lease
from state.errors import ProjectionError, StateError
from state.lease import LEASE_SECONDS, RENEW_SECONDS

Sign = Callable[[], int | None]
"""Returns how many rounds a task has done; None if it has nothing to do."""

_TURN: Final = 64
"""Leases that are renewed between two turns of other tasks: a quarter of a millisecond."""

_LATE_SECONDS: Final = RENEW_SECONDS
"""A round that is later than this comes after a stall."""

_DEAF_SECONDS: Final = 2 * RENEW_SECONDS
"""An engine whose last answer is older than this is not vouched for. With what a renewal counts, that makes 25 s at
most from the last proof to the end of a lease, and 15 s at least.
"""

_STUCK_SECONDS: Final = LEASE_SECONDS
"""For so long no sign was there."""


STUCK: Final = "the daemon runs, but decides nothing any more: what it shows is out of date; restart it if that lasts"


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
        self._live_at = math.inf
        """When all signs were last there, or a round came after a stall."""

    async def run(self) -> None:
        """Renew until cancelled; then end all leases."""
        due = trio.current_time()
        try:
            while True:
                now = trio.current_time()
                in_time = now - due <= _LATE_SECONDS
                if self._all_live(in_time=in_time, is_early=now < due) and in_time and self._hears_any():
                    await self._renew()
                due = next_beat(trio.current_time(), RENEW_SECONDS)
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

    def _hears_any(self) -> bool:
        """Return whether an engine is reached, was looked at, and answers."""
        contacts = self._board.latest.contacts
        return any(each.is_ready and not self._is_deaf(name) for name, each in contacts.items())

    def _is_deaf(self, engine: str) -> bool:
        """Return whether an engine has answered nothing lately. What is no engine, as systemd, is never deaf."""
        heard_at = self._board.heard.get(engine, -math.inf)
        return engine in self._board.latest.contacts and trio.current_time() - heard_at > _DEAF_SECONDS

    def _all_live(self, *, in_time: bool, is_early: bool) -> bool:
        before, self._shown = self._shown, [sign() for sign in self._signs]
        is_so = all(sign is None or sign != was for sign, was in zip(self._shown, before, strict=True))
        now = trio.current_time()
        if is_so or not in_time or math.isinf(self._live_at):
            self._live_at = now
        if is_so:
            self._report("vouching", None)
        elif not is_early and now - self._live_at >= _STUCK_SECONDS:
            # In a round that comes early, because the engine is reached again, a task may not have had its turn yet.
            self._report("vouching", STUCK)
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
        world = self._board.latest
        absent = {
            own_place(short_of(key.handle))[1]
            for key, each in world.containers.items()
            if has_projection(world, each) and (world.is_absent(key) or self._is_deaf(key.engine))
        }
        places = [place for place in self._projections.vouched() if place[-1] not in absent]
        for first in range(0, len(places), _TURN):
            try:
                self._projections.renew(places[first : first + _TURN])
            except ProjectionError as error:
                errors.append(str(error))
            await trio.lowlevel.checkpoint()
        self._report("leases", "; ".join(errors[:5]) or None)
