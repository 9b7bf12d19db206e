"""Names of projections that several containers claim, as a sentence. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sidecar.words.counts import some

_SHOWN: Final = 5
"""Names of containers in one sentence; of more, their number."""


def name_claims_text(found: Sequence[tuple[str, str, tuple[str, ...]]]) -> str:
    """Return which claims of a name are refused: each with the name, the container that has it, and the others; "" for
    none.
    """
    return "; ".join(
        f"the projection by-name/{name} belongs to {first}, which claimed it first: "
        f"{some(others[:_SHOWN], of=len(others))} must choose another name"
        for name, first, others in found[:_SHOWN]
    )
