"""How a property is played whose examples take long."""

from __future__ import annotations

from typing import Final

from hypothesis import Phase

UNSHRUNK: Final = (Phase.explicit, Phase.reuse, Phase.generate)
"""A broken example is shown as it was found. To make it smaller takes minutes, and the test's own limit would end that
without a word of it.
"""
