"""Metrics by the kubelet's names: for dashboards and alerts that were made for its CPU manager.

Names, types, labels and descriptions are those of Kubernetes 1.36. So is what is counted, as far as it exists here:

1. Counters begin at 0 with the daemon, as the kubelet's with the kubelet. What they count: `metric_counts.py`.
2. The size of the shared pool is without the reserved CPUs.
3. Two counters have names without `_total`. OpenMetrics has no such counter, so there they are of unknown type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from sidecar.api.metric_counts import CACHE, CORE, NODE, MetricCounts, Place
from sidecar.decide.world import World

ALIGNED: Final = "kubelet_container_aligned_compute_resources_count"
UNALIGNED: Final = "kubelet_container_aligned_compute_resources_failure_count"
BARE_COUNTERS: Final = (ALIGNED, UNALIGNED)
"""Counters without `_total`."""

_NODE_OF_POD: Final = ("numa_node", "pod")
"""Always 0: a grant is a container's."""


def kubelet_families(counts: MetricCounts, world: World) -> Iterator[Metric]:
    """Yield the metrics of this World, and of what was counted."""
    granted = world.state.grants - counts.grants_before
    told = "The number of cpu core allocations which required pinning."
    yield CounterMetricFamily("kubelet_cpu_manager_pinning_requests", told, value=granted + counts.refused)
    told = "The number of cpu core allocations which required pinning failed."
    yield CounterMetricFamily("kubelet_cpu_manager_pinning_errors", told, value=counts.refused)
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
    yield _by_place(ALIGNED, told, counts.aligned, (CORE, CACHE, NODE, _NODE_OF_POD))
    told = "Cumulative number of failures to allocate aligned compute resources to containers by alignment type."
    yield _by_place(UNALIGNED, told, counts.unaligned, (CORE, NODE, _NODE_OF_POD))


def _by_place(name: str, told: str, counted: Mapping[Place, int], places: tuple[Place, ...]) -> Metric:
    made = Metric(name, told, "unknown")
    for boundary, scope in places:
        made.add_sample(name, {"boundary": boundary, "scope": scope}, counted[boundary, scope])
    return made
