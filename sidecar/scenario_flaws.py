"""ScenarioFlaw: what a scenario asks for that no machine has, or that cannot happen at its time."""

from __future__ import annotations

from typing import TypeAlias

from state.cpuset import CPUSet
from state.mistakes import Flaw


class MeansNothing(Flaw, frozen=True):
    """The key of the configuration means nothing in a simulation."""


class OnlyAtStart(Flaw, frozen=True):
    """The key of the configuration takes effect only after a restart of the sidecar."""


class NoMachine(Flaw, frozen=True):
    """A scenario has no machine."""


class TwoMachines(Flaw, frozen=True):
    """A scenario's machine is described and taken from a file as well."""


class Unrecorded(Flaw, frozen=True):
    """The file of a machine cannot be used."""

    reason: str


class MachineTooLarge(Flaw, frozen=True):
    """The machine would have `cpus` CPUs, and at most `most` are possible."""

    cpus: int
    most: int


class UnevenCaches(Flaw, frozen=True):
    """The cores of a node cannot share its caches evenly."""

    cores: int
    caches: int


class Twice(Flaw, frozen=True):
    """There are two containers of this name."""


class IsThere(Flaw, frozen=True):
    """A container is to be created that is there at that time."""


class NotThere(Flaw, frozen=True):
    """Something happens to a container that is not there at that time; `there` are those that are."""

    there: tuple[str, ...]


class LastCPU(Flaw, frozen=True):
    """The last CPU is to go offline."""


class NoSuchCPUs(Flaw, frozen=True):
    """The machine has the `online` CPUs, and not the `missing` ones."""

    missing: CPUSet
    online: CPUSet


class DoesNotFollow(Flaw, frozen=True):
    """A time to move is given for a container that does not follow its projection."""


ScenarioFlaw: TypeAlias = (
    MeansNothing
    | OnlyAtStart
    | NoMachine
    | TwoMachines
    | Unrecorded
    | MachineTooLarge
    | UnevenCaches
    | Twice
    | IsThere
    | NotThere
    | LastCPU
    | NoSuchCPUs
    | DoesNotFollow
)
"""What cannot be played."""
