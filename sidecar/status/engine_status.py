"""What the status tells of the engines of a host that has several; nothing is told so where there is one."""

from __future__ import annotations

from typing import Final

from sidecar.decide.contacts import Away, Contact
from sidecar.decide.world import World
from sidecar.status.document import EngineStatus
from state.key import ContainerKey

_NOT_REACHED: Final = "was not reached yet"


def engines_of(world: World) -> tuple[EngineStatus, ...]:
    """Return the engines by their names; none unless there are several."""
    if len(world.contacts) < 2:
        return ()
    return tuple(_status(name, contact) for name, contact in sorted(world.contacts.items()))


def engine_of(world: World, key: ContainerKey) -> str:
    """Return the name of a container's engine, where there are several; "" for a unit of the host."""
    return key.engine if len(world.contacts) > 1 and not key.is_unit else ""


def _status(name: str, contact: Contact) -> EngineStatus:
    why = ""
    if isinstance(contact.readiness, Away):
        why = contact.readiness.reason or _NOT_REACHED
    elif not contact.is_ready:
        why = "its containers are being looked at"
    return EngineStatus(
        name=name, version=contact.info.version if contact.info else "", is_ready=contact.is_ready, why_not=why
    )
