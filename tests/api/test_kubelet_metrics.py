"""The kubelet's metrics: names, types, labels and descriptions of Kubernetes 1.36, and what they count."""

from __future__ import annotations

from sidecar.api.kubelet_metrics import ALIGNED, UNALIGNED
from sidecar.api.metric_counts import MetricCounts
from sidecar.api.metrics import Metrics
from sidecar.board import Board
from sidecar.decide.settings import PolicyName
from state.cpuset import CPUSet
from state.topology import uniform
from tests.support.decide.stories import Story

KUBERNETES_1_36 = {
    "kubelet_cpu_manager_pinning_requests_total": (
        "counter",
        (),
        "The number of cpu core allocations which required pinning.",
    ),
    "kubelet_cpu_manager_pinning_errors_total": (
        "counter",
        (),
        "The number of cpu core allocations which required pinning failed.",
    ),
    "kubelet_cpu_manager_shared_pool_size_millicores": (
        "gauge",
        (),
        "The size of the shared CPU pool for non-guaranteed QoS pods, in millicores.",
    ),
    "kubelet_cpu_manager_exclusive_cpu_allocation_count": (
        "gauge",
        (),
        "The total number of CPUs exclusively allocated to containers running on this node",
    ),
    "kubelet_cpu_manager_allocation_per_numa": ("gauge", ("numa_node",), "Number of CPUs allocated per NUMA node"),
    ALIGNED: (
        "counter",
        ("boundary", "scope"),
        "Cumulative number of aligned compute resources allocated to containers by alignment type.",
    ),
    UNALIGNED: (
        "counter",
        ("boundary", "scope"),
        "Cumulative number of failures to allocate aligned compute resources to containers by alignment type.",
    ),
}
"""By Kubernetes' own reference of metrics, 1.36: type, labels, description. All are of level ALPHA there."""

TWO_NODES = uniform(cores=4, threads=2, nodes=2)
"""CPUs 0 to 15: cores of two threads, two nodes of four cores."""


class Node:
    """A host with these settings, whose metrics count what happens."""

    def __init__(self, **settings: object) -> None:
        self.story = Story(TWO_NODES, **settings)
        self._board = Board(self.story.world)
        self._counts = MetricCounts(self.story.world)

    def arrive(self, name: str, cpus: int, **labels: str) -> None:
        """Let a container arrive, and count."""
        self.story.arrive(name, cpus, labels={f"cpuset.{key}": value for key, value in labels.items()})
        self.story.settle()
        self._board.post(self.story.world)
        self._counts.see(self.story.world)

    def values(self) -> dict[str, float]:
        """Return the value of each series."""
        lines = Metrics(self._board, self._counts).exposed()[0].decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    def aligned(self, boundary: str) -> tuple[float, float]:
        """Return how many grants were aligned there, and how many could not be."""
        series = f'{{boundary="{boundary}",scope="container"}}'
        values = self.values()
        return values[ALIGNED + series], values.get(UNALIGNED + series, 0.0)


def test_the_kubelets_metrics_are_as_in_kubernetes() -> None:
    """By name, type, labels and description, in Prometheus' text format; and no other has a name that begins so."""
    text = Metrics(Board(Story(TWO_NODES).world)).exposed()[0].decode()
    told: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# HELP kubelet_"):
            _, _, name, description = line.split(" ", 3)
            told[name] = [description]
        elif line.startswith("# TYPE kubelet_"):
            kinds[line.split()[2]] = line.split()[3]
    labels = {
        name: tuple(sorted(part.partition("=")[0] for part in rest.partition("}")[0].split(",") if part))
        for name, _, rest in (line.partition("{") for line in text.splitlines() if line.startswith("kubelet_"))
        if rest
    }
    found = {name: (kinds[name], labels.get(name, ()), *described) for name, described in told.items()}
    assert found == KUBERNETES_1_36


def test_requests_are_grants_and_refusals_since_the_daemon_began() -> None:
    """What was granted before is none: the counters of the kubelet begin with it, too."""
    node = Node()
    node.story.arrive("before", 2)
    node.story.settle()
    later = Metrics(Board(node.story.world))
    assert "kubelet_cpu_manager_pinning_requests_total 0.0" in later.exposed()[0].decode()
    node = Node()
    node.arrive("one", 2)
    node.arrive("too many", 99)
    node.arrive("mistyped", 0, exclusive="two")
    values = node.values()
    assert values["kubelet_cpu_manager_pinning_requests_total"] == 2
    assert values["kubelet_cpu_manager_pinning_errors_total"] == 1


def test_the_pool_is_without_reserved_cpus_and_grants_are_counted_by_node() -> None:
    """As the kubelet counts: CPU 0 is reserved, and shared for ever."""
    node = Node()
    node.arrive("one", 2)
    values = node.values()
    shared = node.story.world.state.shared
    assert CPUSet.of(0) <= shared
    assert values["kubelet_cpu_manager_shared_pool_size_millicores"] == 1000 * (len(shared) - 1)
    assert values["cpuset_sidecar_shared_cpus"] == len(shared)
    assert values["kubelet_cpu_manager_exclusive_cpu_allocation_count"] == 2
    by_node = [values[f'kubelet_cpu_manager_allocation_per_numa{{numa_node="{number}"}}'] for number in (0, 1)]
    assert sorted(by_node) == [0, 2]


def test_alignment_is_counted_where_the_terms_guarantee_it() -> None:
    """Whole cores, one node, one cache: each by its own option or rule; a plain grant is none of them."""
    node = Node()
    node.arrive("plain", 2)
    assert [node.aligned(boundary) for boundary in ("physical_cpu", "numa_node", "uncore_cache")] == [(0, 0)] * 3
    node.arrive("cores", 2, options="full-pcpus-only")
    node.arrive("half a core", 1, options="full-pcpus-only")
    assert node.aligned("physical_cpu") == (1, 1)
    node.arrive("one node", 2, numa="single")
    node.arrive("two nodes", 9, numa="single")
    assert node.aligned("numa_node") == (1, 1)
    node.arrive("cached", 2, options="prefer-align-cpus-by-uncorecache")
    assert node.aligned("uncore_cache") == (1, 0)
    assert node.aligned("physical_cpu") == (1, 1)


def test_a_grant_that_changes_is_no_new_request() -> None:
    """An elastic container grows and shrinks within one grant."""
    node = Node(policy=PolicyName.DYNAMIC)
    node.arrive("elastic", 2, max="8", options="full-pcpus-only")
    node.arrive("other", 4)
    values = node.values()
    assert values["kubelet_cpu_manager_pinning_requests_total"] == 2
    assert node.aligned("physical_cpu") == (1, 0)
