"""Pods with resources of their own, as the kubelet's pod-level managers split them: one set of CPUs for the pod, parts
of it for its guaranteed containers, and the rest shared by the others.
"""

from __future__ import annotations

from sidecar.decide.placement.choose import Ask, choose
from sidecar.words.refusals import sentence
from state.cpuset import CPUSet
from tests.vectors.node import Node, Pod, containers_of, milli, whole


def allocate_pod(node: Node, pod: Pod) -> str:
    """Give a pod its CPUs and split them; return what went wrong, "" for nothing."""
    found = choose(
        node.topology,
        node.free,
        Ask(count=milli(pod["pod_cpu"]) // 1000, options=node.options),
    )
    if not isinstance(found, CPUSet):
        return sentence(found)
    parts: dict[str, CPUSet] = {}
    # Containers that stay, one after the other, from the CPUs left by earlier ones.
    left = found
    before: dict[str, CPUSet] = {}
    for container in containers_of(pod):
        before[container["name"]] = left
        is_passing = container in pod.get("init", []) and not container.get("restartable")
        if not is_passing and (count := whole(container)):
            part = _part(node, left, count)
            parts[container["name"]] = part
            left -= part
    for container in containers_of(pod):
        name = container["name"]
        if name in parts:
            continue
        is_passing = container in pod.get("init", [])
        among = before[name] if is_passing else left
        parts[name] = _part(node, among, whole(container)) if whole(container) else among
        if not parts[name]:
            return "the pod's shared pool would be empty"
    node.assignments[pod["name"]] = parts
    node.default -= found
    return ""


def _part(node: Node, among: CPUSet, count: int) -> CPUSet:
    found = choose(node.topology, among, Ask(count=count, options=node.options))
    assert isinstance(found, CPUSet)
    return found
