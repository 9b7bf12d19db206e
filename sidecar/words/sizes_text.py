"""Sentences about a size that people ordered. Pure."""

from __future__ import annotations

from sidecar.decide.books.resize import size_of_order
from sidecar.decide.books.sizes import kept_of
from sidecar.decide.container.container import Container
from sidecar.decide.world import World
from sidecar.words.counts import agree, cpus, named
from state.cpuset import CPUSet
from state.model import Assignment


def about_size(world: World, container: Container, grant: Assignment) -> tuple[str, str]:
    """Return what was made of the size that was ordered for a container, and why it has another number of CPUs; ""
    for each that needs no word.
    """
    size = size_of_order(world, grant)
    told = rounded(grant.ordered, size, kept_of(world, grant), grant.demand.ceiling)
    return told, short(len(grant.cpus), size, is_idle=container.is_idle)


def short(has: int, size: int, *, is_idle: bool = False) -> str:
    """Return that a container has fewer CPUs than its size, or more, and why; "" if it has as many."""
    if has > size:
        return f"it keeps {cpus(has)}: without a whole core it would have fewer than {size}"
    if has == size:
        return ""
    if is_idle:
        return f"it has {has} of {cpus(size)}, and does not run: it gets the rest when it runs"
    return f"{has} of {cpus(size)} {agree(has, 'is', 'are')} available now; it gets the rest when CPUs become spare"


def rounded(ordered: int | None, size: int, kept: CPUSet, ceiling: int) -> str:
    """Return what was made of an ordered number; "" if it is the size, or nothing was ordered. `kept` is what the
    container never gives up, and `ceiling` the most that it may have now.
    """
    if ordered is None or ordered == size:
        return ""
    if ordered < size == len(kept):
        return f"it never gives up {named(kept)}: the order of {ordered} became {size}"
    if ordered > ceiling:
        return f"it may have at most {cpus(size)} now: the order of {ordered} became {size}"
    return f"it gets whole cores: the order of {ordered} became {size}"
