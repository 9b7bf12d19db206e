"""Place: the CPUs that a container was seen on, and those that the engine would start it on."""

from __future__ import annotations

import msgspec

from sidecar.decide.facts import ContainerView
from state.cpuset import CPUSet
from state.errors import CPUSetError


class Place(msgspec.Struct, frozen=True):
    """Where a container is. Neither set is ever empty.

    `seen` is the kernel's word about a live container, else what `configured` says. `configured` is where the engine
    would start it, at any moment, unseen: its configured cpuset, or all online CPUs where it has none.
    """

    seen: CPUSet
    configured: CPUSet


def place_of(view: ContainerView, online: CPUSet) -> Place:
    """The place that a look shows, on a machine with these CPUs online."""
    configured = cpus_of(view.cpuset, online)
    seen = view.effective if view.phase.is_live and view.effective else configured & online or online
    # An engine that forgets updates says what the container was made with, not what is in force.
    return Place(seen, seen if view.forgets_updates and view.phase.is_live else configured)


def cpus_of(cpuset: str, without: CPUSet) -> CPUSet:
    """An engine's cpuset text as a set; `without` where it says nothing, or nothing that can be parsed."""
    try:
        return CPUSet.parse(cpuset) or without
    except CPUSetError:
        return without
