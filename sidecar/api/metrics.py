"""The World as Prometheus metrics: by names of our own, and by the kubelet's (`kubelet_metrics.py`).

Gauges are read from the latest World, and counters from the State, where they survive. What the State does not number
is counted from the start of the daemon (`metric_counts.py`); this module is imported for the first that asks.

The number of series is bounded: only what is sampled of owners has a series for each container, and there is at most
one owner for each CPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sidecar.api.exposition import exposition
from sidecar.api.kubelet_metrics import kubelet_families
from sidecar.api.metric_counts import MetricCounts
from sidecar.board import BirthCounts, Board, SampledDisturbance
from sidecar.decide.books.clashes import clashes
from sidecar.decide.books.give_up import refused_now
from sidecar.decide.books.room import capacity, free
from sidecar.decide.container.askers import is_standing
from sidecar.decide.container.grip import Closed, Guarded
from sidecar.decide.facts import ViewKind
from sidecar.decide.moves.alone import is_alone
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from sidecar.status.describe import hand_status, sharing_of
from sidecar.status.document import SharingStatus
from sidecar.version import version
from sidecar.words.units import HostConfinement
from state.refusal import RefusalCode


class Metrics:
    """All metrics of one daemon, with what was counted, or nothing yet."""

    def __init__(self, board: Board, counts: MetricCounts | None = None) -> None:
        self._board = board
        self._counts = counts or MetricCounts(board.latest)
        self._version = version()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_FromWorld(self))

    def exposed(self, accept: str = "") -> tuple[bytes, str]:
        """Return the exposition in the format that a header `Accept` asks for, and its content type."""
        return exposition(self._registry, accept)

    def families(self) -> Iterator[Metric]:
        """Yield every metric, of the latest World."""
        world, problems = self._board.latest, self._board.problems
        state = world.state
        yield from kubelet_families(self._counts, world)
        yield _gauge("cpuset_sidecar_shared_cpus", "CPUs of the shared pool.", len(state.shared))
        yield _gauge("cpuset_sidecar_exclusive_cpus", "CPUs that are granted.", len(state.exclusive))
        yield _refusals(self._counts.refusals)
        yield _counter("cpuset_sidecar_grants", "Grants ever made.", state.grants)
        yield _counter("cpuset_sidecar_grant_changes", "Changes of grants ever made.", state.takes)
        yield _counter("cpuset_sidecar_takes_forced", "Takes that were not acknowledged in time.", state.forced)
        yield _counter("cpuset_sidecar_takes_acknowledged", "Takes acknowledged in time.", state.acknowledged)
        takes = [each.leaving for each in state.assignments.values() if each.leaving]
        yield _gauge("cpuset_sidecar_takes_pending", "Takes that are not over yet.", len(takes))
        yield _gauge("cpuset_sidecar_cpus_leaving", "CPUs being taken.", sum(len(take.cpus) for take in takes))
        yield _gauge("cpuset_sidecar_online_cpus", "CPUs of the machine that are online.", len(state.online))
        yield _gauge("cpuset_sidecar_reserved_cpus", "CPUs that are never granted.", len(state.reserved))
        yield _gauge("cpuset_sidecar_capacity_cpus", "CPUs that can be exclusive at once.", capacity(world))
        yield _gauge("cpuset_sidecar_free_cpus", "CPUs of the capacity that no container holds.", free(world))
        yield from _by_sharing(world)
        yield _engines(world)
        alone = sum(1 for each in world.containers.values() if is_alone(world, each))
        yield _gauge("cpuset_sidecar_alone_containers", "Containers that are alone on exclusive CPUs.", alone)
        clashing = len(clashes(world))
        yield _gauge(
            "cpuset_sidecar_clashes", "Containers and units pinned by hand to exclusive CPUs, by pairs.", clashing
        )
        yield _refused(world)
        yield _gauge("cpuset_sidecar_waiting_containers", "Containers that wait for exclusive CPUs.", len(world.queue))
        pending = sum(1 for each in world.containers.values() if each.order)
        yield _gauge("cpuset_sidecar_orders_pending", "Orders that the engine has not answered.", pending)
        yield from _of_hand(world, self._board.births)
        yield _around(self._board.starts.around or {})
        yield from _sampled(self._board.disturbances.values())
        told = "Unexpected errors in the work for one container, since the start."
        yield _counter("cpuset_sidecar_crashes", told, self._board.crashes)
        hooks = self._board.hooks
        yield _counter("cpuset_sidecar_hook_runs", "How often hooks were told of changes, since the start.", hooks.runs)
        yield _counter("cpuset_sidecar_hook_failures", "How often that failed, since the start.", hooks.failures)
        told = "Changes that hooks missed, since the start."
        yield _counter("cpuset_sidecar_hook_missed_changes", told, hooks.missed)
        yield _advertised(world)
        yield _about(world, self._version)
        yield _gauge("cpuset_sidecar_ready", "Whether everything was looked at.", int(world.is_ready))
        told = "When the daemon last vouched for these figures, in seconds since 1970; 0 for never."
        yield _gauge("cpuset_sidecar_vouched_timestamp_seconds", told, self._board.vouched_at or 0.0)
        told = "Whether the host's own processes are confined to the shared pool."
        yield _gauge("cpuset_sidecar_confines_host", told, int(_confines_host(world, self._board.host)))
        yield _gauge("cpuset_sidecar_problems", "What the daemon cannot do just now.", len(problems))


class _FromWorld(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return self._metrics.families()


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(name, meaning, value=value)


def _counter(name: str, meaning: str, value: float) -> Metric:
    return CounterMetricFamily(name, meaning, value=value)


def _refusals(counted: Counter[RefusalCode]) -> Metric:
    made = CounterMetricFamily("cpuset_sidecar_refusals", "Refusals since the start, by code.", labels=("code",))
    for code in RefusalCode:
        made.add_metric((code.value,), counted[code])
    return made


def _refused(world: World) -> Metric:
    counted = Counter(
        each.refusal.code
        for key in world.state.refusals
        if (each := refused_now(world, key)) is not None
        and ((container := world.containers.get(key)) is None or is_standing(container, each))
    )
    made = GaugeMetricFamily("cpuset_sidecar_refused", "Containers that are refused now, by code.", labels=("code",))
    for code in RefusalCode:
        made.add_metric((code.value,), counted[code])
    return made


def _of_hand(world: World, births: BirthCounts) -> Iterator[Metric]:
    """Yield what the hand does: births and overwrites since the start, and what it cannot write."""
    hand, containers = hand_status(world), world.containers.values()
    told = "Whether births are answered by the kernel first."
    yield _gauge("cpuset_sidecar_answers_births", told, int(hand is not None and hand.is_answering))
    yield _counter("cpuset_sidecar_births_answered", "Births that were answered, since the start.", births.answered)
    told = "Births into whose cgroups nothing was written at once, since the start."
    yield _counter("cpuset_sidecar_births_unanswered", told, births.unanswered)
    told = "Writes of other programs that were corrected, since the start."
    yield _counter("cpuset_sidecar_overwrites", told, births.overwritten)
    stuck = len(hand.stuck) if hand else 0
    yield _gauge("cpuset_sidecar_stuck_cpus", "CPUs with newborn cgroups that cannot be written.", stuck)
    guarded = sum(1 for each in containers if isinstance(each.grip, Guarded))
    yield _gauge("cpuset_sidecar_guarded_containers", "Containers whose cgroups are written and guarded.", guarded)
    closed = sum(1 for each in containers if isinstance(each.grip, Closed) and not each.is_idle)
    yield _gauge("cpuset_sidecar_closed_containers", "Containers whose cgroups cannot be written.", closed)


def _around(counted: Mapping[str, int]) -> Metric:
    """Return the starts that no front told of; no value where nothing starts through one."""
    told = "Starts of runtimes that are not wrapped, where others are, by runtime."
    made = CounterMetricFamily("cpuset_sidecar_starts_around", told, labels=("runtime",))
    for name, count in counted.items():
        made.add_metric((name,), count)
    return made


def _confines_host(world: World, host: HostConfinement | None) -> bool:
    return host is not None and host.is_confining and world.settings.policy is not PolicyName.NONE


def _sampled(disturbances: Collection[SampledDisturbance]) -> Iterator[Metric]:
    """Yield what disturbed owners in samples; no value where nothing is sampled."""
    label = ("container",)
    told = "Seconds in which others ran on exclusive CPUs, of those that were sampled, by kind."
    foreign = CounterMetricFamily("cpuset_sidecar_disturbed_seconds", told, labels=("container", "kind"))
    told = "Seconds that a hypervisor took of exclusive CPUs, of those that were sampled."
    stolen = CounterMetricFamily("cpuset_sidecar_disturbed_stolen_seconds", told, labels=label)
    told = "Seconds of exclusive CPUs that were sampled."
    sampled = CounterMetricFamily("cpuset_sidecar_disturbed_sampled_seconds", told, labels=label)
    told = "Samples that were incomplete, and are not counted."
    incomplete = CounterMetricFamily("cpuset_sidecar_disturbed_incomplete_samples", told, labels=label)
    # A name that passes from one container to another is two containers' for a moment, and no series may come twice.
    for each in {each.name: each for each in disturbances}.values():
        for kind, seconds in each.foreign.items():
            foreign.add_metric((each.name, kind), seconds)
        stolen.add_metric((each.name,), each.stolen)
        sampled.add_metric((each.name,), each.of_seconds)
        incomplete.add_metric((each.name,), each.incomplete)
    yield from (foreign, stolen, sampled, incomplete)


def _advertised(world: World) -> Metric:
    """Return no sample if the engine is in no swarm, or advertises none: that is not the same as 0."""
    made = GaugeMetricFamily("cpuset_sidecar_advertised_cpus", "Exclusive CPUs that the engine advertises to Swarm.")
    if world.engine is not None and world.engine.advertised is not None:
        made.add_metric((), world.engine.advertised)
    return made


def _about(world: World, program: str) -> Metric:
    """Return what does not change while the daemon runs, except the policy, as labels of a 1."""
    engine = world.engine
    labels = {
        "version": program,
        "policy": world.settings.policy.value,
        "engine": engine.name if engine else "",
        "engine_version": engine.version if engine else "",
        "cgroup_version": engine.cgroup_version if engine else "",
    }
    made = GaugeMetricFamily("cpuset_sidecar_info", "The version of the program.", labels=tuple(labels))
    made.add_metric(tuple(labels.values()), 1)
    return made


def _engines(world: World) -> Metric:
    """Return which engines are ready, by their names."""
    told = "Whether all containers of an engine were looked at since it was reached."
    made = GaugeMetricFamily("cpuset_sidecar_engine_ready", told, labels=("engine",))
    for name, contact in sorted(world.contacts.items()):
        made.add_metric((name,), contact.is_ready)
    return made


def _by_sharing(world: World) -> Iterator[Metric]:
    """Return how many containers there are, by what they are, and how many units of the host."""
    made = GaugeMetricFamily("cpuset_sidecar_containers", "Containers, by what they are.", labels=("sharing",))
    units = GaugeMetricFamily("cpuset_sidecar_units", "Units of the host, by what they are.", labels=("sharing",))
    all_of = world.containers.values()
    counted = Counter((each.view.kind is ViewKind.UNIT, sharing_of(world, each)) for each in all_of)
    for sharing in SharingStatus:
        made.add_metric((sharing.value,), counted[False, sharing])
        units.add_metric((sharing.value,), counted[True, sharing])
    yield from (made, units)
