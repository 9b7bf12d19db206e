"""ForeignWrites: how often other programs write the cpusets of containers, until that is over.

The hand hears of each write. Without one, a look shows that a container was updated behind the sidecar's back.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from sidecar.board import Board
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.grip import Closed
from sidecar.decide.facts import ContainerView
from sidecar.decide.world import World
from sidecar.log import Log
from sidecar.words.hands import many_writes, out_of_hand, was_out_of_hand
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


class _Shut(msgspec.Struct, frozen=True):
    """Why the hand could not write a container, told when the newest run that was known of it had this start."""

    reason: str
    run: str

    def is_true(self, known: Container | None) -> bool:
        """Return whether that is still so, for all that is known: a container gets another cgroup at its next start."""
        if known is None or known.is_idle:
            return False
        if isinstance(known.grip, Closed):
            return not known.grip.is_missing
        # One that is not covered is never known as closed.
        return not known.is_guarded and known.view.started_at == self.run


class _Rewritten(msgspec.Struct, frozen=True):
    """The problem of a container that is written again and again, `found` last; or that was `shut` to the hand."""

    key: ContainerKey
    found: CPUSet
    times: int
    shut: _Shut | None = None

    def __call__(self, world: World) -> str:
        """Return it as a clause; "" if the container is gone."""
        known = world.containers.get(self.key)
        if known is None:
            return ""
        is_wrested, name = world.hand is not None and self.key in world.hand.wrested, known.view.name
        if self.shut is None:
            return many_writes(name, self.found, self.times, is_wrested=is_wrested)
        if world.hand and self.shut.is_true(known):
            return out_of_hand(name, self.found, self.shut.reason, is_wrested=is_wrested)
        return was_out_of_hand(name) if is_wrested and not known.is_idle else ""


class ToldWrites:
    """Counts writes, and names the containers that are written again and again among the problems. `kind` is the first
    word of their places there.
    """

    def __init__(self, board: Board, log: Log, kind: str) -> None:
        self._board = board
        self._log = log
        self._kind = kind
        self._writes = ForeignWrites()
        self._shut: dict[ContainerKey, _Shut] = {}
        self._calm_shut: set[ContainerKey] = set()
        """Those of them that are calm: a problem as long as they are shut."""

    def add(
        self, key: ContainerKey, found: CPUSet, times: int, now: float, *, is_wrested: bool = False, shut: str = ""
    ) -> None:
        """Count more writes of a container, `found` the last. If it is wrested, a few are a problem as well; so is one
        that the hand cannot undo, and `shut` is why.
        """
        total = self._writes.add(key, times, now)
        self._calm_shut.discard(key)
        known = self._board.latest.containers.get(key)
        if shut:
            self._shut[key] = _Shut(shut, known.view.started_at if known else "")
        told_shut = self._shut.get(key)
        if known is None or (total < MANY and not is_wrested and not told_shut):
            # One of another engine is none of ours.
            return
        is_first = self._place(key) not in self._board.problems
        self._board.report(self._place(key), _Rewritten(key, found, total, told_shut))
        if is_first:
            what = noun(key)
            happens = (
                f"the cgroup of a {what} is closed to the sidecar"
                if told_shut
                else f"another program writes the CPUs of a {what}"
            )
            self._log.warning(happens, **{what: known.view.name}, cpus=found)

    def calm_at(self) -> float:
        """Return when the first container is calm again, infinity without any."""
        return self._writes.calm_at()

    def forget_calm(self, now: float) -> tuple[ContainerKey, ...]:
        """Forget the containers that are calm again, and return them: they are no problem any more, but for those that
        the hand cannot write in this run.
        """
        calm, known = self._writes.forget_calm(now), self._board.latest.containers
        self._calm_shut |= {key for key in calm if key in self._shut}
        over = {key for key in self._calm_shut if not self._shut[key].is_true(known.get(key))}
        self._calm_shut -= over
        for key in {*calm, *over} - self._calm_shut:
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
