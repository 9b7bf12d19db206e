"""The reserved CPUs: given as a list, or counted from the lowest physical core up, whole cores first."""

from __future__ import annotations

from sidecar.decide.placement.packed import packed
from sidecar.decide.world import Settings
from state.cpuset import EMPTY, CPUSet, union
from state.model import State
from state.topology import Topology


def reserve(topology: Topology, settings: Settings, before: State) -> CPUSet:
    """The CPUs to reserve now; empty only if the settings ask for none.

    1. A list: those of it that are online.
    2. A count: the policy's own order over the whole machine.
    3. Where a CPU that was reserved went offline: what is left of it stays, filled up first from CPUs that nobody
       holds, then from any; the machine always keeps at least one.
    """
    if settings.reserved_cpus:
        # 1. A list.
        kept = settings.reserved_cpus & topology.online
        wanted = max(1, len(kept))
    else:
        wanted = min(settings.reserved_count, len(topology.online))
        fresh = packed(topology, topology.online, wanted) or EMPTY
        was_counted = before.reserved and len(before.reserved) == wanted
        if not was_counted or before.reserved == fresh:
            # 2. A count.
            return fresh
        kept = before.reserved & topology.online
    # 3. Fill up.
    for source in (topology.online - before.exclusive - kept, topology.online - kept):
        missing = wanted - len(kept)
        kept = union((kept, packed(topology, source, min(missing, len(source))) or EMPTY))
    return kept
