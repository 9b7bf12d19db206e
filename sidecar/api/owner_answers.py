"""Keeps what fronts answer to owners where no sidecar does: never ahead of the books, and withdrawn before them.

1. Before books are committed, each answer is withdrawn that the new world does not give, or gives otherwise. So the
   books on the disk, by which the next run and a starting engine go, give no CPU away on which a front would start an
   owner.
2. After that, an answer stands for each owner whose grant is in the books on the disk.
3. What did not change is not written, and nothing is if no answer changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from sidecar.api.start_route import start_answer
from sidecar.decide.moves.own_starts import own_starts
from sidecar.decide.orders import AnswerStart
from sidecar.decide.world import World
from state.key import ContainerKey
from state.model import State

Answers = Mapping[ContainerKey, AnswerStart]


class OwnerAnswers:
    """The answers of this run; `keep` has these stand for fronts, as JSON by the containers' ids, and no others."""

    def __init__(self, keep: Callable[[Mapping[str, str]], None]) -> None:
        self._keep = keep
        self._world: World | None = None
        self._wanted: Answers = {}
        self._kept: Answers | None = {}
        """None after a failure."""

    def narrow(self, world: World) -> None:
        """Withdraw what this world does not answer any more (1). Raise StateError."""
        if world is self._world and self._kept is not None:
            return
        self._world, self._wanted = world, own_starts(world)
        kept = self._kept or {}
        left = {key: answer for key, answer in kept.items() if self._wanted.get(key) == answer}
        if self._kept is None or len(left) < len(kept):
            self._write(world, left)

    def extend(self, saved: State | None) -> None:
        """Have all stand that it answers, as far as the saved State has the grants (2). Raise StateError."""
        grants = saved.assignments if saved else {}
        may = {
            key: answer
            for key, answer in self._wanted.items()
            if (grant := grants.get(key)) and answer.update and grant.cpus == answer.update.cpus and not grant.leaving
        }
        if self._world and may != self._kept:
            self._write(self._world, may)

    def _write(self, world: World, answers: Answers) -> None:
        self._kept = None
        told = {key.id: start_answer(world, key.id, answer) for key, answer in answers.items()}
        self._keep({id: msgspec.json.encode(answer).decode() for id, answer in told.items()})
        self._kept = answers
