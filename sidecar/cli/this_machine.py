"""The machine that a command answers for: this one, or a recorded one."""

from __future__ import annotations

from sidecar.host.machine.sysfs import read_topology
from state.errors import StateError
from state.topology import Topology


def this_machine(recorded: str = "") -> Topology | None:
    """Return this machine, or the one that is `recorded` in a file; None where it cannot be read."""
    try:
        return _recorded(recorded) if recorded else read_topology()
    except StateError:
        return None


def _recorded(path: str) -> Topology:
    # Only here: a daemon, and whoever asks about this machine, needs none of the formats of records.
    from sidecar.host.machine.machine_file import machine_in

    return machine_in(path)
