"""Sentences about a size that people ordered. Pure."""

from __future__ import annotations

from sidecar.words.counts import agree, cpus


def short(has: int, size: int) -> str:
    """Return that a container has fewer CPUs than its size; "" if it has them all."""
    if has >= size:
        return ""
    return f"{has} of {cpus(size)} {agree(has, 'is', 'are')} available now; it gets the rest when CPUs become spare"


def rounded(ordered: int | None, size: int) -> str:
    """Return what was made of an ordered number; "" if it is the size, or nothing was ordered."""
    return "" if ordered in (None, size) else f"it gets whole cores: the order of {ordered} became {size}"
