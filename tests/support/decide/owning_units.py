"""A Reality in which some of the containers are units of systemd, and ask as the others do.

systemd does not tell a daemon that starts which units ask, for a while: no inventory lists any then, and a look at one
shows no labels. Afterwards it is as with an engine.
"""

from __future__ import annotations

from typing import Final

from sidecar.decide.contacts import UnitSources
from sidecar.decide.container.tenant_rights import OF_CONTAINERS
from sidecar.decide.facts import Fact, InventoryTaken, ViewKind
from sidecar.decide.settings import Settings
from sidecar.decide.world import World, replace
from sidecar.simulation.model_kernel import ENGINE_GROUP
from sidecar.simulation.model_limits import Limits
from state.key import HOST, SYSTEMD, ContainerKey
from state.topology import Topology
from tests.support.decide.news import Inventory, Look
from tests.support.decide.partly_seen import PartlySeen
from tests.support.decide.real import ENGINE, Real

_WITHOUT_UNITS: Final = "without units"
"""What stands for the engine of an inventory that lists no units."""


class OwningUnits(PartlySeen):
    """A host with an engine, with systemd, and one daemon."""

    def __init__(self, machine: Topology, settings: Settings, *, needs_service: bool = True) -> None:
        self.is_silent = self.is_listed = False
        self._was_listed = self._is_listed_now = False
        super().__init__(machine, settings, needs_service=needs_service)

    def engine_of(self, created: int) -> str:
        """Return the source of each second one, or the name of the engine."""
        return SYSTEMD if created % 2 else ENGINE

    def add(self, real: Real) -> Real:
        """Add a container or a unit: that has no limits, and no label that is for containers alone."""
        if real.key.engine == SYSTEMD:
            real.kind, real.limits = ViewKind.UNIT, Limits()
            real.had, real.home = real.limits, ENGINE_GROUP
            real.labels = {name: text for name, text in real.labels.items() if name not in OF_CONTAINERS}
        return super().add(real)

    def knowing(self, world: World) -> World:
        """Return the World of a daemon that starts here; one time in two systemd tells nothing yet."""
        self.is_silent, self.is_listed = self.tickets % 2 == 0, False
        return replace(world, sources=UnitSources((SYSTEMD,)))

    @property
    def is_apart(self) -> bool:
        """Whether it is not known which units ask."""
        return not self.is_listed

    def is_away(self, key: ContainerKey) -> bool:
        """Return whether it is a unit, and that is so."""
        return key.engine == SYSTEMD and not self.is_listed

    def was_away(self, key: ContainerKey) -> bool:
        """Return whether it was so before the last burst as well."""
        return key.engine == SYSTEMD and not self._was_listed

    def feed(self, *facts: Fact) -> None:
        """Let the daemon take a burst."""
        self._was_listed, self._is_listed_now = self._is_listed_now, self.is_listed
        super().feed(*facts)

    def begin_look(self, container: ContainerKey) -> None:
        """Look at a container or a unit, of which nothing shows what it asks for while that is not known."""
        super().begin_look(container)
        if self.is_away(container) and self.looks and self.looks[-1].container == container:
            look = self.looks.pop()
            shown = None if look.view is None else replace(look.view, labels={})
            self.looks.append(Look(shown, container, look.began))

    def take_inventory(self) -> None:
        """Look at everything: systemd tells at last."""
        self.is_silent = False
        super().take_inventory()

    def begin_inventory(self) -> None:
        """Look at everything that can be listed; it is delivered later. What cannot be is not seen by it."""
        if not self.is_silent or self.is_listed:
            super().begin_inventory()
        elif self.is_reached:
            taken = self.inventory([each for key, each in self.containers.items() if key.engine != SYSTEMD])
            self.inventories.append(Inventory(taken.views, taken.began, _WITHOUT_UNITS, taken.has_list))

    def deliver_inventory(self, index: int) -> None:
        """Deliver an inventory, which lists no unit if systemd was silent when it began."""
        taken = self.inventories.pop(index)
        listed, has_units = {view.key for view in taken.views}, taken.engine != _WITHOUT_UNITS
        gone = tuple(key for key in self.world.containers if self._is_gone(key, listed, has_units=has_units))
        self.is_listed = self.is_listed or (has_units and taken.has_list)
        lacks = (HOST,) if has_units else (SYSTEMD, HOST)
        self.feed(InventoryTaken(taken.views, gone, taken.began, lacks, has_list=taken.has_list))

    def _is_gone(self, key: ContainerKey, listed: set[ContainerKey], *, has_units: bool) -> bool:
        return key not in listed and (has_units or key.engine != SYSTEMD)
