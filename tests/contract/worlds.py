"""World: an engine and the verbs of its users, for the simulated engine, a real Docker, and a real Podman."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Protocol, TypeVar

import trio

from sidecar.decide.engine_traits import EngineTraits
from sidecar.engines.docker.docker_engine import open_docker
from sidecar.engines.open_engine import open_engine
from sidecar.failures import EngineFailed, EngineRefused
from sidecar.host.cgroup.host_kernel import HostKernel
from sidecar.ports import Engine
from sidecar.simulation.model_limits import Limits
from state.cpuset import CPUSet
from state.topology import uniform
from tests.live.containers import Containers
from tests.live.engineapi import ApiError, PodmanApi
from tests.live.kernelview import quota_of
from tests.support.engine.simulated import SimulatedEngine
from tests.support.engine.simulated_docker import EnginePace, SimulatedDocker

T = TypeVar("T")

HEARING = ("sh", "-c", 'trap "echo heard" HUP; echo ready; while true; do sleep 0.05; done')
"""A program that outlives SIGHUP, and says so."""


class World(Protocol):
    """The actions of a test of the contract."""

    engine: Engine
    traits: EngineTraits
    cpus: CPUSet
    """All CPUs that the engine may use: at least two."""

    async def create(self, name: str, limits: Limits, *, labels: dict[str, str], removes_itself: bool = False) -> str:
        """Create a container; return its id."""

    async def create_hearing(self, name: str, *, restarts: bool = False, stop_signal: str = "") -> str:
        """Create a container whose program survives a SIGHUP; return its id."""

    async def has_said(self, container: str, word: str) -> bool:
        """Return whether its program is `ready` for a SIGHUP, or has `heard` one."""

    async def act(self, container: str, verb: str) -> None:
        """Call start, stop, kill, restart, pause, unpause or remove. EngineRefused, EngineFailed."""

    async def rename(self, container: str, name: str) -> str:
        """Rename it; return the name as the engine will report it."""

    async def change(self, container: str, change: Limits) -> None:
        """Update it as another user. EngineRefused, EngineFailed."""

    async def running_on(self, container: str) -> CPUSet:
        """Return the CPUs that the kernel lets a live container run on."""

    async def quota(self, container: str) -> float | None:
        """Return the CPUs' worth of time that the kernel gives a live container; None without limit."""


class SimulatedWorld:
    """The simulated engine on a machine of two CPUs."""

    def __init__(self) -> None:
        pace = EnginePace(look=0, store=0.0001, apply=0.0002, start=0.002, stop=0.001)
        self.docker = SimulatedDocker(uniform(cores=2), chance=Random(20), pace=pace)
        self.engine: Engine = SimulatedEngine(self.docker)
        self.traits = EngineTraits()
        self.cpus = CPUSet.of(0, 1)

    async def create(self, name: str, limits: Limits, *, labels: dict[str, str], removes_itself: bool = False) -> str:
        return await self.docker.create(name, limits, labels=labels, removes_itself=removes_itself)

    async def create_hearing(self, name: str, *, restarts: bool = False, stop_signal: str = "") -> str:
        return await self.docker.create(name, restarts_always=restarts, stop_signal=stop_signal)

    async def has_said(self, container: str, word: str) -> bool:
        return word == "ready" or "HUP" in self.docker.container(container).signals

    async def act(self, container: str, verb: str) -> None:
        await getattr(self.docker, verb)(container)

    async def rename(self, container: str, name: str) -> str:
        await self.docker.rename(container, name)
        return name

    async def change(self, container: str, change: Limits) -> None:
        await self.docker.change(container, change)

    async def running_on(self, container: str) -> CPUSet:
        return self.docker.effective(container) or CPUSet()

    async def quota(self, container: str) -> float | None:
        return self.docker.container(container).quota


class RealWorld:
    """A real engine, through its API, with the kernel's own files as witness."""

    def __init__(self, engine: Engine, containers: Containers, cpus: CPUSet, traits: EngineTraits) -> None:
        self.engine = engine
        self.traits = traits
        self.cpus = cpus
        self._containers = containers
        self._api = containers.api

    async def create(self, name: str, limits: Limits, *, labels: dict[str, str], removes_itself: bool = False) -> str:
        host = _host_config(limits)
        if removes_itself:
            host["AutoRemove"] = True
        return await _in_thread(functools.partial(self._containers.create, name, labels=labels, **host))

    async def create_hearing(self, name: str, *, restarts: bool = False, stop_signal: str = "") -> str:
        host = {"RestartPolicy": {"Name": "always"}} if restarts else {}
        make = functools.partial(self._containers.create, name, *HEARING, stop_signal=stop_signal, **host)
        return await _in_thread(make)

    async def has_said(self, container: str, word: str) -> bool:
        written = await _in_thread(functools.partial(self._api.ask, "GET", f"containers/{container}/logs", stdout="1"))
        return word.encode() in bytes(written)

    async def act(self, container: str, verb: str) -> None:
        if verb == "remove":
            await _in_thread(functools.partial(self._api.remove, container))
            return
        try:
            await _in_thread(functools.partial(self._api.act, container, verb))
        except EngineFailed as error:
            # One that removes itself may be gone before Podman has answered.
            if verb != "kill" or "no such container" not in str(error):
                raise

    async def rename(self, container: str, name: str) -> str:
        unique = f"{self._containers.prefix}-{name}"
        await _in_thread(functools.partial(self._api.act, container, "rename", name=unique))
        return unique

    async def change(self, container: str, change: Limits) -> None:
        await _in_thread(functools.partial(self._api.update, container, **_host_config(change)))

    async def running_on(self, container: str) -> CPUSet:
        return _cpus_of_process((await self.engine.inspect(container)).pid)

    async def quota(self, container: str) -> float | None:
        return quota_of((await self.engine.inspect(container)).pid)


@asynccontextmanager
async def simulated_world() -> AsyncIterator[World]:
    """Open a fresh simulated host."""
    yield SimulatedWorld()


@asynccontextmanager
async def docker_world(containers: Containers) -> AsyncIterator[World]:
    """Open the real engine, for one test."""
    async with open_docker(f"unix://{containers.api.socket_path}") as engine:
        yield RealWorld(engine, containers, _online(), (await engine.info()).traits)


@asynccontextmanager
async def podman_world(containers: Containers) -> AsyncIterator[World]:
    """Open a real Podman, for one test, found by its answer."""
    assert isinstance(containers.api, PodmanApi)
    async with open_engine(f"unix://{containers.api.socket_path}", machine=HostKernel()) as engine:
        traits = (await engine.info()).traits
        assert not traits.needs_service
        yield RealWorld(engine, containers, _online(), traits)


def _online() -> CPUSet:
    return CPUSet.parse(Path("/sys/devices/system/cpu/online").read_text())


def _cpus_of_process(pid: int) -> CPUSet:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return CPUSet.parse(line.partition(":")[2])
    raise AssertionError(f"/proc/{pid}/status does not tell the CPUs")


def _host_config(limits: Limits) -> dict[str, Any]:
    words = {
        "CpusetCpus": limits.cpuset,
        "CpusetMems": limits.mems,
        "NanoCpus": limits.nano_cpus,
        "CpuQuota": limits.cpu_quota,
        "CpuPeriod": limits.cpu_period,
        "Memory": limits.memory,
        "MemoryReservation": limits.memory_reservation,
    }
    return {key: value for key, value in words.items() if value}


async def _in_thread(work: Callable[[], T]) -> T:
    try:
        return await trio.to_thread.run_sync(work)
    except ApiError as error:
        raise (EngineFailed if error.status >= 500 else EngineRefused)(error.message) from error
