"""ForeignWrites: how often other programs write the cpusets of containers, until that is over."""

from __future__ import annotations

from typing import Final

import msgspec

from state.key import ContainerKey

CALM_SECONDS: Final = 60.0
"""After this long without a foreign write, the earlier ones of a container are forgotten."""

MANY: Final = 3
"""This many foreign writes are a problem. Fewer are a person's update, which was put right."""


class _Spell(msgspec.Struct, frozen=True):
    """Writes of one container without a calm between them; `latest` is in seconds of any steady clock."""

    times: int
    latest: float


class ForeignWrites:
    """Counts for each container. Times are given in seconds of one steady clock."""

    def __init__(self) -> None:
        self._spells: dict[ContainerKey, _Spell] = {}

    def add(self, key: ContainerKey, times: int, now: float) -> int:
        """Count more writes of a container; return how many there are without a calm between them."""
        before = self._spells.get(key)
        total = times + (before.times if before else 0)
        self._spells[key] = _Spell(total, now)
        return total

    def forget_calm(self, now: float) -> tuple[ContainerKey, ...]:
        """Forget the containers that are calm again, and return them."""
        calm = tuple(key for key, spell in self._spells.items() if now - spell.latest >= CALM_SECONDS)
        for key in calm:
            del self._spells[key]
        return calm
