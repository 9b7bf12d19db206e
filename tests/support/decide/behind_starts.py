"""What killed daemons left in the engine: orders that wait for a container's lock, and take effect when it is free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sidecar.decide.facts import ViewKind
from sidecar.decide.orders import ApplyCpuset
from sidecar.simulation.model_host import STARTABLE
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

    def leave(self, reality: Reality, fates: Sequence[bool], *, is_busy: bool) -> None:
        """Kill the daemon that sent the orders which are outstanding: each took effect, or never will, or waits."""
        for index, order in enumerate([*reality.late, *reality.flight]):
            if order.number in reality.landed or not fates[index % len(fates)]:
                continue
            real = reality.containers.get(order.container)
            if is_busy and real and not real.is_locked and fates[(index + 2) % len(fates)]:
                self._lock(reality, real)
            if real and real.is_locked:
                self._orders.append(order)
            else:
                reality.take_effect(order)

    def _lock(self, reality: Reality, real: Real) -> None:
        """Have the engine do something else with a container before an order that it was given: a restart whose start
        its runtime holds, if it asks.
        """
        if real.asks:
            reality.stop(real)
            if real.phase in STARTABLE:
                reality.given_up.pop(real.key, None)
                real.held = reality.ticket()
        elif real.kind is ViewKind.CONTAINER:
            real.is_busy = True

    def land(self, reality: Reality, real: Real) -> None:
        """Carry out what waited for the lock of this container."""
        for order in [each for each in self._orders if each.container == real.key]:
            self._orders.remove(order)
            reality.take_effect(order)
            known = reality.world.containers.get(real.key)
            # A group whose CPUs all went offline has others, until the machine is read.
            is_seen = not reality.is_blind and not reality.is_unheard(real.key)
            if known and is_seen and reality.online == reality.world.topology.online:
                self.astray |= (real.effective or EMPTY) - CPUSet.from_mask(known.footprint)
