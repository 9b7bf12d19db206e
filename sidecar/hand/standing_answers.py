"""What is written into a group without asking: the standing answers, as the text that is written.

A group that is not known keeps what its own runtime wrote, except for owned CPUs: a container of another engine, a step
of a build, a pin by hand. What it was denied it gets when the owner leaves.
"""

from __future__ import annotations

from sidecar.decide.orders import Answers
from state.cpuset import EMPTY, CPUSet
from state.errors import CPUSetError


class StandingAnswers:
    """Answers, ready to be written. Immutable."""

    __slots__ = ("_left", "_others", "_others_text", "_own", "_owned", "owners")

    def __init__(self, answers: Answers) -> None:
        self._own = {key.id: _text(cpus) for key, cpus in answers.own.items()}
        self._others = answers.others or EMPTY
        self._others_text = _text(answers.others)
        self._owned = answers.owned
        self.owners = frozenset(key.id for key, cpus in answers.own.items() if cpus and cpus & answers.owned)
        """The ids of containers that have owned CPUs."""
        self._left = {key.id: str(cpus).encode() for key, cpus in answers.left.items()}

    @property
    def lines(self) -> tuple[bytes, dict[str, bytes]]:
        """What newborns get: others, and containers by their ids; b"" where nothing is written."""
        return self._others_text or b"", {id: line or b"" for id, line in self._own.items()}

    def is_own(self, id: str) -> bool:
        """Return whether this container has an answer of its own, or is left alone."""
        return id in self._own

    def for_newborn(self, id: str, theirs: bytes = b"") -> bytes | None:
        """Return what a newborn gets; `id` is "" if it is no container. None: nothing is written.

        `theirs` is what another program wrote into it, b"" if none has. What has all CPUs of the others is the
        runtime's copy of the parent's: it gets the others' as well.
        """
        if id in self._own:
            return self._own[id]
        wanted = parsed(theirs) if self._others and theirs else None
        if not wanted or wanted >= self._others:
            return self._others_text
        return _text(wanted - self._owned) or self._others_text

    def is_pin(self, theirs: bytes) -> bool:
        """Return whether what another program wrote into a newborn is more than the runtime's copy of the parent's."""
        wanted = parsed(theirs)
        return wanted is not None and bool(wanted) and not wanted >= self._others

    def for_released(self, id: str, theirs: bytes) -> bytes:
        """Return what a group gets that is left alone, and into which another program wrote this; b"" without any.

        A runtime that wrote the very CPUs of an answer was not noticed, or its copy of the parent's alone was: then the
        engine knows them.
        """
        left, had = self._left.get(id, b""), parsed(theirs) if theirs else None
        is_copy = not had or had >= self._others
        return left if left and is_copy else theirs

    def pin_of(self, id: str) -> bytes:
        """Return to which CPUs a container is pinned that is left alone by itself, as its engine knows; b"" if none."""
        return self._left.get(id, b"") if id in self._own and self._own[id] is None else b""

    def for_found(self, id: str, theirs: bytes) -> bytes | None:
        """Return what a group gets that existed when the hand began, and had these CPUs: the same text if none of them
        is owned. None: it is left as it is. Without CPUs of its own, as on v2, it has all of its parent's, also those
        that come online.
        """
        had = parsed(theirs)
        if id in self._own or had is None or not self._others:
            return None
        if not had:
            return self._others_text if self._owned else b""
        return (_text(had - self._owned) or self._others_text) if had & self._owned else theirs


def parsed(text: bytes) -> CPUSet | None:
    """Return the CPUs of a kernel's file, None if the text is not a list."""
    try:
        return CPUSet.parse(text.decode("ascii", "replace"))
    except CPUSetError:
        return None


def _text(cpus: CPUSet | None) -> bytes | None:
    return str(cpus).encode() if cpus else None
