"""A Reality with two engines and one hand, which knows containers by their ids, and no engine of a newborn.

In one of two histories the second engine has a group of its own. It does not tell that: where its containers are born
is found. What is born while an engine is away is met by that engine's news.
"""

from __future__ import annotations

from typing import Any

from sidecar.decide.settings import Settings
from sidecar.simulation.model_kernel import ENGINE_GROUP
from state.cpuset import EMPTY
from state.topology import Topology
from tests.support.decide.handreality import HandReality, Temper
from tests.support.decide.real import ENGINE, LATE_PARENT, OTHER_GROUP, Real
from tests.support.decide.reality import Reality
from tests.support.decide.two_engines import TwoEngines


class TwoByHand(HandReality, TwoEngines):
    """A host with two engines, one daemon, and its hand. `has_own_group`: the second engine has a group of its own."""

    may_watch = (LATE_PARENT, f"/{OTHER_GROUP}")

    has_own_group = False

    def __init__(
        self, machine: Topology, settings: Settings, temper: Temper = Temper.STEADY, *, needs_service: bool = True
    ) -> None:
        super().__init__(machine, settings, temper, needs_service=needs_service)
        self.kernel.confine(EMPTY, OTHER_GROUP)

    def begin_hand(self) -> None:
        """Let the daemon open the hand. What the configuration tells of parents is of one engine alone."""
        self.is_home_told = False
        super().begin_hand()

    def create(self, *args: Any, **kwargs: Any) -> Real:
        """Add a container. One that names no parent is in the group of its engine."""
        real = super().create(*args, **kwargs)
        if self.has_own_group and real.key.engine != ENGINE and real.home == ENGINE_GROUP:
            real.home = OTHER_GROUP
        return real

    def answers_births_of(self, engine: str) -> bool:
        """Return whether the hand answers births in the group of an engine, or has ended unnoticed."""
        group = OTHER_GROUP if self.has_own_group and engine != ENGINE else ENGINE_GROUP
        return self.is_blind or (self.hand is not None and f"/{group}" in self.hand.parents)

    def start(self, real: Real, now: float = 0.0) -> bool:
        """Start it. The kernel does not tell of which engine it is."""
        self.hear_of_the_run_before(real)
        return Reality.start(self, real, now)

    def die(self, real: Real, now: float = 0.0, *, restarts: bool = False) -> None:
        """End its processes."""
        Reality.die(self, real, now, restarts=restarts)
