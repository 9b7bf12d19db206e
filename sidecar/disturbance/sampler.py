"""Samples what disturbs owners, for metrics: a second of tracing in each period, in a thread.

1. What a killed daemon left is taken away first, whatever is configured.
2. A sample counts for a container only if it is complete: no event was lost, and it had the same CPUs to itself before
   and after.
3. Where the kernel cannot be traced, that is a problem of the daemon's: told once, and tried again in each period.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

import trio

from sidecar.board import Board, SampledDisturbance
from sidecar.crashes import Crashes
from sidecar.decide.facts import Phase
from sidecar.disturbance.account import ExclusiveCPUs
from sidecar.disturbance.disturbance_report import Disturbed, Report
from sidecar.disturbance.measuring import trace
from sidecar.disturbance.task_places import sees_every_task
from sidecar.disturbance.trace_instance import PLACES, NoTracing, left, remove_left
from sidecar.disturbance.trace_lines import RunnerKind
from sidecar.log import Log
from state.key import ContainerKey

SAMPLE_SECONDS: Final = 1.0
"""Long enough for what comes with every tick, some times a second; and no more than half of a period."""

_PLACE: Final = "disturbances"

_MILLI: Final = 1000.0

Owners = Mapping[ContainerKey, ExclusiveCPUs]


class Trace(Protocol):
    """`measuring.trace`."""

    def __call__(
        self,
        owners: Sequence[ExclusiveCPUs],
        names: Mapping[str, str],
        seconds: float,
        *,
        progress: Callable[[float], None],
    ) -> Report: ...


class DisturbanceSampler:
    """Samples every period, 0 for never, and shows the sums on the board."""

    def __init__(self, board: Board, *, period_seconds: float, log: Log, measure: Trace = trace) -> None:
        self._board = board
        self._period = period_seconds
        self._log = log
        self._measure = measure
        self._crashes = Crashes(board, log)

    async def run(self) -> None:
        """Sample until cancelled."""
        if sees_every_task():  # (1)
            for place in PLACES:
                if any(left(place)):
                    await trio.to_thread.run_sync(remove_left, place)
        seconds = min(SAMPLE_SECONDS, self._period / 2)
        while self._period:
            await trio.sleep(self._period - seconds)
            await self.sample(seconds)

    async def sample(self, seconds: float) -> None:
        """Trace all owners once, and add what was found."""
        owners = self._owners()
        if not owners:
            self._board.disturbances = {}
            return
        report = None
        with self._crashes.contained(None, "sample of what disturbs owners"):
            measure = partial(self._measure, tuple(owners.values()), {}, seconds, progress=_until_cancelled)
            try:
                report = await trio.to_thread.run_sync(measure)
            except NoTracing as why:
                if self._board.report(_PLACE, f"what disturbs containers cannot be sampled: {why}"):  # (3)
                    self._log.warning(f"what disturbs containers cannot be sampled: {why}")
        if report is None:
            return
        if self._board.report(_PLACE, None):
            self._log.info("what disturbs containers is sampled again")
        self._board.disturbances = added(self._board.disturbances, owners, self._owners(), report)

    def _owners(self) -> Owners:
        """Return the containers that run, and have all their CPUs to themselves."""
        world = self._board.latest
        return {
            key: ExclusiveCPUs(key.id, one.view.name, grant.cpus)
            for key, grant in world.state.assignments.items()
            if (one := world.containers.get(key)) and one.view.phase is Phase.RUNNING and not grant.leaving
        }


def added(
    before: Mapping[ContainerKey, SampledDisturbance], owners: Owners, now: Owners, report: Report
) -> Mapping[ContainerKey, SampledDisturbance]:
    """Return the sums with a sample. `owners` were measured; those that are no more in `now` are left out."""
    found = {each.id: each for each in report.containers}
    made = dict[ContainerKey, SampledDisturbance]()
    for key, owner in now.items():
        sums = before.get(key, SampledDisturbance(owner.name, dict.fromkeys(KINDS, 0.0)))
        told = found.get(key.id)
        if told is None:
            made[key] = sums
        elif told.lost or owner != owners[key]:  # (2)
            made[key] = _with(sums, owner.name, incomplete=1)
        else:
            made[key] = _with(sums, owner.name, told, report.seconds * len(owner.cpus))
    return made


KINDS: Final = tuple(kind.value.replace(" ", "_") for kind in RunnerKind)
"""Values of the label `kind`."""


def _with(
    sums: SampledDisturbance, name: str, told: Disturbed | None = None, seconds: float = 0.0, *, incomplete: int = 0
) -> SampledDisturbance:
    foreign = dict(sums.foreign)
    for each in told.by if told else ():
        foreign[each.kind.value.replace(" ", "_")] += (each.total_ms or 0.0) / _MILLI
    return SampledDisturbance(
        name=name,
        foreign=foreign,
        stolen=sums.stolen + (told.stolen_ms / _MILLI if told else 0.0),
        of_seconds=sums.of_seconds + seconds,
        incomplete=sums.incomplete + incomplete,
    )


def _until_cancelled(_left: float) -> None:
    """End the measurement early, with its instance taken away, where the daemon ends."""
    trio.from_thread.check_cancelled()
