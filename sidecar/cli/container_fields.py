"""What templates of `status`, `top` and `explain` may name of a container or unit."""

from __future__ import annotations

from typing import Final, NamedTuple

from sidecar.cli.row_template import Fields
from sidecar.status.last_state import ContainerReading
from state import codec


class ToldContainer(NamedTuple):
    """A container or unit as it was read, and its state in words."""

    status: ContainerReading
    state: str


CONTAINER_FIELDS: Final[Fields[ToldContainer]] = Fields(
    {
        ".Name": lambda each: each.status.name,
        ".ID": lambda each: each.status.id,
        ".Project": lambda each: each.status.project,
        ".Kind": lambda each: each.status.sharing.value,
        ".CPUs": lambda each: str(each.status.cpus),
        ".Size": lambda each: str(len(each.status.granted)),
        ".Asked": lambda each: str(each.status.asked),
        ".Granted": lambda each: str(each.status.granted),
        ".Floor": lambda each: str(each.status.floor),
        ".Ceiling": lambda each: str(each.status.ceiling),
        ".Scale": lambda each: each.status.scale,
        ".Weight": lambda each: str(each.status.weight),
        ".Use": lambda each: f"{each.status.load.use:.1f}" if each.status.load else "",
        ".Leaving": lambda each: str(each.status.leaving.cpus) if each.status.leaving else "",
        ".Phase": lambda each: each.status.phase,
        ".Settled": lambda each: _truth(each.status.is_settled),
        ".Alone": lambda each: _truth(each.status.is_alone),
        ".Refusal": lambda each: each.status.refusal,
        ".State": lambda each: each.state,
    },
    lambda each: codec.encode(each.status).decode(),
)


def _truth(value: bool) -> str:
    return "true" if value else "false"
