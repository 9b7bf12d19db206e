"""What a hostile tenant does to containers of its own: each act was found to cost others their CPUs once."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final


class Attack(enum.StrEnum):
    """An act. Others than these need more rights than a tenant has."""

    GIANT = "giant"
    """A container with a giant label."""
    LOCK = "lock"
    """Hold the lock of a container, by a copy that nobody reads."""
    CLAIM = "claim"
    """Claim the name of another's projection."""
    REPIN = "repin"
    """Pin a container by hand to all CPUs."""
    LOOP = "loop"
    """The same again and again."""
    RENAME = "rename"
    """Take a name that is left alone, or the id of another container."""
    CROWD = "crowd"
    """Start some at once."""
    FLEE = "flee"
    """Opt out, pinned to all CPUs."""
    STARVE = "starve"
    """Pin a container to all CPUs, and never start it."""
    EXHAUST = "exhaust"
    """Claim names for projections by the dozen, by containers that are gone at once."""
    NEST = "nest"
    """Run a container inside the cgroup of another one of its own."""


LOOP: Final = 20
"""Updates of one container, one after the other."""

CROWD: Final = 5
"""Containers that start at once."""

NAMES: Final = 12
"""Names that are claimed at once."""

UNMANAGED: Final = "db-1"
"""A name that the owner of the host leaves alone."""


def rounds(chance: Random, attacks: Sequence[Attack]) -> Iterator[Attack]:
    """Yield acts without end, in an order drawn anew for each round of all."""
    while True:
        yield from chance.sample(attacks, len(attacks))
