"""What is written into a group without asking: the standing answers, as the text that is written."""

from __future__ import annotations

from sidecar.decide.orders import Answers
from state.cpuset import CPUSet
from state.errors import CPUSetError


class StandingAnswers:
    """Answers, ready to be written. Immutable."""

    __slots__ = ("_others_text", "_own", "_owned")

    def __init__(self, answers: Answers) -> None:
        self._own = {key.id: _text(cpus) for key, cpus in answers.own.items()}
        self._others_text = _text(answers.others)
        self._owned = answers.owned

    @property
    def lines(self) -> tuple[bytes, dict[str, bytes]]:
        """What newborns get: others, and containers by their ids; b"" where nothing is written."""
        return self._others_text or b"", {id: line or b"" for id, line in self._own.items()}

    def for_newborn(self, id: str) -> bytes | None:
        """Return what a newborn gets; `id` is "" if it is no container. None: nothing is written."""
        return self._own.get(id, self._others_text) if id else self._others_text

    def for_found(self, id: str, current: bytes) -> bytes | None:
        """Return what a group gets that existed when the hand began, and has these CPUs; None: it is left as it is."""
        has = parsed(current)
        if id in self._own or has is None or not has & self._owned:
            return None
        return _text(has - self._owned) or self._others_text


def parsed(text: bytes) -> CPUSet | None:
    """Return the CPUs of a kernel's file, None if the text is not a list."""
    try:
        return CPUSet.parse(text.decode("ascii", "replace"))
    except CPUSetError:
        return None


def _text(cpus: CPUSet | None) -> bytes | None:
    return str(cpus).encode() if cpus else None
