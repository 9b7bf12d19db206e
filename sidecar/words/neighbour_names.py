"""Which others may run on a container's CPUs, from their names alone: readers of a status know no more. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sidecar.words.counts import some

SHOWN: Final = 5
"""Names in one sentence; of more, their number."""


def may_run_there(others: Sequence[tuple[str, str]], of: int = 0) -> str:
    """Return that these containers may run there too, each given by its name and what it is; "" for none. They are the
    first of `of`, where there are more.
    """
    if not others:
        return ""
    shown = [f"{name} ({'pinned by hand' if kind == 'stranger' else kind})" for name, kind in others[:SHOWN]]
    return f"{some(shown, of=max(of, len(others)))} may run there too"
