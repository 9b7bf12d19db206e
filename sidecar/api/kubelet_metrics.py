"""Metrics by the kubelet's names: for dashboards and alerts that were made for its CPU manager.

Names, types, labels and descriptions are those of Kubernetes 1.36. So is what is counted, as far as it exists here:

1. Counters begin at 0 with the daemon, as the kubelet's with the kubelet. A request is a grant or a refusal; labels
   that no request can be read from are neither.
2. The size of the shared pool is without the reserved CPUs.
3. Aligned are grants whose terms guarantee it: whole cores under `full-pcpus-only`, one node under the NUMA rule
   `single`. One cache counts where it was preferred, and came about.
4. Two counters have names without `_total`. OpenMetrics has no such counter, so there they are of unknown type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from sidecar.decide.container.terms import Terms
from sidecar.decide.placement.options import ALONG_CACHES, FULL_PCPUS_ONLY
from sidecar.decide.world import World
from sidecar.words.changes import new_refusals
from state.cpuset import CPUSet
from state.demand import NumaRule
from state.topology import Topology

ALIGNED: Final = "kubelet_container_aligned_compute_resources_count"
UNALIGNED: Final = "kubelet_container_aligned_compute_resources_failure_count"
BARE_COUNTERS: Final = (ALIGNED, UNALIGNED)
"""Counters without `_total`."""

_Place = tuple[str, str]
"""A boundary, and the scope in which it counts."""

_CORE: Final = ("physical_cpu", "container")
_CACHE: Final = ("uncore_cache", "container")
_NODE: Final = ("numa_node", "container")
_NODE_OF_POD: Final = ("numa_node", "pod")
"""Always 0: a grant is a container's."""


class KubeletMetrics:
    """What the kubelet would count, since the daemon began."""

    def __init__(self, begun: World) -> None:
        self._grants_before = begun.state.grants
        self._refused = 0
        self._aligned: Counter[_Place] = Counter()
        self._unaligned: Counter[_Place] = Counter()

    def see(self, before: World, now: World) -> None:
        """Count what changed between two worlds."""
        for key, grant in now.state.assignments.items():
            was = before.state.assignments.get(key)
            if was is not None and was.since == grant.since:
                continue
            terms = Terms(now.settings, grant.demand)
            self._aligned.update(_guaranteed(terms))
            if ALONG_CACHES in terms.options and _is_in_one_cache(now.topology, grant.cpus):
                self._aligned[_CACHE] += 1
        for refused in new_refusals(before, now):
            if refused.demand is not None:
                self._refused += 1
                self._unaligned.update(_guaranteed(Terms(now.settings, refused.demand)))

    def families(self, world: World) -> Iterator[Metric]:
        """Yield the metrics of this World."""
        granted = world.state.grants - self._grants_before
        told = "The number of cpu core allocations which required pinning."
        yield CounterMetricFamily("kubelet_cpu_manager_pinning_requests", told, value=granted + self._refused)
        told = "The number of cpu core allocations which required pinning failed."
        yield CounterMetricFamily("kubelet_cpu_manager_pinning_errors", told, value=self._refused)
        told = "The size of the shared CPU pool for non-guaranteed QoS pods, in millicores."
        pool = 1000 * len(world.state.shared - world.state.reserved)
        yield GaugeMetricFamily("kubelet_cpu_manager_shared_pool_size_millicores", told, value=pool)
        told = "The total number of CPUs exclusively allocated to containers running on this node"
        exclusive = world.state.exclusive
        yield GaugeMetricFamily("kubelet_cpu_manager_exclusive_cpu_allocation_count", told, value=len(exclusive))
        told = "Number of CPUs allocated per NUMA node"
        per_node = GaugeMetricFamily("kubelet_cpu_manager_allocation_per_numa", told, labels=("numa_node",))
        for node in world.topology.nodes:
            per_node.add_metric((str(node.id),), len(node.cpus & exclusive))
        yield per_node
        told = "Cumulative number of aligned compute resources allocated to containers by alignment type."
        yield _by_place(ALIGNED, told, self._aligned, (_CORE, _CACHE, _NODE, _NODE_OF_POD))
        told = "Cumulative number of failures to allocate aligned compute resources to containers by alignment type."
        yield _by_place(UNALIGNED, told, self._unaligned, (_CORE, _NODE, _NODE_OF_POD))


def _guaranteed(terms: Terms) -> Iterator[_Place]:
    """Yield the boundaries within which these terms allow a grant only."""
    if FULL_PCPUS_ONLY in terms.options:
        yield _CORE
    if terms.numa is NumaRule.SINGLE:
        yield _NODE


def _is_in_one_cache(topology: Topology, cpus: CPUSet) -> bool:
    return any(cpus <= cache.cpus for cache in topology.caches)


def _by_place(name: str, told: str, counted: Mapping[_Place, int], places: tuple[_Place, ...]) -> Metric:
    made = Metric(name, told, "unknown")
    for boundary, scope in places:
        made.add_sample(name, {"boundary": boundary, "scope": scope}, counted[boundary, scope])
    return made
