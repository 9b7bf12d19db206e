"""What killed daemons left in the engine: orders that wait for a container's lock, and take effect when it is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar.decide.orders import ApplyCpuset
from state.cpuset import EMPTY, CPUSet
from tests.support.decide.real import Real

if TYPE_CHECKING:
    from tests.support.decide.reality import Reality


class BehindStarts:
    """The orders that wait, and what those did that wait no more."""

    def __init__(self) -> None:
        self._orders: list[ApplyCpuset] = []
        self.astray = EMPTY
        """The CPUs outside of its footprint onto which such an order has sent a container."""

    def keep(self, order: ApplyCpuset) -> None:
        """Let an order wait."""
        self._orders.append(order)

    def land(self, reality: Reality, real: Real) -> None:
        """Carry out what waited for the lock of this container."""
        for order in [each for each in self._orders if each.container == real.key]:
            self._orders.remove(order)
            reality.take_effect(order)
            known = reality.world.containers.get(real.key)
            # A group whose CPUs all went offline has others, until the machine is read.
            if known and not reality.is_blind and reality.online == reality.world.topology.online:
                self.astray |= (real.effective or EMPTY) - CPUSet.from_mask(known.footprint)
