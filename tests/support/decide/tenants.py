"""Tenants that take their containers out of the hand's reach, by the owner or the mode of their groups' files.

They act beside all else that happens in a history, and by its own numbers: without them it is the same history.
"""

from __future__ import annotations

from random import Random
from typing import Final

from state.cpuset import CPUSet
from tests.support.decide.handreality import HandReality
from tests.support.decide.real import Real
from tests.support.decide.reality import Reality

_ONE_IN: Final = 4
"""How often a tenant acts."""


def act(reality: Reality, what: int, who: int, how: int) -> None:
    """Let a tenant close or open its container's group, write that, or leave it alone for a minute."""
    chance = Random(1_000_000 * what + 1000 * who + how)
    if not reality.has_tenants or not isinstance(reality, HandReality) or chance.randrange(_ONE_IN):
        return
    live = [real for real in reality.containers.values() if _has_own_group(reality, real)]
    shut = [real for real in live if reality.is_out_of_hand(real)]
    drawn = chance.random()
    if drawn < 0.1:
        reality.be_calm()
    elif live and (drawn < 0.3 or not shut):
        real = chance.choice(live)
        reality.kernel.shut(real.id)
        if chance.random() < 0.7:
            reality.write_own(real, _drawn(reality, chance))
    elif shut and drawn < 0.38:
        reality.kernel.shut(chance.choice(shut).id, is_shut=False)
    elif shut:
        real = chance.choice(shut)
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            reality.write_own(real, _drawn(reality, chance))


def _has_own_group(reality: HandReality, real: Real) -> bool:
    """Return whether a container runs in a group of its own, which is called like no other container."""
    return (
        real.effective is not None
        and not real.is_member
        and real is not reality.group
        and real.id not in reality.called
    )


def _drawn(reality: HandReality, chance: Random) -> CPUSet:
    """Return some CPUs that are online."""
    online = list(reality.online)
    return CPUSet(chance.sample(online, chance.randint(1, len(online))))
