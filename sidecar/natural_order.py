"""The order of names as people expect it: `svc-2` before `svc-10`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_DIGITS: Final = 4000
"""Digits of a number that count: Python refuses to read more than 4,300."""


_NAMES: Final = 4096
"""Names whose keys are kept: those of all containers of a large host are sorted for each of many refusals."""


@lru_cache(maxsize=_NAMES)
def natural(name: str) -> tuple[tuple[str, int, str], ...]:
    """Return a sort key: runs of digits count as numbers. Names that differ have different keys."""
    # `a01` and `a1` are the same numbers; only their text tells them apart.
    parts = re.findall(r"([^0-9]*)([0-9]*)", name)
    return tuple((text, int(digits[:_DIGITS] or "-1"), digits) for text, digits in parts if text or digits)
