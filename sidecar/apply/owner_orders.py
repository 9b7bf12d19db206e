"""The answers to owners' starts on the disk: taken by fronts where no sidecar answers (`runtime/owner_start`).

They are in a file beside the standing order, which is written and locked in the same way (`standing_file`). It is one
of its own, so that a start of a plain container holds up no owner whose answer changes, nor the other way round.

1. An answer is withdrawn before the books give one of its CPUs to another, and stands only after the books on the disk
   have the grant (`api/owner_answers`). A start by one that was withdrawn is waited for (`is_held`).
2. The next run of the daemon withdraws all of them before it decides anything: it is asked from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sidecar.apply.standing_file import StandingFile
from sidecar.runtime import owner_start, standing
from sidecar.runtime.owner_start import OwnersTold
from sidecar.runtime.standing import OWNERS

_NOTHING: Final = OwnersTold(0, "", {})


class OwnerOrders:
    """The answers in this folder; `number` counts what fronts are told, orders as well as answers."""

    def __init__(self, folder: str, number: Callable[[], int]) -> None:
        self._number = number
        self._boot = standing.boot_of()
        self._file = StandingFile(folder, OWNERS, _read, owner_start.MOST_BYTES)
        self._written: Mapping[str, str] | None = None

    def claim(self) -> int:
        """Withdraw the answers of an earlier run; return their number. StateError."""
        last = self._file.last()
        if last is not None:
            self._file.put(None)
        self._written = {}
        return last.epoch if last else 0

    def keep(self, answers: Mapping[str, str]) -> None:
        """Have these answers, JSON by the containers' ids, and no others. StateError."""
        if answers == self._written:
            return
        self._written = None
        content = owner_start.encoded(OwnersTold(self._number(), self._boot, dict(answers))) if answers else None
        self._file.put(content)
        self._written = answers

    def is_held(self) -> bool:
        """Return whether an owner may still start by an answer that does not stand any more."""
        now = self._written or {}
        return any(now.get(id) != answer for each in self._file.held() for id, answer in each.answers.items())

    def epochs(self) -> set[int]:
        """Return the numbers of the files by which an owner may still start."""
        return {each.epoch for each in self._file.held()}

    def close(self) -> None:
        """Let go of what was replaced. The answers stay."""
        self._file.close()


def _read(content: bytes) -> OwnersTold:
    """Return the answers in a file. What cannot be understood is followed by no front."""
    return owner_start.decoded(content) or _NOTHING
