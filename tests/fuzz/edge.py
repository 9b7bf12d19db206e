"""An edge: where foreign input enters, what may be raised there, and how many inputs a second it takes."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple


class Edge(NamedTuple):
    """`play` makes one input from a source of chance and lets it in; only `allowed` errors may come back. It asserts
    what must be true of what was let in.
    """

    name: str
    play: Callable[[Random], object]
    allowed: tuple[type[BaseException], ...] = ()


class Escaped(NamedTuple):
    """An error that escaped, or a law that was broken, and the seed that shows it."""

    edge: str
    seed: int
    trace: str


def play(edge: Edge, seed: int) -> Escaped | None:
    """Let the input of this seed in; return what escaped."""
    try:
        edge.play(Random(f"{edge.name} {seed}"))
    except edge.allowed:
        return None
    except Exception:
        return Escaped(edge.name, seed, traceback.format_exc())
    return None


def played(edge: Edge, seeds: range) -> Iterator[Escaped]:
    """Let the inputs of these seeds in; yield what escaped."""
    for seed in seeds:
        if found := play(edge, seed):
            yield found
