"""SimulatedDocker: a Docker host in memory, with the verbs of its users, obeying the rules measured on a real one.

A container has one lock, as in dockerd: a start holds it from the reading of the configuration until the process runs,
and an update of the same container waits for it. So an update either lands before a start and holds from the first
instruction, or lands right after it. Work takes the time that `EnginePace` sets, on trio's clock. Deterministic: chance
comes only from the given `Random`. Errors are those of the port, with the engine's own messages.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final, Literal

import msgspec
import trio

from sidecar.decide.facts import ContainerView, Mount, Phase
from sidecar.failures import ContainerGone, EngineFailed, EngineRefused, EngineUnavailable
from sidecar.ports import EngineEvent
from sidecar.simulation.model_container import ModelContainer
from sidecar.simulation.model_host import ModelHost
from sidecar.simulation.model_limits import Limits, Present, check
from state.cpuset import CPUSet
from state.topology import Topology
from tests.support.engine.simulated_events import NOISE, EventBus, EventFaults
from tests.support.engine.simulated_kernel import SimulatedKernel
from tests.support.keys import docker

_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)


class EnginePace(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in seconds: medians of Docker 20.10 on two quiet cores."""

    look: float = 0.0003
    store: float = 0.003
    """An update of a container without processes: a write of configuration."""
    apply: float = 0.010
    """An update of a live one: a run of runc."""
    start: float = 0.130
    stop: float = 0.050
    backoff: float = 0.100
    """Before the first restart by policy; doubled with each one that follows."""


@dataclasses.dataclass(kw_only=True, eq=False)
class SimContainer(ModelContainer):
    """One container, as the engine keeps it."""

    started_at: str = "0001-01-01T00:00:00Z"
    mounts: tuple[Mount, ...] = ()
    restarts_always: bool = False
    stop_signal: str = ""
    signals: list[str] = dataclasses.field(default_factory=list)  # that its first process was sent
    removes_itself: bool = False
    pid: int = 0
    is_init_dead: bool = False
    is_going: bool = False
    failures: int = 0
    lock: trio.Lock = dataclasses.field(default_factory=trio.Lock)

    def awaits_restart(self) -> bool:
        """Whether its restart policy is about to start it again."""
        return self.phase is Phase.RESTARTING

    def view(self) -> ContainerView:
        """Return what the inspect route would return, which does not consult the kernel."""
        return msgspec.structs.replace(super().view(), pid=self.pid, mounts=self.mounts, effective=None)


class SimulatedDocker:
    """The host: its kernel, its containers, and the verbs of all other users of the engine."""

    def __init__(
        self,
        machine: Topology,
        *,
        chance: Random,
        cgroup_version: Literal[1, 2] = 1,
        pace: EnginePace | None = None,
        live_restore: bool = False,
        caches_cpus: bool = False,
    ) -> None:
        """`caches_cpus`: Docker 23 and later read the machine's CPUs only at startup."""
        self._kernel = SimulatedKernel(machine, cgroup_version=cgroup_version)
        self.host: ModelHost[SimContainer] = ModelHost(self._kernel)
        self.pace = pace or EnginePace()
        self.live_restore = live_restore
        self.event_faults = EventFaults(chance)
        self.bus = EventBus(self.event_faults)
        self.is_up = True
        self.breaks = 0
        """How often connections to the engine broke: a call that sees it change gets no answer."""
        self._caches_cpus = caches_cpus
        self._remember_cpus()
        self._chance = chance
        self._last_nano = 0
        self._pids = 1000

    @property
    def kernel(self) -> SimulatedKernel:
        """The host's kernel. It can be replaced, by a watched one for instance, before there are containers."""
        return self._kernel

    @kernel.setter
    def kernel(self, kernel: SimulatedKernel) -> None:
        self._kernel = self.host.kernel = kernel

    # What the engine's answers are made from.

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all containers, the newest first."""
        return tuple(key.id for key in reversed(self.host.containers))

    def container(self, id: str) -> SimContainer:
        """Return the container with this id or name. ContainerGone; EngineUnavailable while the engine is down."""
        self.see_that_up()
        for each in self.host.containers.values():
            if id in (each.id, each.name):
                return each
        raise ContainerGone(f"No such container: {id}")

    def present(self) -> Present:
        """The CPUs against which the engine checks limits."""
        return self.host.present()

    def see_that_up(self) -> None:
        """Raise EngineUnavailable while the engine is down."""
        if not self.is_up:
            raise EngineUnavailable("the engine at simulated: nobody answers. Start the engine")

    def now_nano(self) -> int:
        """Return the engine's clock in nanoseconds; never the same value twice."""
        self._last_nano = max(self._last_nano + 1, int(trio.current_time() * 1e9))
        return self._last_nano

    def effective(self, id: str) -> CPUSet | None:
        """Return what the kernel says of a container, by id or name."""
        return self.kernel.effective(self.container(id).id)

    # The users' verbs.

    async def create(
        self,
        name: str,
        limits: Limits | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        mounts: tuple[Mount, ...] = (),
        restarts_always: bool = False,
        removes_itself: bool = False,
        stop_signal: str = "",
    ) -> str:
        """Create a container, not started; return its id. EngineRefused for a name in use, or impossible limits."""
        self.see_that_up()
        wanted = limits or Limits()
        check(wanted, self.present())
        made = self.host.add(
            SimContainer(
                key=docker(f"{self._chance.getrandbits(256):064x}"),
                name=name,
                kernel=self.kernel,
                labels=dict(labels or {}),
                limits=wanted,
                created_at=self._stamp(),
                mounts=mounts,
                restarts_always=restarts_always,
                removes_itself=removes_itself,
                stop_signal=stop_signal,
            )
        )
        await self._tell(made, "create")
        return made.id

    async def start(self, id: str) -> None:
        """Start it, if it is not live. EngineRefused if its CPUs are not available now."""
        one = self.container(id)
        async with self._locked(one):
            if not one.phase.is_live:
                await self._start(one)

    async def run(self, name: str, limits: Limits | None = None, *, labels: Mapping[str, str] | None = None) -> str:
        """Create and start at once, as `docker run` does; return its id."""
        made = await self.create(name, limits, labels=labels)
        await self.start(made)
        return made

    async def stop(self, id: str) -> None:
        """Stop it, with its grace; a restart policy does not bring it back."""
        one = self.container(id)
        async with one.lock:
            if one.phase.is_live or one.phase is Phase.RESTARTING:
                await trio.sleep(self.pace.stop)
                await self._die(one)
                await self._tell(one, "stop")
        await self._remove_if_wanted(one)

    async def kill(self, id: str) -> None:
        """Send SIGKILL. EngineRefused if it does not run."""
        one = self.container(id)
        async with one.lock:
            if not one.phase.is_live:
                raise EngineRefused(f"Cannot kill container: {one.id}: Container {one.id} is not running")
            await self._die(one)
        await self._remove_if_wanted(one)

    async def send_signal(self, id: str, signal: str) -> None:
        """The kill route with a signal that its program outlives. EngineRefused if it does not run.

        If the container sets no stop signal, the engine takes the signal for a request to end: no restart by policy,
        and no pause.
        """
        one = self.container(id)
        async with self._locked(one):
            if not one.phase.is_live:
                raise EngineRefused(f"Cannot kill container: {one.id}: Container {one.id} is not running")
            one.signals.append(signal)
            if one.stop_signal in ("", signal, f"SIG{signal}"):
                one.restarts_always, one.phase = False, Phase.RUNNING

    async def restart(self, id: str) -> None:
        """Emit die, stop, start, restart: all under the lock."""
        one = self.container(id)
        async with one.lock:
            if one.phase.is_live:
                await trio.sleep(self.pace.stop)
                await self._die(one)
                await self._tell(one, "stop")
            await self._start(one)
            await self._tell(one, "restart")

    async def pause(self, id: str) -> None:
        """Freeze it. EngineRefused if it does not run."""
        one = self.container(id)
        self.host.pause(one)
        await self._tell(one, "pause")

    async def unpause(self, id: str) -> None:
        """Thaw it. EngineFailed if it is not paused."""
        one = self.container(id)
        self.host.unpause(one)
        await self._tell(one, "unpause")

    async def rename(self, id: str, name: str) -> None:
        """Give it another name."""
        one = self.container(id)
        one.name = name
        await self._tell(one, "rename")

    async def remove(self, id: str) -> None:
        """Remove it, running or not. Until that is done its updates fail, and then it is unknown."""
        one = self.container(id)
        one.is_going = True
        async with one.lock:
            if one.phase.is_live:
                await trio.sleep(self.pace.stop)
                await self._die(one)
            await self._destroy(one)

    async def exit(self, id: str) -> None:
        """End its program; with a restart policy, return when it is back after a pause.

        This can happen while the engine is down (live restore): then there is no event.
        """
        one = self.host.containers[docker(id)]
        await self._die(one, by_policy=one.restarts_always and self.is_up)
        if self.is_up:
            await self._remove_if_wanted(one)
        if one.awaits_restart():
            one.failures += 1
            await trio.sleep(self.pace.backoff * 2 ** (one.failures - 1))
            async with one.lock:
                if one.awaits_restart() and self.is_up:
                    await self._start(one)

    async def change(self, id: str, change: Limits) -> None:
        """Serve the update route. EngineRefused (400, 409), EngineFailed (500, rolled back), ContainerGone."""
        one = self.container(id)
        if one.is_going:
            raise EngineFailed('container is marked for removal and cannot be "update"')
        check(change, self.present())
        async with self._locked(one):
            was_live = one.phase.is_live
            stored = self.host.store(one, change)
            async with _rolled_back(one, stored):
                await trio.sleep(self.pace.apply if was_live else self.pace.store)
                if was_live:
                    self._apply(one, change)
            await self._tell(one, "update")

    async def make_noise(self, id: str, events: int) -> None:
        """Emit exec events of a container, which push others out of the ring."""
        for _ in range(events):
            await self._tell(self.container(id), NOISE)

    # The engine's own life.

    def break_connections(self) -> None:
        """End every stream; calls under way get no answer, whatever their outcome."""
        self.breaks += 1
        self.bus.end_all("the event stream broke: connection reset", forget=False)

    async def go_down(self) -> None:
        """Stop the engine: every stream ends, the ring is forgotten. Without live restore all containers die."""
        self.is_up = False
        self.breaks += 1
        self.bus.end_all("the engine ended its event stream", forget=True)
        if not self.live_restore:
            for one in list(self.host.containers.values()):
                if one.phase.is_live or one.phase is Phase.RESTARTING:
                    await self._die(one)

    async def come_up(self) -> None:
        """Start the engine again; a container with a restart policy is started, without any `die` before."""
        self.is_up = True
        self._remember_cpus()
        for one in list(self.host.containers.values()):
            if one.restarts_always and one.phase is Phase.EXITED:
                async with one.lock:
                    await self._start(one)

    @asynccontextmanager
    async def _locked(self, one: SimContainer) -> AsyncIterator[None]:
        """Hold the container's lock; ContainerGone if it was removed while waiting."""
        async with one.lock:
            if one.key not in self.host.containers:
                raise ContainerGone(f"No such container: {one.id}")
            yield

    def _apply(self, one: SimContainer, change: Limits) -> None:
        """Do what runc does for a live container; EngineFailed with its message."""
        if one.is_init_dead or not one.phase.is_live:
            raise EngineFailed(f"Cannot update container {one.id}: cannot update a stopped container: unknown")
        self.host.apply(one, change)

    async def _start(self, one: SimContainer) -> None:
        """Start it under the container's lock. Its configuration is read here, before the time passes."""
        check(one.limits, self.present())
        limits = one.limits
        await trio.sleep(self.pace.start)
        self.host.enter(one, limits, stamp=self._stamp())
        self._pids += 1
        one.pid, one.is_init_dead = self._pids, False
        await self._tell(one, "start")

    async def _die(self, one: SimContainer, *, by_policy: bool = False) -> None:
        self.host.die(one, restarts=by_policy)
        one.pid = 0
        await self._tell(one, "die")

    async def _remove_if_wanted(self, one: SimContainer) -> None:
        if one.removes_itself and one.phase is Phase.EXITED:
            await self._destroy(one)

    async def _destroy(self, one: SimContainer) -> None:
        one.is_going, is_there = True, one.key in self.host.containers
        self.host.remove(one)
        if is_there:
            await self._tell(one, "destroy")

    async def _tell(self, one: SimContainer, action: str) -> None:
        await trio.lowlevel.checkpoint()
        if self.is_up:
            await self.bus.publish(EngineEvent(container=one.id, action=action, time_nano=self.now_nano()))

    def _remember_cpus(self) -> None:
        self.host.cpus_at_boot = self.kernel.online() if self._caches_cpus else None

    def _stamp(self) -> str:
        moment = _EPOCH + timedelta(microseconds=self.now_nano() // 1000)
        return moment.isoformat().replace("+00:00", "Z")


@asynccontextmanager
async def _rolled_back(one: SimContainer, stored: Limits) -> AsyncIterator[None]:
    """Restore the stored settings if the block fails or is cancelled."""
    try:
        yield
    except BaseException:
        one.limits = stored
        raise
