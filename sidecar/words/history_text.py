"""Why a grant changed, for the record of the last hour. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sidecar.decide.world import World
from sidecar.words.changes import Line
from state.key import ContainerKey

ENDED_AWAY: Final = "it ended while no daemon ran"
FOUND: Final = "as the daemon found it at its start"


def why_ended(now: World, key: ContainerKey) -> str:
    """Return why a container holds no CPUs any more, by what became of it."""
    container = now.containers.get(key)
    if container is None:
        return "released: it was removed"
    return "released" if container.view.phase.is_live else f"released: it is {container.view.phase}"


def why_changed(name: str, lines: Iterable[Line]) -> str:
    """Return why the grant of this container is new or another one, from the news of that moment; "" if it has none."""
    told = [
        line
        for line in lines
        if name in (line.fields.get("container"), line.fields.get("unit")) and _is_of_grant(line.fields)
    ]
    said = ((line.message, line.fields.get("reason")) for line in told)
    return "; ".join(f"{message}: {reason}" if reason else message for message, reason in said)


def _is_of_grant(fields: Mapping[str, object]) -> bool:
    """Return whether a line tells of CPUs that were gained or lost: a take has a number, a clash the other one."""
    return bool(fields.keys() & {"cpus", "to"}) and not fields.keys() & {"number", "pinned"}
