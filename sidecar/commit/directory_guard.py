"""Watches that the state directory stays the one that is locked."""

from __future__ import annotations

from typing import Final

from sidecar.beat import beat
from sidecar.board import Board
from sidecar.commit.fallback_books import SparedCheckpoint
from sidecar.commit.state_lock import Lock
from sidecar.failures import StateUnwritable

LOCK_SECONDS: Final = 5.0
"""How often the lock is checked."""


class DirectoryGuard:
    """Watches one lock, and the directory that it is for."""

    def __init__(self, lock: Lock, board: Board, checkpoints: SparedCheckpoint, state_dir: str) -> None:
        self._lock = lock
        self._board = board
        self._checkpoints = checkpoints
        self._state_dir = state_dir

    async def run(self) -> None:
        """Raise StateUnwritable once the state directory is deleted or replaced: another sidecar would find no lock.

        If no other one has taken its place, the State is written again first.
        """
        while self._lock.is_in_place():
            await beat(LOCK_SECONDS)
        what = "another sidecar uses it now"
        if self._lock.is_free():
            self._checkpoints.save_at_its_path(self._board.latest.state)
            what = "the state was written again, so start the sidecar again"
        raise StateUnwritable(
            f"the state directory {self._state_dir} was deleted or replaced while the sidecar ran: it stops, so "
            f"that no two sidecars run side by side; {what}"
        )
