"""ForeignWrites: how often other programs write the cpusets of containers, until that is over.

The hand hears of each write. Without one, a look shows that a container was updated behind the sidecar's back.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from sidecar.board import Board
from sidecar.decide.container.container import Standing
from sidecar.decide.facts import ContainerView
from sidecar.decide.world import World
from sidecar.log import Log
from sidecar.words.hands import many_writes, out_of_hand
from sidecar.words.units import noun
from state.cpuset import CPUSet
from state.key import ContainerKey

CALM_SECONDS: Final = 60.0
"""After this long without a foreign write, the earlier ones of a container are forgotten."""

MANY: Final = 3
"""This many foreign writes are a problem. Fewer are a person's update, which was put right."""


class _Spell(msgspec.Struct, frozen=True):
    """Writes of one container without a calm between them; `latest` is in seconds of any steady clock."""

    times: int
    latest: float


class ForeignWrites:
    """Counts for each container. Times are given in seconds of one steady clock."""

    def __init__(self) -> None:
        self._spells: dict[ContainerKey, _Spell] = {}

    def add(self, key: ContainerKey, times: int, now: float) -> int:
        """Count more writes of a container; return how many there are without a calm between them."""
        before = self._spells.get(key)
        total = times + (before.times if before else 0)
        self._spells[key] = _Spell(total, now)
        return total

    def calm_at(self) -> float:
        """Return when the first container is calm again, infinity without any."""
        return min((spell.latest + CALM_SECONDS for spell in self._spells.values()), default=math.inf)

    def forget_calm(self, now: float) -> tuple[ContainerKey, ...]:
        """Forget the containers that are calm again, and return them."""
        calm = tuple(key for key, spell in self._spells.items() if now >= spell.latest + CALM_SECONDS)
        for key in calm:
            del self._spells[key]
        return calm


class _Rewritten(msgspec.Struct, frozen=True):
    """The problem of a container that is written again and again, `found` last. `shut` is why the hand cannot write it
    itself, "" if it can.
    """

    key: ContainerKey
    found: CPUSet
    times: int
    shut: str = ""

    def __call__(self, world: World) -> str:
        """Return it as a clause; "" if the container is gone."""
        known = world.containers.get(self.key)
        if known and self.shut:
            return out_of_hand(known.view.name, self.found, self.shut)
        is_wrested = world.hand is not None and self.key in world.hand.wrested
        return many_writes(known.view.name, self.found, self.times, is_wrested=is_wrested) if known else ""


class ToldWrites:
    """Counts writes, and names the containers that are written again and again among the problems. `kind` is the first
    word of their places there.
    """

    def __init__(self, board: Board, log: Log, kind: str) -> None:
        self._board = board
        self._log = log
        self._kind = kind
        self._writes = ForeignWrites()
        self._shut: dict[ContainerKey, str] = {}

    def add(
        self, key: ContainerKey, found: CPUSet, times: int, now: float, *, is_wrested: bool = False, shut: str = ""
    ) -> None:
        """Count more writes of a container, `found` the last. If it is wrested, a few are a problem as well; so is one
        that the hand cannot undo, and `shut` is why.
        """
        total = self._writes.add(key, times, now)
        if shut:
            self._shut[key] = shut
        shut = self._shut.get(key, "")
        known = self._board.latest.containers.get(key)
        if known is None or (total < MANY and not is_wrested and not shut):
            # One of another engine is none of ours.
            return
        is_first = self._place(key) not in self._board.problems
        self._board.report(self._place(key), _Rewritten(key, found, total, shut))
        if is_first:
            what = noun(key)
            happens = (
                f"the cgroup of a {what} is closed to the sidecar"
                if shut
                else f"another program writes the CPUs of a {what}"
            )
            self._log.warning(happens, **{what: known.view.name}, cpus=found)

    def calm_at(self) -> float:
        """Return when the first container is calm again, infinity without any."""
        return self._writes.calm_at()

    def forget_calm(self, now: float) -> tuple[ContainerKey, ...]:
        """Forget the containers that are calm again, and return them: they are no problem any more."""
        calm = self._writes.forget_calm(now)
        for key in calm:
            self._shut.pop(key, None)
            self._board.report(self._place(key), None)
        return calm

    def _place(self, key: ContainerKey) -> str:
        return f"{self._kind} of {key}"


def is_foreign(board: Board, view: ContainerView) -> bool:
    """Return whether a look shows that another program gave a live container other CPUs than the sidecar did, and that
    the engine alone puts it back.
    """
    known = board.latest.containers.get(view.key)
    if known is None or known.order or known.is_doubtful or known.is_guarded or known.is_held_back:
        return False
    before = known.view
    is_same_run = view.phase.is_live and before.phase.is_live and view.started_at == before.started_at
    is_ours = known.wish.standing in (Standing.MANAGED, Standing.MEMBER) and view.key in board.latest.state.originals
    return is_same_run and is_ours and not before.is_glance and view.cpuset != before.cpuset
