"""Scenarios as plain values: what both those that draw them and those that read them need."""

from __future__ import annotations

from typing import Any, Final

Table = dict[str, Any]
Scenario = dict[str, Any]

REST: Final = 130.0
"""Seconds after the last event: longer than every notice, cooldown and half-life that is drawn."""


def numbers(text: str) -> frozenset[int]:
    """Return the CPUs of a list like `0-2,5`."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        found |= set(range(int(low), int(high or low) + 1))
    return frozenset(found)
