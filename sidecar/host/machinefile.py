"""A machine from a file, in any of the forms in which people have one: a record, `lscpu -J`, or hwloc's XML."""

from __future__ import annotations

from sidecar.host.hwloc import read_hwloc
from sidecar.host.lscpu import read_lscpu
from sidecar.host.record import read_record
from state.topology import Topology


def read_machine(text: str) -> Topology:
    """The machine that `text` describes; its first character tells in which form. StateError if it is none of them."""
    first = text.lstrip("\ufeff \t\r\n")[:1]
    if first == "<":
        return read_hwloc(text)
    if first == "{":
        return read_lscpu(text)
    return read_record(text)
