"""Place: the CPUs on which a container was seen, and those on which the engine would start it."""

from __future__ import annotations

import msgspec

from sidecar.decide.facts import ContainerView
from state.cpuset import CPUSet
from state.errors import CPUSetError


class Place(msgspec.Struct, frozen=True):
    """Where a container is. Neither set is ever empty.

    `seen` is what the kernel shows of a live container, else the online CPUs of `configured`. `configured` is where the
    engine would start it, at any moment, unseen: its configured cpuset, or all online CPUs if it has none.
    """

    seen: CPUSet
    configured: CPUSet


def place_of(view: ContainerView, online: CPUSet) -> Place:
    """Return the place that a look shows, on a machine with these CPUs online."""
    configured = cpus_of(view.cpuset, online)
    configured = configured & cpus_of(view.pod_cpuset, configured) or configured
    seen = view.effective if view.phase.is_live and view.effective else configured & online or online
    # An engine that forgets updates reports what the container was created with, not what is in force.
    return Place(seen, seen if view.forgets_updates and view.phase.is_live else configured)


def with_cpus(view: ContainerView, place: Place, came: CPUSet, online: CPUSet) -> Place:
    """Return where a container may be after these CPUs came online, as long as it was not looked at since.

    The kernel lets it run there at once if it is configured for them, and so does the engine at its next start.
    """
    configured = place.configured | cpus_of(view.cpuset, online)
    return Place(place.seen | configured & came, configured)


def cpus_of(cpuset: str, without: CPUSet) -> CPUSet:
    """Return an engine's cpuset text as a set; `without` if it is empty or cannot be parsed."""
    try:
        return CPUSet.parse(cpuset) or without
    except CPUSetError:
        return without
