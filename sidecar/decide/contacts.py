"""Contacts: what is known of the engines of a host, and which of them can be decided for now (decision 0069); and of
which sources its units are known (decision 0081).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from sidecar.decide.facts import EngineInfo
from state.key import SOURCES


class Away(msgspec.Struct, frozen=True, tag="away"):
    """The engine is not reached: changes are unseen. `reason` is for people."""

    reason: str = ""


class Connected(msgspec.Struct, frozen=True, tag="connected"):
    """The engine was reached at this ticket, and not all containers have been looked at since."""

    since: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The engine was reached at this ticket, and an inventory was taken since: only now are orders given."""

    since: int


Readiness = Away | Connected | Ready


class Contact(msgspec.Struct, frozen=True):
    """An engine: what it told of itself, None before it was ever reached, and whether it is reached now."""

    info: EngineInfo | None = None
    readiness: Readiness = Away()

    @property
    def is_ready(self) -> bool:
        """Whether all of its containers were looked at since it was reached."""
        return isinstance(self.readiness, Ready)

    @property
    def is_away(self) -> bool:
        """Whether it is not reached."""
        return isinstance(self.readiness, Away)

    @property
    def is_looked_at(self) -> bool:
        """Whether it is reached, and not all of its containers were looked at since."""
        return isinstance(self.readiness, Connected)

    @property
    def starts_unseen(self) -> bool:
        """Whether its containers may start although nothing of it is reached."""
        return self.info is not None and not self.info.traits.needs_service


class UnitSources(msgspec.Struct, frozen=True):
    """The sources of units that are to be confined on this host, and those of which all units were looked at since the
    daemon began.
    """

    confined: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()

    @property
    def are_seen(self) -> bool:
        """Whether the units of all are known: until then others may be anywhere unseen."""
        return set(self.confined) <= set(self.listed)

    def after(self, lacks: Collection[str]) -> UnitSources:
        """Return the same after an inventory that did not look at these sources."""
        listed = tuple(each for each in SOURCES if each in self.listed or each not in lacks)
        return self if listed == self.listed else UnitSources(self.confined, listed)


def sees_all(contacts: Iterable[Contact]) -> bool:
    """Return whether there are engines, and all are ready."""
    found = [each.is_ready for each in contacts]
    return bool(found) and all(found)


def starting_unseen(contacts: Mapping[str, Contact]) -> tuple[str, ...]:
    """Return the engines whose containers may start now and be seen by nothing but a hand: one is away, and does not
    need its service for that; or it is not ready while another is reached, and so may have been started again already.
    """
    reached = {name for name, each in contacts.items() if not each.is_away}
    waiting = {name: each for name, each in contacts.items() if not each.is_ready}
    return tuple(name for name, each in waiting.items() if reached - {name} or each.starts_unseen)


def info_of(contacts: Mapping[str, Contact], engine: str) -> EngineInfo | None:
    """Return what an engine told of itself, or else the only engine; None if it is not known."""
    contact = contacts.get(engine)
    if contact is None and len(contacts) == 1:
        (contact,) = contacts.values()
    return contact.info if contact else None
