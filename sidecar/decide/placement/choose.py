"""The choice of CPUs for a request out of the available ones, under the options in force; or why there are none.

A new algorithm is a file in `order`, and a line in `order/by_options`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from sidecar.decide.placement.numa.affinity import Affinity, affinity
from sidecar.decide.placement.options import ALIGN_BY_SOCKET, EFFICIENT, PERFORMANCE, misfit
from sidecar.decide.placement.order.by_options import take
from sidecar.decide.placement.shortfall import cut_core, not_aligned, not_enough, not_whole_cores, with_facts
from sidecar.decide.placement.tiers import alternatives, tiers
from sidecar.decide.placement.whole_cores import is_by_cores, takeable, unit_of
from sidecar.decide.settings import IsolatedRule
from state.cpuset import EMPTY, CPUSet, union
from state.demand import NumaRule
from state.refusal import Refusal
from state.topology import Topology


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A request for `count` CPUs (at least 1), and how they should lie. `near` is a device's name, "" for none."""

    count: int
    options: tuple[str, ...] = ()
    numa: NumaRule = NumaRule.NONE
    isolated: IsolatedRule = IsolatedRule.IGNORE
    near: str = ""


Accept = Callable[[CPUSet], Refusal | None]
"""Returns why these CPUs may not be granted although they are available; None if they may."""

_ANY: Final[Accept] = lambda cpus: None  # noqa: E731, ARG005 - the shape of an Accept


def choose(topology: Topology, available: CPUSet, ask: Ask, *, accept: Accept = _ANY) -> CPUSet | Refusal:
    """Return CPUs out of `available` (which contains no reserved CPU), or why there are none.

    1. Refuse options that this machine cannot serve.
    2. Use the first alternative that can serve the whole request (kinds of cores, isolated CPUs). In each:
    3. Determine the NUMA nodes that the rule allows, or prefers.
    4. Under full-pcpus-only, only cores that are free as a whole are candidates, and the number must be a multiple of
       their threads.
    5. Run the algorithm, first on the CPUs of those nodes, then on the others; in both, nearest to the device first.
    6. Under full-pcpus-only, cores of several widths may not add up to the number: then a core would be cut.
    """
    # 1. Options that this machine cannot serve.
    if unfit := misfit(ask.options, ask.numa, topology):
        return unfit
    # 2. The first alternative that can serve.
    refused: Refusal | None = None
    for candidates in alternatives(topology, available, ask.options, ask.isolated):
        found = _among(topology, candidates, ask)
        if isinstance(found, CPUSet):
            refused = accept(found)
            if refused is None:
                return found
        else:
            refused = found
    refused = refused or not_enough(topology, EMPTY, ask.count)
    kinds = tuple(word for word in (PERFORMANCE, EFFICIENT) if word in ask.options and topology.kinds)
    return with_facts(refused, kinds=kinds, is_isolated=ask.isolated is IsolatedRule.ONLY)


def _among(topology: Topology, free: CPUSet, ask: Ask) -> CPUSet | Refusal:
    candidates = takeable(topology, ask.options, free)
    unit = unit_of(topology, ask.options, candidates)
    # 3. The nodes.
    wanted = affinity(topology, candidates, ask.count, ask.numa, by_socket=ALIGN_BY_SOCKET in ask.options)
    # 4. Whole cores only.
    if is_by_cores(ask.options) and (ask.count % unit or ask.count > len(candidates)):
        return not_whole_cores(topology, candidates, ask.count, unit)
    if not wanted.is_admitted:
        return not_aligned(topology, candidates, ask.count, ask.numa)
    if ask.count > len(candidates):
        return not_enough(topology, candidates, ask.count)
    # 5. The algorithm.
    found = laid_out(topology, candidates, ask, wanted)
    # 6. No core is cut.
    is_cut = is_by_cores(ask.options) and takeable(topology, ask.options, found) != found
    return cut_core(topology, candidates, ask.count) if is_cut else found


def laid_out(topology: Topology, candidates: CPUSet, ask: Ask, wanted: Affinity) -> CPUSet:
    """Return the CPUs for a request that can be served, those of the wanted nodes first."""
    aligned = takeable(topology, ask.options, candidates & _inside(topology, wanted, ask))
    chosen = _nearest(topology, aligned, min(ask.count, len(aligned)), ask)
    return chosen | _nearest(topology, candidates - chosen, ask.count - len(chosen), ask)


def _inside(topology: Topology, wanted: Affinity, ask: Ask) -> CPUSet:
    """Return the CPUs of the wanted nodes; under align-by-socket, of their whole sockets."""
    if wanted.nodes is None:
        return topology.online
    inside = union(node.cpus for node in topology.nodes if node.id in wanted.nodes)
    if ALIGN_BY_SOCKET in ask.options:
        inside = union(package.cpus for package in topology.packages if not package.cpus.isdisjoint(inside))
    return inside


def _nearest(topology: Topology, candidates: CPUSet, count: int, ask: Ask) -> CPUSet:
    """Return `count` of the candidates, which must be enough, by the algorithm, tier by tier."""
    chosen = EMPTY
    in_turn = [tier for tier in tiers(topology, candidates, ask.near, ask.isolated) if tier]
    # Cores are not cut at the edge of a tier; CPUs that are then missing come from all candidates.
    unit = unit_of(topology, ask.options, candidates)
    for tier in (*in_turn, candidates) if len(in_turn) > 1 else (candidates,):
        free = takeable(topology, ask.options, tier - chosen)
        amount = min(count - len(chosen), len(free))
        amount -= amount % unit if tier != candidates else 0
        if amount:
            chosen |= take(topology, free, amount, ask.options) or EMPTY
    return chosen
