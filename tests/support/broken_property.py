"""How a property is played that a planted fault must break: until it is broken, the same way each time."""

from __future__ import annotations

from typing import Final

from hypothesis import Phase, settings

TO_BE_BROKEN: Final = settings(derandomize=True, database=None, phases=[Phase.generate])
"""Nothing is made smaller or explained: no person reads the example, and that takes ten times as long."""
