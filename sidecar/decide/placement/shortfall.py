"""Why a request is not served, as facts: the number asked for, the free CPUs by place, and numbers that would fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from sidecar.decide.placement.numa.affinity import affinity
from state.cpuset import CPUSet, union
from state.demand import NumaRule
from state.refusal import (
    Asked,
    CutCore,
    NoMultiple,
    Part,
    Refusal,
    RefusalCode,
    Scattered,
    TooFew,
    TooFewWholeCores,
)
from state.topology import Group, Topology


def not_enough(topology: Topology, free: CPUSet, count: int) -> Refusal:
    """Return the refusal for fewer free CPUs than asked for."""
    would_fit = (len(free),) if free else ()
    return Refusal(RefusalCode.NOT_ENOUGH, TooFew(count=count, free=where(topology, free), would_fit=would_fit))


def not_whole_cores(topology: Topology, free: CPUSet, count: int, width: int) -> Refusal:
    """Return the refusal, under full-pcpus-only, of a number that is not one of whole cores, or exceeds the CPUs of the
    cores that are free as a whole.
    """
    if count % width:
        near = (count - count % width, count - count % width + width)
        fitting = tuple(n for n in near if 0 < n <= len(free))
        return Refusal(RefusalCode.NOT_WHOLE_CORES, NoMultiple(count=count, width=width, would_fit=fitting))
    fitting = (len(free),) if free else ()
    detail = TooFewWholeCores(count=count, free=where(topology, free), would_fit=fitting)
    return Refusal(RefusalCode.NOT_WHOLE_CORES, detail)


def cut_core(topology: Topology, free: CPUSet, count: int) -> Refusal:
    """Return the refusal, under full-pcpus-only, for cores of several widths that do not add up to `count`."""
    # Bit n is set if some of the free cores have n CPUs together.
    sums = 1
    for core in topology.cores:
        if core.cpus <= free:
            sums |= sums << len(core.cpus)
    possible = [n for n in range(1, sums.bit_length()) if sums >> n & 1]
    below, above = [n for n in possible if n < count][-1:], [n for n in possible if n > count][:1]
    detail = CutCore(count=count, free=where(topology, free), would_fit=(*below, *above))
    return Refusal(RefusalCode.NOT_WHOLE_CORES, detail)


def not_aligned(topology: Topology, free: CPUSet, count: int, rule: NumaRule) -> Refusal:
    """Return the refusal for a rule that requires fewer NUMA nodes than could serve now."""
    if len(free) < count:
        return not_enough(topology, free, count)
    largest = max(len(node.cpus & free) for node in topology.nodes)
    loose = affinity(topology, free, count, NumaRule.BEST_EFFORT)
    return Refusal(
        RefusalCode.NOT_ALIGNED,
        Scattered(
            count=count,
            numa=rule.value,
            free=where(topology, free),
            would_fit=(largest,) if rule is NumaRule.SINGLE and largest else (),
            nodes=tuple(sorted(loose.nodes)) if loose.nodes else (),
        ),
    )


def only_fitting(refusal: Refusal, unit: int, fits: Callable[[int], bool]) -> Refusal:
    """Return the refusal with only numbers that fit: those named that are larger than the number asked for, and the
    largest of the others, or else one below it.
    """
    detail = refusal.detail
    if not isinstance(detail, Asked) or not detail.would_fit:
        return refusal
    fewer = max((count for count in detail.would_fit if count < detail.count), default=0)
    if fewer and not fits(fewer):
        fewer = largest_fitting(fewer - 1, unit, fits)
    more = [count for count in detail.would_fit if count > detail.count and fits(count)]
    return with_facts(refusal, would_fit=(*([fewer] if fewer else []), *more))


def largest_fitting(most: int, unit: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number of CPUs in whole units, at most `most`, that fits; 0 if none does.

    It is found by bisection. Where more CPUs can fit and fewer cannot, it is some number that fits.
    """
    if not (first := most - most % unit) or fits(first):
        return first
    low, high = 0, first // unit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle * unit) else (low, middle)
    return low * unit


def with_facts(refusal: Refusal, **facts: Any) -> Refusal:
    """Return the refusal with more facts of `Asked`; unchanged if its detail is no `Asked`."""
    if not isinstance(refusal.detail, Asked):
        return refusal
    return Refusal(refusal.code, msgspec.structs.replace(refusal.detail, **facts))


def where(topology: Topology, free: CPUSet) -> tuple[Part, ...]:
    """Return the free CPUs by node, and by caches if a node has several."""
    parts = tuple(_parts(topology, free))
    rest = free - union(part.cpus for part in parts)
    return (*parts, Part(rest)) if rest else parts


def _parts(topology: Topology, free: CPUSet) -> Iterator[Part]:
    for node in _touched(topology.nodes, free):
        inside = free & node.cpus
        id = node.id if len(topology.nodes) > 1 else None
        caches = _touched(topology.caches, node.cpus)
        if len(caches) < 2 or all(len(cache.cpus) <= topology.cpus_per_core for cache in caches):
            yield Part(inside, id)
            continue
        for cache in _touched(topology.caches, inside):
            yield Part(inside & cache.cpus, id, cache.id)


def _touched(groups: tuple[Group, ...], cpus: CPUSet) -> list[Group]:
    return [group for group in groups if not group.cpus.isdisjoint(cpus)]
