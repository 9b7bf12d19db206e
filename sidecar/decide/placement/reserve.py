"""The reserved CPUs: given as a list, or counted from the lowest physical core up, whole cores first."""

from __future__ import annotations

from sidecar.decide.placement.order.by_options import take
from sidecar.decide.settings import IsolatedRule, Settings
from state.cpuset import EMPTY, CPUSet, union
from state.model import State
from state.topology import Topology


def reserve(topology: Topology, settings: Settings, before: State) -> CPUSet:
    """Return the CPUs to reserve now; empty only if the settings ask for none.

    1. A list: reserve its online CPUs.
    2. A count: use the policy's own order over the whole machine, under its own options, as the kubelet does. If cores
       are of several kinds, reserve the slowest if they suffice. Reserve isolated CPUs that are meant for exclusive
       containers only if there are no others.
    3. If a reserved CPU went offline, keep the others, and fill up first from CPUs that are already reserved, then from
       ungranted CPUs, then from any. If no CPU of a list is online, reserve one other CPU.
    """
    if settings.reserved_cpus:
        # 1. A list.
        kept = settings.reserved_cpus & topology.online
        wanted = max(1, len(kept))
    else:
        wanted = min(settings.reserved_count, len(topology.online))
        fresh = _taken(topology, settings, topology.online, wanted)
        was_counted = before.reserved and len(before.reserved) == wanted
        if not was_counted or before.reserved == fresh:
            # 2. A count.
            return fresh
        kept = before.reserved & topology.online
    # 3. Fill up.
    idle = topology.online - before.exclusive
    for source in ((before.reserved & idle) - kept, idle - kept, topology.online - kept):
        missing = wanted - len(kept)
        kept = union((kept, _taken(topology, settings, source, min(missing, len(source)))))
    return kept


def _taken(topology: Topology, settings: Settings, source: CPUSet, count: int) -> CPUSet:
    usable = source if settings.isolated is IsolatedRule.IGNORE else source - topology.isolated
    slowest = usable & topology.kinds[-1].cpus if topology.kinds else EMPTY
    liked = slowest if len(slowest) >= count else usable
    first = take(topology, liked, min(count, len(liked)), settings.options) or EMPTY
    return first | (take(topology, source - first, count - len(first), settings.options) or EMPTY)
