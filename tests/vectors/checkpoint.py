"""Vectors of kind `checkpoint`: the kubelet's state file, as read and as written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sidecar.kubelet.kubelet_state import KubeletState, decode, encode
from state.cpuset import CPUSet
from state.errors import CheckpointCorrupt, StateError
from state.topology import Topology
from tests.vectors.verdict import EQUAL, Vector, Verdict, wanted

DEVIATIONS: Final = {
    "CPUs are numbered 0 to": "stricter: CPUs above 8191 are none that Linux has; the kubelet takes any number",
    "twice": "stricter: a key twice in one object is refused; the kubelet takes the last",
    "too many": "stricter: the size of the file is bounded",
    "more CPUs than any node": "stricter: the size of the file is bounded",
}
"""Words of our refusals, and why the kubelet has no such."""

KINDS: Final = {
    "differs from state checkpoint policy": "policy",
    "could not parse default cpu set": "default",
    "could not parse cpuset": "cpuset",
    "not found in initial containers list": "container",
}
"""Words of the kubelet's errors, and what kind they are of; all others are of a file that cannot be read at all."""

OURS: Final = {
    "the policy is": "policy",
    "defaultCpuSet: ": "default",
    "is unknown": "container",
    "of pod": "cpuset",
}
"""The same for our words, of which the first that is found counts."""


def judge(vector: Vector, machines: Mapping[str, Topology]) -> Verdict:
    """Compare what is read and the bytes that are written; or that both refuse, for the same kind of reason."""
    want = wanted(vector)
    try:
        got: Mapping[str, Any] = _restarted(vector)
    except StateError as error:
        if "error" not in want:
            reasons = (reason for words, reason in DEVIATIONS.items() if words in str(error))
            return Verdict(f"refused: {error}", next(reasons, ""))
        kind, wanted_kind = _kind(str(error), OURS), _kind(want["error"], KINDS)
        # The kubelet compares the policy before it reads the lists; we have none to compare with when reading.
        if kind == wanted_kind or (wanted_kind == "policy" and kind in {"default", "cpuset"}):
            return EQUAL
        return Verdict(f"refused for {kind}: {error}; the kubelet for {wanted_kind}: {want['error']}")
    return EQUAL if got == want else Verdict(f"{got} instead of {want}")


def _restarted(vector: Vector) -> dict[str, Any]:
    """Return what a kubelet with this policy finds, writes, and leaves in the file. StateError if it would not
    start.
    """
    pod_level = bool(vector.get("gates", {}).get("PodLevelResourceManagers"))
    read, file = KubeletState(policy=vector["policy"]), b""
    if "raw" in vector:
        file = vector["raw"].encode()
        containers = {id: (pod, name) for pod, name, id in vector.get("container_map", ())}
        read = decode(file, containers, pod_level=pod_level)
        if read.policy != vector["policy"]:
            raise CheckpointCorrupt(f"the policy is {read.policy!r}")
    else:
        file = encode(read, pod_level=pod_level)
    if "state" in vector:
        read = _told(vector["policy"], vector["state"])
        file = encode(read, pod_level=pod_level)
    shown: dict[str, Any] = {
        "default": str(read.default),
        "assignments": {
            pod: {name: str(cpus) for name, cpus in named.items()} for pod, named in read.assignments.items()
        },
        "file": file.decode(),
    }
    if read.pod_assignments or "pod_assignments" in wanted(vector):
        shown["pod_assignments"] = {pod: str(cpus) for pod, cpus in read.pod_assignments.items()}
    return shown


def _told(policy: str, state: Mapping[str, Any]) -> KubeletState:
    return KubeletState(
        policy=policy,
        default=CPUSet.parse(state["default"]),
        assignments={
            pod: {name: CPUSet.parse(cpus) for name, cpus in named.items()}
            for pod, named in state["assignments"].items()
        },
        pod_assignments={pod: CPUSet.parse(cpus) for pod, cpus in state.get("pod_assignments", {}).items()},
    )


def _kind(message: str, kinds: Mapping[str, str]) -> str:
    return next((kind for words, kind in kinds.items() if words in message), "unreadable")
