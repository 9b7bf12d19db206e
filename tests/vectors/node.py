"""The kubelet's state around its placement: pods, their order, reuse by init containers, stale entries.

A host of containers has no pods, so none of this is in the program. It asks the program's own placement the questions
of a kubelet, in a kubelet's order: `choose` for a container by itself, and the parts of `choose` where a pod's init
containers left CPUs that only this pod may use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sidecar.decide.books.room import Room
from sidecar.decide.placement.choose import Ask, choose, laid_out
from sidecar.decide.placement.numa.affinity import ANYWHERE, Affinity, hints, merged
from sidecar.decide.placement.options import ALIGN_BY_SOCKET
from sidecar.decide.placement.shortfall import not_enough, not_whole_cores
from sidecar.decide.placement.whole_cores import is_by_cores, takeable, unit_of
from state.cpuset import EMPTY, CPUSet, union
from state.demand import NumaRule
from state.refusal import Refusal
from state.topology import Topology

Pod = dict[str, Any]
Spec = dict[str, Any]


@dataclass
class Node:
    """One kubelet's static policy. `default` is its shared pool."""

    topology: Topology
    options: tuple[str, ...]
    reserved: CPUSet
    strict: bool
    rule: NumaRule
    by_pod: bool
    default: CPUSet
    assignments: dict[str, dict[str, CPUSet]]
    active: set[str] = field(default_factory=set)
    reusable: dict[str, CPUSet] = field(default_factory=dict)
    fixed_hint: Affinity | None = None

    @property
    def free(self) -> CPUSet:
        """Return the CPUs that may be granted exclusively."""
        return self.default - self.reserved

    def sweep(self) -> None:
        """Forget the pods that are not active."""
        for pod in [pod for pod in self.assignments if pod not in self.active]:
            self.default |= union(self.assignments.pop(pod).values())

    def admit(self, pod: Pod) -> tuple[bool, dict[str, Affinity], Refusal | None]:
        """Admit init containers first, then the others, until one is refused. Return whether the pod was admitted, the
        chosen nodes, and the refusal (None if the topology manager refused).
        """
        self.active.add(pod["name"])
        self.sweep()
        chosen: dict[str, Affinity] = {}
        # One choice of nodes for a whole pod, or one for each container when its turn comes.
        for_all = self.hint(pod, None) if self.by_pod else None
        for container in containers_of(pod):
            name = container["name"]
            wanted = for_all or self.hint(pod, container)
            if not wanted.is_admitted:
                self.active.discard(pod["name"])
                return False, {}, None
            if wanted.nodes is not None and exclusive_cpus(pod, container):
                chosen[name] = wanted
            refused = self.allocate(pod, container, wanted)
            if refused is not None:
                self.active.discard(pod["name"])
                return False, chosen, refused
        return True, chosen, None

    def hint(self, pod: Pod, container: Spec | None) -> Affinity:
        """Return the nodes that the topology manager decides on, for a container or for a whole pod."""
        if self.fixed_hint is not None:
            return self.fixed_hint
        if self.rule is NumaRule.NONE:
            return ANYWHERE
        listed = self.hints(pod, container)
        return ANYWHERE if listed is None else merged(self.topology, listed, self.rule)

    def hints(self, pod: Pod, container: Spec | None) -> list[Affinity] | None:
        """Return the hints for a container, or for a whole pod; None if it asks for nothing."""
        held = self.assignments.get(pod["name"], {})
        count = exclusive_cpus(pod, container) if container else pod_cpus(pod)
        if not count:
            return None
        by_socket = ALIGN_BY_SOCKET in self.options
        own = held.get(container["name"]) if container else union(held.values()) if held else None
        if own is not None:
            return list(hints(self.topology, own, count, by_socket=by_socket)) if len(own) == count else []
        reuse = self.reusable.get(pod["name"], EMPTY)
        return list(hints(self.topology, self.free, count, by_socket=by_socket, held=reuse))

    def allocate(self, pod: Pod, container: Spec, wanted: Affinity) -> Refusal | None:
        """Give a container its CPUs; return why not, if not."""
        count = exclusive_cpus(pod, container)
        if not count:
            return None
        held = self.assignments.get(pod["name"], {})
        cpus = held.get(container["name"])
        if cpus is None:
            found = self._choose(self.reusable.get(pod["name"], EMPTY), count, wanted)
            if isinstance(found, Refusal):
                return found
            cpus = found
            self.assignments.setdefault(pod["name"], {})[container["name"]] = cpus
            self.default -= cpus
        self._remember(pod, container, cpus)
        return None

    def remove(self, pod: str, container: str) -> None:
        """Forget one container of a pod: CPUs that its siblings do not hold are shared again."""
        held = self.assignments.get(pod, {})
        cpus = held.pop(container, EMPTY)
        self.default |= cpus - union(held.values())
        if not held:
            self.assignments.pop(pod, None)

    def _choose(self, reuse: CPUSet, count: int, wanted: Affinity) -> CPUSet | Refusal:
        stands_for_itself = not reuse and not self.by_pod and self.fixed_hint is None
        ask = Ask(count=count, options=self.options, numa=self.rule if stands_for_itself else NumaRule.NONE)
        if stands_for_itself:
            return choose(self.topology, self.free, ask, accept=self._emptied)
        candidates = takeable(self.topology, self.options, self.free | reuse)
        unit = unit_of(self.topology, self.options, candidates)
        if is_by_cores(self.options):
            # The kubelet does not count here what init containers left.
            physical = self.free - self.topology.whole_cores(self.reserved)
            if count % unit or count > min(len(candidates), len(physical)):
                return not_whole_cores(self.topology, candidates, count, unit)
        if count > len(candidates):
            return not_enough(self.topology, candidates, count)
        found = laid_out(self.topology, candidates, ask, wanted)
        return self._emptied(found) or found

    def _emptied(self, cpus: CPUSet) -> Refusal | None:
        keeps_core = self.strict and is_by_cores(self.options)
        cores = self.topology.cores
        return Room(shared=self.default, cores=cores, full_cores=cores, keeps_core=keeps_core).objection(cpus)

    def _remember(self, pod: Pod, container: Spec, cpus: CPUSet) -> None:
        name = pod["name"]
        before = self.reusable.get(name, EMPTY)
        is_init = any(each["name"] == container["name"] for each in pod.get("init", []))
        is_passing = is_init and not container.get("restartable")
        self.reusable = {name: before | cpus if is_passing else before - cpus}


def containers_of(pod: Pod) -> list[Spec]:
    """Return init containers, then the others."""
    return [*pod.get("init", []), *pod["containers"]]


def milli(text: str | None) -> int:
    """Return `"2"`, `"1.5"` or `"500m"` as thousandths of a CPU; 0 for nothing."""
    if not text or text == "none":
        return 0
    return int(text[:-1]) if text.endswith("m") else round(float(text) * 1000)


def is_guaranteed(container: Spec) -> bool:
    """Return whether its limit equals its request."""
    request = milli(container.get("cpu"))
    limit = container.get("cpu_limit", container.get("cpu"))
    return request > 0 and milli(limit) == request


def whole(container: Spec) -> int:
    """Return the whole CPUs of a guaranteed container, 0 for a fraction or none."""
    request = milli(container.get("cpu"))
    return request // 1000 if is_guaranteed(container) and request % 1000 == 0 else 0


def exclusive_cpus(pod: Pod, container: Spec) -> int:
    """Return how many exclusive CPUs a container gets: none unless its whole pod is guaranteed."""
    if "pod_cpu" in pod or not all(is_guaranteed(each) for each in containers_of(pod)):
        return 0
    return whole(container)


def pod_cpus(pod: Pod) -> int:
    """Return what a whole pod needs at once: while it starts, or when it runs."""
    running = most = 0
    for container in pod.get("init", []):
        count = exclusive_cpus(pod, container)
        if container.get("restartable"):
            running += count
            most = max(most, running)
        else:
            most = max(most, running + count)
    return max(most, running + sum(exclusive_cpus(pod, each) for each in pod["containers"]))
