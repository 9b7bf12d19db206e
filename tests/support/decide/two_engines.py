"""A Reality with two engines: each is lost and reached by itself, and has inventories of its own.

Containers of both are made in turn. A daemon that starts may reach one of them alone, and never has looked at the other
one's containers then: it knows of these what its checkpoint tells.
"""

from __future__ import annotations

from typing import Final

from sidecar.decide.contacts import Contact
from sidecar.decide.facts import EngineConnected, EngineDisconnected, Fact, InventoryTaken
from sidecar.decide.settings import Settings
from sidecar.decide.world import World
from state.key import ContainerKey
from state.topology import Topology
from tests.support.decide.partly_seen import PartlySeen
from tests.support.decide.real import ENGINE

ENGINES: Final = (ENGINE, "another")


class TwoEngines(PartlySeen):
    """A host with two engines and one daemon."""

    def __init__(self, machine: Topology, settings: Settings, *, needs_service: bool = True) -> None:
        self.reached: set[str] = set()
        self.since: dict[str, int] = {}
        """The engines of which everything was looked at since they were reached, or is to be: from which ticket on."""
        self.looked_at: set[str] = set()
        """Those of which it was."""
        self._looked_at_before = self._looked_at_now = frozenset[str]()
        super().__init__(machine, settings, needs_service=needs_service)

    def engine_of(self, created: int) -> str:
        """Return the name of the engine that makes the container of this number."""
        return ENGINES[created % 2]

    def knowing(self, world: World) -> World:
        """Return the World of a daemon that starts here, and is told of both engines."""
        self.reached, self.since, self.looked_at = set(), {}, set()
        for name in ENGINES:
            world = world.with_contact(name, Contact())
        return world

    @property
    def is_apart(self) -> bool:
        """Whether one engine is reached, and the other one is not."""
        return len(self.reached) == 1

    def is_away(self, key: ContainerKey) -> bool:
        """Return whether the engine of this container is not reached, or not everything was looked at since."""
        return key.engine not in self.looked_at

    def was_away(self, key: ContainerKey) -> bool:
        """Return whether that was so before the last burst as well."""
        return key.engine not in self._looked_at_before

    def feed(self, *facts: Fact) -> None:
        """Let the daemon take a burst."""
        self._looked_at_before = self._looked_at_now
        self._looked_at_now = frozenset(self.looked_at)
        super().feed(*facts)

    def connect(self, *, is_slow: bool = False) -> None:
        """Reach the engines that are not reached, one of them alone now and then."""
        away = [name for name in ENGINES if name not in self.reached]
        if len(away) == len(ENGINES) and self.tickets % 3 == 2:
            away = [ENGINES[self.tickets % 2]]
        for name in away:
            self.reach(name, is_slow=is_slow)

    def reach(self, name: str, *, is_slow: bool = False) -> None:
        """Reach an engine, and look at everything of it."""
        self.reached.add(name)
        self.is_reached = not self.is_apart
        of_others = {key for key in getattr(self, "there_when_reached", ()) if key.engine != name}
        of_this = {key for key in self.containers if key.engine == name}
        self.there_when_reached = frozenset(of_others | of_this)
        self.since[name] = self.ticket()
        self.feed(EngineConnected(self.engine_info(name), self.since[name]))
        self._begin_inventory_of(name)
        if not is_slow:
            self.deliver_inventory(len(self.inventories) - 1)

    def disconnect(self) -> None:
        """Lose one of the engines that are reached."""
        there = [name for name in ENGINES if name in self.reached]
        if not there:
            return
        name = there[self.tickets % len(there)]
        self.reached.discard(name)
        self.looked_at.discard(name)
        self.is_reached = False
        self.feed(EngineDisconnected("gone", name))

    def take_inventory(self) -> None:
        """Look at everything of the engines that are reached, and deliver it at once."""
        for name in ENGINES:
            if name in self.reached:
                self._begin_inventory_of(name)
                self.deliver_inventory(len(self.inventories) - 1)

    def begin_inventory(self) -> None:
        """Look at everything of the engines that are reached; it is delivered later."""
        for name in ENGINES:
            if name in self.reached:
                self._begin_inventory_of(name)

    def _begin_inventory_of(self, name: str) -> None:
        self.inventories.append(self.inventory([r for key, r in self.containers.items() if key.engine == name], name))

    def deliver_inventory(self, index: int) -> None:
        """Deliver an inventory of one engine to the allocator."""
        taken = self.inventories.pop(index)
        listed = {view.key for view in taken.views}
        gone = tuple(key for key in self.world.containers if key.engine == taken.engine and key not in listed)
        if taken.engine in self.reached and taken.began > self.since[taken.engine] and taken.has_list:
            self.looked_at.add(taken.engine)
        others = tuple(name for name in ENGINES if name != taken.engine)
        fact = InventoryTaken(taken.views, gone, taken.began, others, taken.engine, has_list=taken.has_list)
        self.feed(fact)
