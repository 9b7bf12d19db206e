"""What is needed of the host, as Protocols: to confine its units (`host/units`), and how much CPU time is used."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from sidecar.decide.books.load_sample import Usage
from sidecar.decide.facts import ContainerView
from state.cpuset import CPUSet


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
