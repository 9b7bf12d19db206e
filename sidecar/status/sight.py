"""What a reader of the status document knows of the daemon that wrote it, and in which tense a page tells it. Pure."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from sidecar.status.document import Status
from sidecar.status.last_state import told_in_past
from sidecar.words.past import in_past


class Sight(msgspec.Struct, frozen=True):
    """Whether the daemon runs (None: unknown), and whether the document is only its last word: it does not run, or does
    not vouch for it.
    """

    is_running: bool | None
    is_last_word: bool = False

    def told(self, status: Status) -> Status:
        """Return the document with its sentences in the tense that they have."""
        return told_in_past(status) if self.is_last_word else status

    def clause(self, said: str) -> str:
        """Return a clause in its tense."""
        return in_past(said) if self.is_last_word else said

    def state(self, said: str, names: Collection[str] = ()) -> str:
        """Return a few words on the state of a container in their tense; `names` are those of containers."""
        return in_past(f"was {said}", names) if said and self.is_last_word else said


WORKS = Sight(is_running=True)
"""A daemon that runs, and vouches."""

GONE = Sight(is_running=False, is_last_word=True)
STALLED = Sight(is_running=True, is_last_word=True)
UNSEEN = Sight(is_running=None)
"""It cannot be seen from here whether one runs."""
