"""Contradiction: values of the configuration that contradict each other or the machine, or are perhaps not meant."""

from __future__ import annotations

from typing import TypeAlias

from state.cpuset import CPUSet
from state.mistakes import Flaw
from state.refusal import Refusal


class NeedsReserved(Flaw, frozen=True):
    """This policy grants CPUs, and none is reserved."""

    policy: str


class BandUpsideDown(Flaw, frozen=True):
    """The low bound of the load is not below the high one."""

    low: float
    high: float


class StateInProjections(Flaw, frozen=True):
    """The state directory is inside the one that workloads mount."""

    state_dir: str
    projections: str


class OneEngineOnly(Flaw, frozen=True):
    """This key is about a host's only engine, and several are configured."""

    key: str


class NoSuchGroup(Flaw, frozen=True):
    """There is no group of this name here."""

    group: str


class SocketPathTooLong(Flaw, frozen=True):
    """The path of the socket in the state directory has `size` bytes, and at most `most` are possible."""

    path: str
    size: int
    most: int


class NotOnMachine(Flaw, frozen=True):
    """Some of the reserved CPUs are `missing` on a machine that has these `cpus`, online or not."""

    reserved: CPUSet
    missing: CPUSet
    cpus: CPUSet


class AllReserved(Flaw, frozen=True):
    """The reservation leaves none of the machine's CPUs."""

    count: int
    size: int


class PoolTooLarge(Flaw, frozen=True):
    """The shared pool would have to keep as many CPUs as the machine has, or more."""

    keep: int
    size: int


class Unfit(Flaw, frozen=True):
    """Placement options that cannot be used on this machine."""

    refusal: Refusal


# What is allowed, but perhaps not meant.


class BareNumber(Flaw, frozen=True):
    """One number as text is the number of a CPU, but looks like a count."""

    cpu: int


class NoticeCut(Flaw, frozen=True):
    """A rule asks for a longer notice, in seconds, than any container's label gets."""

    asked: float
    most: float


class NoUnitConfined(Flaw, frozen=True):
    """A rule is for units of the host of this name, and the configuration confines none."""

    unit: str


class NoUnitAsks(Flaw, frozen=True):
    """A rule is for units of the host whose names are like this pattern, and none that may ask has such a name."""

    unit: str


class SplitCores(Flaw, frozen=True):
    """The reservation has a part of a core, whose `rest` cannot be used under full-pcpus-only."""

    reserved: CPUSet
    rest: CPUSet


class LackingThreads(Flaw, frozen=True):
    """These CPUs are on cores of which a thread is offline, and full-pcpus-only is set."""

    cpus: CPUSet


class ReservedOffline(Flaw, frozen=True):
    """Some of the reserved CPUs are `offline`."""

    reserved: CPUSet
    offline: CPUSet


class NoneToGive(Flaw, frozen=True):
    """The reservation or the pool leaves none of the CPUs that are online, as long as others are `offline`."""

    offline: CPUSet


class IsolatedShared(Flaw, frozen=True):
    """The shared pool has CPUs over which the kernel does not balance threads."""

    cpus: CPUSet


class NothingIsolated(Flaw, frozen=True):
    """The kernel isolates no CPUs here, and `rule` prefers them."""

    rule: str


class IsolatedReserved(Flaw, frozen=True):
    """These isolated CPUs are reserved, hence shared."""

    cpus: CPUSet


Contradiction: TypeAlias = (
    NeedsReserved
    | BandUpsideDown
    | StateInProjections
    | NoSuchGroup
    | OneEngineOnly
    | SocketPathTooLong
    | NotOnMachine
    | AllReserved
    | PoolTooLarge
    | Unfit
    | BareNumber
    | NoticeCut
    | NoUnitConfined
    | NoUnitAsks
    | SplitCores
    | LackingThreads
    | ReservedOffline
    | NoneToGive
    | IsolatedShared
    | NothingIsolated
    | IsolatedReserved
)
"""What values contradict, or what is allowed but perhaps not meant."""
