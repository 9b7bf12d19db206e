"""What is needed of the host, as Protocols: the kernel's files (`host/cgroup`, `host/machine`), to confine its units
(`host/units`), and how much CPU time is used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from sidecar.astray import Astray
from sidecar.decide.books.load_sample import Usage
from sidecar.decide.facts import ContainerView
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.topology import Topology


class WriteEars(Protocol):
    """Hears that the cpuset of a container's cgroup was written, by any program. It changes nothing."""

    @property
    def fd(self) -> int:
        """Readable when there is something to hear."""

    def listen(self, views: Iterable[ContainerView]) -> None:
        """Listen to the cpusets of these containers, as far as they are live and visible, and to no others."""

    def heard(self) -> frozenset[ContainerKey] | None:
        """Return the containers whose cpuset was written or is gone since the last call; None: any may have been."""

    def close(self) -> None:
        """Hear nothing any more."""


class CpuEars(Protocol):
    """Hears that CPUs came online or went offline. Which ones are online must be looked up."""

    @property
    def fd(self) -> int:
        """Readable when there is something to hear."""

    def drain(self) -> None:
        """Take it that all was heard that there is until now."""

    def close(self) -> None:
        """Hear nothing any more."""


class Kernel(Protocol):
    """The kernel's files on this host."""

    def effective_cpus(self, view: ContainerView) -> CPUSet | None:
        """Return where a container may really run; None if it runs nothing, or if that cannot be read.

        A container may run although the engine reports it as exited or created. Of one that was only glanced at, a
        cgroup without processes is enough: its start is under way. Raise StateError if the sidecar lacks what it needs
        to find out, such as descriptors.
        """

    def parent_of(self, view: ContainerView) -> str:
        """Return the parent of a live container's cgroup, as a path below the hierarchy's root; "" if it is not known.

        Only a cgroup whose name has the container's id counts.
        """

    def confinement(self, view: ContainerView, cpus: CPUSet) -> str:
        """Return which cgroup above a live container keeps it from some of these CPUs, as the end of a sentence; "" if
        none.
        """

    def why_unreadable(self, view: ContainerView) -> str:
        """Return why the sidecar may not read the CPUs of a live container's own cgroup, so that it counts as on all of
        the cgroup above; "" if it may.
        """

    def topology(self) -> Topology:
        """Return the machine as it is now. Raise StateError if it cannot be understood."""

    def online(self) -> CPUSet:
        """Return the CPUs that are online now, read from one short file. Raise StateError if it cannot be read."""

    def ears(self) -> WriteEars | None:
        """Return what hears writes of cpusets, for its caller to close; None if nothing here does."""

    def cpu_ears(self) -> CpuEars | None:
        """Return what hears CPUs come online and go offline, for its caller to close; None if nothing here does."""

    def mend(self, views: Iterable[ContainerView]) -> tuple[Astray, ...]:
        """Undo the effects of offlined CPUs on cgroup v1, where the kernel removes them from every group permanently.

        Parents regain the online CPUs, and processes that fell out of their container's group return to it. Return what
        could not be mended; on v2 there is nothing to mend, and nothing is done.
        """


class UnitLook(NamedTuple):
    """What a look shows of a unit of the host: the path of its cgroup below the hierarchy's root, "" if it has none;
    the CPUs that are set for it, as text, "" if none are; and whether it runs anything.

    Of one that asks for CPUs of its own: its labels; when its run began, or the last one, as engines write it, "" if
    it never ran; and whether it is about to run, if it does not.
    """

    cgroup: str
    cpus: str
    runs: bool
    labels: Mapping[str, str] = {}
    asks: bool = False
    started: str = ""
    is_coming: bool = True


class HostUnits(Protocol):
    """Units of this host, of one source, that can be confined. `name` is a unit's."""

    @property
    def source(self) -> str:
        """Their source, one of `state.key.SOURCES`."""

    async def meet(self) -> None:
        """Find out which of them ask for CPUs of their own. Raise EngineError if that cannot be known."""

    def all(self) -> tuple[str, ...]:
        """Return the names of all."""

    def holes(self) -> Mapping[str, str]:
        """Return by name what cannot be confined, and why, as of the last call of `all`."""

    def tell(self, name: str) -> bool:
        """Take it that a unit comes, or came; return whether it is one to look at."""

    def changed(self, name: str, *, is_up: bool) -> bool:
        """Take it that a unit changed, and runs or is about to if it `is_up`; return whether it is one to look at."""

    def reread(self) -> None:
        """Take it that the files of all units may have changed."""

    def rule(self, patterns: tuple[str, ...]) -> bool:
        """Take it that the configuration gives labels to the units of these names; return whether that is news."""

    async def look(self, name: str) -> UnitLook | None:
        """Return what a unit is now; None if it is gone. One with containers below it now is let go, and gone."""

    async def confine(self, name: str, cpus: CPUSet) -> None:
        """Set its CPUs, in force on return. Raise EngineRefused, EngineFailed, EngineUnavailable or EngineLacks."""

    async def stop(self, name: str) -> None:
        """Stop an owner, as its label asks. Raise the same."""

    async def signal(self, name: str, signal: str) -> None:
        """Send a signal by its name (`HUP`) to an owner's first process. Raise the same."""


class Usages(Protocol):
    """CPU time, as the kernel counts it."""

    def usage(self, view: ContainerView) -> Usage | None:
        """Return what a live container has used so far; None if it is not live or cannot be read."""

    def retain(self, containers: Collection[str]) -> None:
        """Forget what is kept for all other containers: from now on only these are asked for."""
