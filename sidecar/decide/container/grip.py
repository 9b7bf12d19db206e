"""Grip: the state of the hand's own writes to a container's cgroup, in its present run."""

from __future__ import annotations

import msgspec

from sidecar.decide.orders import WriteCpuset
from state.cpuset import EMPTY, CPUSet


class Loose(msgspec.Struct, frozen=True, tag="loose"):
    """Its cgroup was not written in this run, as far as is known. If the hand saw its birth, it has the hand's answer.

    `unsure`: other CPUs on which it may be by what the hand did; a look that began after `since` ends that. `is_moved`:
    nothing guarded it, and the hand may have moved it since, more than once: what all of these have together is not
    what it has.
    """

    unsure: CPUSet = EMPTY
    is_moved: bool = False
    since: int = 0


class Writing(msgspec.Struct, frozen=True, tag="writing"):
    """A write is outstanding. `is_guarded`: an earlier write still guards it. `looked` is the ticket of the newest look
    meanwhile. `is_overlapped`: one showed another run, so the write may have met either. `slipped` is the ticket of the
    newest slip meanwhile, 0 without one: the write may have been done before, and guards nothing. `is_moved`: it may
    have been moved before, so until the write is done it is sure of nothing.
    """

    order: WriteCpuset
    unsure: CPUSet = EMPTY
    is_guarded: bool = False
    looked: int = 0
    is_overlapped: bool = False
    slipped: int = 0
    is_moved: bool = False


class Guarded(msgspec.Struct, frozen=True, tag="guarded"):
    """The hand wrote these CPUs, and writes them again whenever another program, or a late order, writes others."""

    cpus: CPUSet


class Closed(msgspec.Struct, frozen=True, tag="closed"):
    """The hand cannot write it: in this run the engine alone changes its CPUs. `reason` is for people; `unsure` and
    `since` as in Loose. `is_missing`: the hand found no cgroup of it.
    """

    reason: str
    unsure: CPUSet = EMPTY
    is_missing: bool = False
    since: int = 0


Grip = Loose | Writing | Guarded | Closed
