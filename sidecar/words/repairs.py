"""What a repair of the recorded grants changed, as sentences for people. Pure."""

from __future__ import annotations

from sidecar.decide.world import Note
from sidecar.words.counts import named
from sidecar.words.refusals import sentence


def noted(note: Note) -> str:
    """Return what became of a grant, as a clause without a full stop."""
    if note.refusal is not None:
        return f"{note.name} lost its exclusive CPUs: {sentence(note.refusal)}"
    return f"{note.name} moved from {named(note.held)} to {note.holds}"
