"""What `explain` prints of a container, from the status document alone. Pure."""

from __future__ import annotations

from sidecar.decide.facts import ViewKind
from sidecar.log import printable
from sidecar.status.document import ContainerStatus
from sidecar.status.sight import Sight


def rendered(each: ContainerStatus, sight: Sight) -> list[str]:
    """Return the sentences below the container's name."""
    was = "was " if sight.is_last_word else ""
    whose = "a unit of the host" if each.kind is ViewKind.UNIT else each.id[:12]
    head = f"{each.name} ({whose}): {was}{each.sharing}, {each.phase}, on {each.cpus or 'no CPUs'}"
    return [printable(head), *(f"  {printable(sentence)}" for sentence in each.explanation)]
