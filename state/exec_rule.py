"""Where processes begin that join a container which runs: on its first CPU, its last, some places among them, or all.

Places are counted from 0 in the order of CPU numbers: a label's author does not know which CPUs the container
will have, and these may change while it runs.
"""

from __future__ import annotations

import enum

import msgspec

from state.cpuset import EMPTY, CPUSet


class ExecWord(enum.StrEnum):
    """Among a container's own CPUs."""

    FIRST = "first"
    LAST = "last"
    ALL = "all"


class ExecRule(msgspec.Struct, frozen=True):
    """A word, or `places` among a container's own CPUs in their order, from 0; then the word is ALL."""

    word: ExecWord = ExecWord.ALL
    places: CPUSet = EMPTY

    def __str__(self) -> str:
        """As people write it."""
        return str(self.places or self.word)

    def among(self, own: CPUSet) -> CPUSet:
        """Return those of its own CPUs on which such processes begin. Places that do not exist are left out, and if
        none is left, the last one counts: never none at all.
        """
        if not own or (self.word is ExecWord.ALL and not self.places):
            return own
        ordered = sorted(own)
        if self.word is ExecWord.FIRST:
            return CPUSet.of(ordered[0])
        chosen = [ordered[place] for place in self.places if place < len(ordered)]
        return CPUSet(chosen or ordered[-1:])
