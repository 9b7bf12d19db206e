"""Kinds of containers, as values: what users ask for, with which limits, and what happens when the program ends."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

import msgspec

from sidecar.simulation.model_limits import Limits
from state.cpuset import CPUSet

NANO: Final = 1_000_000_000
_PERIOD: Final = 100_000

WAITS: Final = (0.0, 0.0, 0.002, 0.2)
"""Seconds from a creation to the start: most users run what they create."""


class CpuLimit(enum.Enum):
    """The CPU limit of a container: equal to its request, in either of the engine's forms."""

    NONE = enum.auto()
    NANO = enum.auto()
    QUOTA = enum.auto()


class ContainerKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of container. Where a field has several values, each container of the kind draws one."""

    weight: int = 1
    """How likely it is, beside the others of a table."""
    is_exclusive: bool = False
    """Whether it asks for CPUs of its own."""
    sizes: tuple[int, ...] = ()
    """How many; none: as many as there is room for."""
    below: tuple[int, ...] = ()
    """By how much its least is below its size; none: it names no least."""
    above: tuple[int, ...] = ()
    """By how much its most is above its size; none: it names no most."""
    labels: Mapping[str, tuple[str, ...]] = {}
    """The other labels; "" leaves one out, and `{number}` in one is the container's."""
    limits: tuple[CpuLimit, ...] = (CpuLimit.NONE,)
    is_pinned: bool = False
    """Whether its user pins it to a CPU by hand."""
    restarts: tuple[bool, ...] = (False,)
    """Whether the engine starts it again when it ends by itself."""
    removes_itself: tuple[bool, ...] = (False,)
    loads: tuple[float, ...] = (0.0,)
    """CPUs that it would use."""
    command: tuple[str, ...] = ()
    """What it runs on a real engine; none: it sleeps."""

    def without(self, limit: CpuLimit) -> ContainerKind:
        """Return the same kind, never limited in this way."""
        left = tuple(each for each in self.limits if each is not limit)
        return msgspec.structs.replace(self, limits=left or (CpuLimit.NONE,))

    def drawn(self, chance: Random, sizes: Sequence[int], online: CPUSet) -> Wanted:
        """Draw a container of this kind. `sizes` are those that fit."""
        size, labels = 1, {}
        if self.is_exclusive:
            size = chance.choice(self.sizes or sizes)
            labels["cpuset.exclusive"] = str(size)
        if self.below:
            labels["cpuset.min"] = str(max(1, size - chance.choice(self.below)))
        if self.above:
            labels["cpuset.max"] = str(size + chance.choice(self.above))
        labels.update({label: value for label, values in self.labels.items() if (value := chance.choice(values))})
        limit, pin = chance.choice(self.limits), str(chance.choice(list(online))) if self.is_pinned else ""
        return Wanted(
            labels=labels,
            limits=Limits(
                cpuset=pin,
                nano_cpus=size * NANO if limit is CpuLimit.NANO else 0,
                cpu_quota=size * _PERIOD if limit is CpuLimit.QUOTA else 0,
                cpu_period=_PERIOD if limit is CpuLimit.QUOTA else 0,
            ),
            restarts=chance.choice(self.restarts),
            removes_itself=chance.choice(self.removes_itself),
            load=chance.choice(self.loads),
            waits=chance.choice(WAITS),
            command=self.command,
        )


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A container to create."""

    labels: Mapping[str, str] = {}
    limits: Limits = Limits()
    restarts: bool = False
    removes_itself: bool = False
    load: float = 0.0
    waits: float = 0.0
    """Seconds from its creation to its start."""
    command: tuple[str, ...] = ()

    def labels_of(self, number: int) -> dict[str, str]:
        """Return the labels of the container with this number."""
        return {label: value.format(number=number) for label, value in self.labels.items()}


_LIMITED: Final = (CpuLimit.NONE, CpuLimit.NANO, CpuLimit.QUOTA)
_WAITS: Final = {"cpuset.on-shortage": ("wait",)}

PLAIN: Final = ContainerKind(weight=2)

FIXED: Final = (
    PLAIN,
    ContainerKind(weight=2, is_exclusive=True),
    ContainerKind(is_exclusive=True, labels=_WAITS),
    ContainerKind(is_exclusive=True, labels={"cpuset.on-shortage": ("stop",)}),
    ContainerKind(is_exclusive=True, limits=(CpuLimit.QUOTA,), removes_itself=(True,)),
    ContainerKind(is_exclusive=True, limits=(CpuLimit.NANO,)),
    ContainerKind(is_exclusive=True, restarts=(True,)),
)
"""Those that share, and those that ask for CPUs of their own, whatever happens when there are none."""

ODD: Final = (
    ContainerKind(is_pinned=True),
    ContainerKind(is_exclusive=True, sizes=(1,), labels={"cpuset.on-shortage": ("", "wait")}),
    ContainerKind(weight=2, is_exclusive=True, limits=_LIMITED),
    ContainerKind(labels={"cpuset.exclusive": ("1.5",)}),
    ContainerKind(labels={"cpuset.manage": ("off",)}),
    ContainerKind(is_exclusive=True, limits=_LIMITED, labels={"cpuset.numa": ("single",)}),
    ContainerKind(is_exclusive=True, limits=_LIMITED, labels={"cpuset.near": ("nic",), "cpuset.mems": ("follow",)}),
    ContainerKind(is_exclusive=True, sizes=(2,), labels={"cpuset.options": ("efficient",), "cpuset.mems": ("follow",)}),
)
"""Those that are pinned, mistaken or left alone, and those that care where their CPUs are."""

ELASTIC: Final = ContainerKind(
    weight=7,
    is_exclusive=True,
    below=(0, 0, 1, 2),
    above=(0, 1, 3, 8),
    labels={
        "cpuset.scale": ("fill", "fill", "load", "manual"),
        "cpuset.grace": ("0s", "0.5s", "2s", "5s", ""),
        "cpuset.signal": ("", "", "", "HUP", "USR1"),
        "cpuset.move": ("", "", "true"),
        "cpuset.weight": ("", "", "1", "5", "30"),
        "cpuset.on-shortage": ("", "", "wait", "stop"),
        "cpuset.projection": (*[""] * 4, "p{number}"),
    },
    limits=(*[CpuLimit.NONE] * 10, CpuLimit.NANO, CpuLimit.QUOTA),
    restarts=(*[False] * 9, True),
    removes_itself=(*[False] * 9, True),
    loads=(0.0, 0.3, 2.5, 8.0),
)
"""Those whose CPUs may change."""
