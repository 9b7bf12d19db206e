"""The reserved CPUs: given as a list, or counted from the lowest physical core up, whole cores first.

A count is made into a list once, and recorded (`counted`). So both follow hotplug by one rule: the CPUs of the list
that are online are reserved, and others stand in for those that are not, until they are back.
"""

from __future__ import annotations

from collections.abc import Iterable

from sidecar.decide.placement.options import ACROSS_CORES, FULL_PCPUS_ONLY
from sidecar.decide.placement.order.by_options import take
from sidecar.decide.placement.whole_cores import unit_of
from sidecar.decide.settings import IsolatedRule, Settings
from state.cpuset import EMPTY, CPUSet, union
from state.model import State
from state.topology import Topology


def counted(topology: Topology, settings: Settings, before: State) -> CPUSet:
    """Return the CPUs that a count stands for, online or not; empty if the settings have a list, or reserve none.

    1. They stay what they were while the count is the same.
    2. Else use the policy's own order over the whole machine, under its own options, as the kubelet does. If cores are
       of several kinds, the slowest are chosen if they suffice. Isolated CPUs that are meant for exclusive containers
       are chosen only if there are no others.
    """
    if settings.reserved_cpus:
        return EMPTY
    # 1. What it was, and not what a list was. A State of an earlier version recorded only what was reserved.
    known = before.reserved if before.counted is None else before.counted
    if len(known) == settings.reserved_count:
        return known
    # 2. A new count.
    return _taken(topology, settings, topology.online, min(settings.reserved_count, len(topology.online)))


def reserve(topology: Topology, settings: Settings, before: State, sources: Iterable[CPUSet] = ()) -> CPUSet:
    """Return the CPUs to reserve now; empty only if the settings ask for none.

    1. Reserve the online CPUs of the list, or of those that were counted.
    2. If fewer of a count are online, others stand in for the rest; if none of a list is, one other CPU does. Those
       that stand in already come first, then the CPUs of each of these sources in turn, then any.
    """
    # 1. Of the list.
    chosen = settings.reserved_cpus or counted(topology, settings, before)
    kept = chosen & topology.online
    # 2. Others stand in.
    fewest = 1 if settings.reserved_cpus else min(settings.reserved_count, len(topology.online))
    for source in (before.reserved - before.exclusive, *sources, topology.online):
        usable = (source & topology.online) - kept
        if (missing := fewest - len(kept)) > 0:
            kept |= _taken(topology, settings, usable, min(missing, len(usable)))
    return kept


def _taken(topology: Topology, settings: Settings, source: CPUSet, count: int) -> CPUSet:
    usable = source if settings.isolated is IsolatedRule.IGNORE else source - topology.isolated
    slowest = usable & topology.kinds[-1].cpus if topology.kinds else EMPTY
    liked = slowest if len(slowest) >= count else usable
    first = _whole_first(topology, settings, liked, min(count, len(liked)))
    return first | _whole_first(topology, settings, source - first, count - len(first))


def _whole_first(topology: Topology, settings: Settings, source: CPUSet, count: int) -> CPUSet:
    """Return `count` of these CPUs. While CPUs are offline, cores that may lack one come last, unless the options
    spread CPUs across cores.
    """
    chosen = EMPTY
    if topology.offline and ACROSS_CORES not in settings.options:
        full = union(core.cpus for core in topology.full_cores if core.cpus <= source)
        amount = min(count, len(full))
        amount -= amount % unit_of(topology, (FULL_PCPUS_ONLY,), full)
        chosen = take(topology, full, amount, settings.options) or EMPTY
    return chosen | (take(topology, source - chosen, count - len(chosen), settings.options) or EMPTY)
