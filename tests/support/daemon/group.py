"""FakeGroup: the port `PoolCgroup` in memory, with members that a test puts in."""

from __future__ import annotations

from sidecar.decide.facts import ContainerView, EngineInfo
from sidecar.failures import EngineLacks
from state.cpuset import EMPTY, CPUSet


class FakeGroup:
    """A slice `pool.slice` at /pool.slice."""

    name = "pool.slice"
    path = "/pool.slice"

    def __init__(self) -> None:
        self.configured = EMPTY
        self.is_there = False
        self.homes: dict[str, str] = {}
        """Where containers are, by their ids."""
        self.writes: list[CPUSet] = []
        self.objection = ""

    def exists(self) -> bool:
        """Return what the test set."""
        return self.is_there

    def whereabouts(self, view: ContainerView) -> str:
        """Return what the test set."""
        return self.homes.get(view.id, "")

    def path_of(self, parent: str) -> str:
        """Return the path of a slice whose name has no dashes."""
        return f"/{parent.strip('/')}"

    def check(self, info: EngineInfo) -> None:
        """Return what the test set."""
        if self.objection:
            raise EngineLacks(self.objection)

    async def cpus(self) -> str:
        """Return what was written last."""
        return str(self.configured)

    async def write(self, cpus: CPUSet) -> None:
        """Remember it."""
        self.configured = cpus
        self.writes.append(cpus)
