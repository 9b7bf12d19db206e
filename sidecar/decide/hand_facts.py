"""What the hand reports: the thread at the edge that watches and writes cgroups itself. Part of the facts' union.

A newborn group is a cgroup that appeared below an engine's parent and is not known yet: a container before its first
look, a step of a build, a container of a foreign engine. The hand writes it from the standing answers
(`orders.Answers`), without asking.
"""

from __future__ import annotations

import msgspec

from state.cpuset import CPUSet
from state.key import ContainerKey


class HandReady(msgspec.Struct, frozen=True, tag=True):
    """The hand works, and watches these parents: paths below the hierarchy's root. It holds no answers until
    `AnswersHeld`. Reported again when a parent appears, is gone, or is freed by another process.

    `taken` are parents that another hand watches, so that this one does not. `home` is where containers that name no
    parent are born, if the configuration has it; else nothing.
    """

    parents: tuple[str, ...]
    began: int
    taken: tuple[str, ...] = ()
    home: tuple[str, ...] = ()


class HandLost(msgspec.Struct, frozen=True, tag=True):
    """There is no hand (any more): cpusets change by the engine alone. `reason` is a sentence's end, for people."""

    reason: str
    ended: int = 0


class AnswersHeld(msgspec.Struct, frozen=True, tag=True):
    """The hand holds the answers of this order. Newborn groups that were answered earlier were rewritten, except for
    those that cannot be: `stuck` are all CPUs where such a group may run, or one that is let go with these and did
    not get back at once what it had. `parents` are those that are watched now.
    """

    number: int
    parents: tuple[str, ...]
    stuck: CPUSet
    ended: int


class CpusetWritten(msgspec.Struct, frozen=True, tag=True):
    """A kernel write took effect: `effective` is what the container's cgroup shows afterwards."""

    container: ContainerKey
    order: int
    effective: CPUSet
    ended: int


class WriteFailed(msgspec.Struct, frozen=True, tag=True):
    """A kernel write failed. `is_gone`: the container has no cgroup any more, which a look explains. Otherwise the hand
    cannot write it: until the container's next start, the engine alone changes its CPUs.
    """

    container: ContainerKey
    order: int
    reason: str
    is_gone: bool
    ended: int


class Overwritten(msgspec.Struct, frozen=True, tag=True):
    """Another program wrote a container's cpuset (`found`, the newest), so many times since the last such report, which
    is a second old or more; the hand wrote the expected one again each time. None: it has been calm for a while.
    `is_wrested`: what it wrote has lately stood for a part of the time that counts.
    """

    container: ContainerKey
    found: CPUSet
    times: int
    is_wrested: bool = False


class Slipped(msgspec.Struct, frozen=True, tag=True):
    """The hand can neither guard nor move a container's cgroup any more, and another program may have written it; told
    again after each later write. `reason` is for people.
    """

    container: ContainerKey
    reason: str
    ended: int


class BornInside(msgspec.Struct, frozen=True, tag=True):
    """A group that is called like this container appeared inside the group of an owner, below the cgroup `parent`, a
    path. It is that container, or of the owner's own making: what the engine knows of it tells.
    """

    container: ContainerKey
    owner: ContainerKey
    parent: str
    began: int


class GoneInside(msgspec.Struct, frozen=True, tag=True):
    """That group is gone, or what it was in is no owner's any more."""

    container: ContainerKey
    owner: ContainerKey


HandFact = (
    HandReady | HandLost | AnswersHeld | CpusetWritten | WriteFailed | Overwritten | Slipped | BornInside | GoneInside
)
