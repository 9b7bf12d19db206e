"""The placement options: their names, the combinations that are allowed, and the machines that can serve them.

They are the kubelet's static policy options, with its names and incompatibilities, and two further ones for machines
with several kinds of cores. A container's options replace the node's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sidecar.readers import kept
from state.demand import NumaRule
from state.refusal import Excluded, MoreSocketsThanNodes, NoOption, NoTruth, Refusal, RefusalCode, SocketOnOneNode
from state.topology import Topology

FULL_PCPUS_ONLY: Final = "full-pcpus-only"
STRICT_CPU_RESERVATION: Final = "strict-cpu-reservation"
ACROSS_NUMA: Final = "distribute-cpus-across-numa"
ACROSS_CORES: Final = "distribute-cpus-across-cores"
ALIGN_BY_SOCKET: Final = "align-by-socket"
ALONG_CACHES: Final = "prefer-align-cpus-by-uncorecache"
PERFORMANCE: Final = "performance"
EFFICIENT: Final = "efficient"

NODE_OPTIONS: Final = (
    FULL_PCPUS_ONLY,
    STRICT_CPU_RESERVATION,
    ACROSS_NUMA,
    ACROSS_CORES,
    ALIGN_BY_SOCKET,
    ALONG_CACHES,
)
"""The options allowed in the configuration: the kubelet's."""

CONTAINER_OPTIONS: Final = (
    FULL_PCPUS_ONLY,
    ACROSS_NUMA,
    ACROSS_CORES,
    ALIGN_BY_SOCKET,
    ALONG_CACHES,
    PERFORMANCE,
    EFFICIENT,
)
"""The options allowed in the label `cpuset.options`: no reservation, which is the node's, but the kinds of cores."""

_EXCLUDE_EACH_OTHER: Final = (
    (FULL_PCPUS_ONLY, ACROSS_CORES),
    (ACROSS_NUMA, ACROSS_CORES),
    (ALONG_CACHES, ACROSS_CORES),
    (ALONG_CACHES, ACROSS_NUMA),
    (PERFORMANCE, EFFICIENT),
)
"""In the kubelet's order of checking."""

_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
_FALSE: Final = ("0", "f", "F", "FALSE", "false", "False")


def clashes(options: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of these options that cannot be used together."""
    given = set(options)
    return tuple((one, other) for one, other in _EXCLUDE_EACH_OTHER if one in given and other in given)


def conflict(options: Iterable[str]) -> Refusal | None:
    """Return why these options cannot be used together; None if they can."""
    for one, other in clashes(options):
        return Refusal(RefusalCode.CONTRADICTION, Excluded(one, other))
    return None


def misfit(options: Iterable[str], numa: NumaRule, topology: Topology) -> Refusal | None:
    """Return why these options cannot be used on this machine under this NUMA rule; None if they can."""
    if ALIGN_BY_SOCKET not in options:
        return None
    if numa is NumaRule.SINGLE:
        return Refusal(RefusalCode.CONTRADICTION, SocketOnOneNode(ALIGN_BY_SOCKET, numa.value))
    sockets, nodes = len(topology.packages), len(topology.nodes)
    if sockets > nodes:
        return Refusal(RefusalCode.CONTRADICTION, MoreSocketsThanNodes(ALIGN_BY_SOCKET, sockets, nodes))
    return None


def from_switches(switches: Mapping[str, str]) -> tuple[str, ...] | Refusal:
    """Return the options that are on, from names and truth values in the kubelet's form; or what is wrong.

    The words for true and false are those of Go's ParseBool, so options of a kubelet can be copied unchanged.
    """
    for name, value in sorted(switches.items()):
        if name not in NODE_OPTIONS:
            return Refusal(RefusalCode.BAD_LABEL, NoOption(kept(name)))
        if value not in _TRUE + _FALSE:
            return Refusal(RefusalCode.BAD_LABEL, NoTruth(name, kept(value)))
    given = tuple(sorted(name for name, value in switches.items() if value in _TRUE))
    return conflict(given) or given
