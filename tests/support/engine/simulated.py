"""SimulatedEngine: the port `Engine` on a SimulatedDocker, with faults of the connection on demand."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Final

import msgspec
import trio

from sidecar.decide.engine_traits import EngineTraits
from sidecar.decide.facts import ContainerView, EngineInfo, Phase
from sidecar.decide.orders import Update
from sidecar.engines.docker.docker_signals import refused, side_effect
from sidecar.failures import ContainerGone, EngineFailed, EngineRefused, EngineUnavailable
from sidecar.ports import CREATED, EngineEvent, KeepsBack, keeps_none
from sidecar.simulation.model_limits import changed
from tests.support.engine.simulated_docker import SimulatedDocker
from tests.support.keys import ENGINE

_OVERLAP_NANO: Final = 2_000_000_000
"""How far back a new stream begins, as with the real adapter."""

TIMEOUT_SECONDS: Final = 30.0
"""How long a lost order is waited for."""


class Fault(enum.Enum):
    """What happens to an update."""

    REFUSED = "refused"
    """400, nothing changed."""
    FAILED = "failed"
    """500, rolled back."""
    LOST_BEFORE = "lost before"
    """No answer, and no effect."""
    LOST_AFTER = "lost after"
    """No answer, but it took effect."""
    CUT_BEFORE = "cut before"
    """The connection breaks at once, without effect."""
    CUT_AFTER = "cut after"
    """The connection breaks when it has taken effect."""


class SimulatedEngine:
    """A SimulatedDocker as the sidecar sees it."""

    def __init__(self, docker: SimulatedDocker, *, inspect_waits: bool = True) -> None:
        """`inspect_waits`: an inspect waits for the container's lock, which a start holds (Docker 20.10)."""
        self.docker = docker
        self.name = ENGINE
        """What it calls itself."""
        self.traits = EngineTraits()
        """How it differs from other engines, as it reports."""
        self.is_silent = False
        """Whether its service is gone, and its containers run on."""
        self.hangs = False
        """Whether it answers nothing, and keeps its connections."""
        self.pings = 0
        self.inspect_waits = inspect_waits
        self.updates: list[tuple[str, Update]] = []
        """Every update that was asked for, in order."""
        self.inspects: list[str] = []
        """Every container that was inspected, in order."""
        self._update_faults: deque[Fault] = deque()

    def fail_updates(self, *faults: Fault) -> None:
        """Make the next updates meet these faults, one each."""
        self._update_faults.extend(faults)

    async def info(self) -> EngineInfo:
        """Return the engine's identity."""
        await self._look()
        return EngineInfo(
            name=self.name,
            version="20.10.24",
            api_version="1.41",
            ncpu=self.docker.present().ncpu,
            cgroup_version=str(self.docker.kernel.cgroup_version),
            cgroup_driver="cgroupfs",
            live_restore=self.docker.live_restore,
            traits=self.traits,
        )

    async def ping(self) -> None:
        """Show a sign of life."""
        self.pings += 1
        await self._look()

    async def containers(self) -> tuple[str, ...]:
        """Return the full ids of all containers, stopped ones too."""
        await self._look()
        return self.docker.ids()

    @property
    def unstarted(self) -> Collection[str]:
        """Of the last list, the ids of those that have never run."""
        return [id for id in self.docker.ids() if self.docker.container(id).view().phase is Phase.CREATED]

    async def inspect(self, container: str) -> ContainerView:
        """Return the engine's view of one container."""
        self.inspects.append(container)
        await self._look()
        one = self.docker.container(container)
        if not self.inspect_waits:
            return one.view()
        breaks = self.docker.breaks
        async with one.lock:
            self._see_that_connected(breaks)
            return self.docker.container(one.id).view()

    async def glance(self, container: str) -> ContainerView:
        """Return the identity of a container, even while a start holds its lock."""
        await self._look()
        one = self.docker.container(container).view()
        return msgspec.structs.replace(_identity_of(one), phase=one.phase, mounts=one.mounts)

    async def update(self, container: str, update: Update) -> None:
        """Change CPUs and quota in one call."""
        self.updates.append((container, update))
        fault = self._update_faults.popleft() if self._update_faults else None
        breaks = self.docker.breaks
        await trio.lowlevel.checkpoint()
        self.docker.see_that_up()
        match fault:
            case Fault.REFUSED:
                raise EngineRefused("refused, as the test demands")
            case Fault.FAILED:
                await trio.sleep(self.docker.pace.apply)
                raise EngineFailed("failed and rolled back, as the test demands")
            case Fault.LOST_BEFORE:
                await self._wait_in_vain()
            case Fault.CUT_BEFORE:
                raise EngineUnavailable("the connection broke, as the test demands")
            case Fault.LOST_AFTER | Fault.CUT_AFTER | None:
                pass
        await self.docker.change(container, changed(update))
        if fault is Fault.LOST_AFTER:
            await self._wait_in_vain()
        if fault is Fault.CUT_AFTER:
            raise EngineUnavailable("the connection broke, as the test demands")
        self._see_that_connected(breaks)

    async def stop(self, container: str) -> None:
        """Stop a container."""
        breaks = self.docker.breaks
        await self.docker.stop(container)
        self._see_that_connected(breaks)

    async def signal(self, container: str, signal: str) -> None:
        """Send a signal, unless it would do more than that, as in the real adapter."""
        breaks = self.docker.breaks
        await self._look()
        one = self.docker.container(container)
        restarts, is_paused = one.restarts_always, one.phase is Phase.PAUSED
        if effect := side_effect(signal, stop_signal=one.stop_signal, restarts=restarts, is_paused=is_paused):
            raise refused(effect, signal)
        await self.docker.send_signal(container, signal)
        self._see_that_connected(breaks)

    @asynccontextmanager
    async def events(self, keeps_back: KeepsBack = keeps_none) -> AsyncIterator[AsyncIterator[EngineEvent]]:
        """Open the event stream: it begins on entry, and repeats the last two seconds."""
        await self._look()
        subscription = self.docker.bus.subscribe(self.docker.now_nano() - _OVERLAP_NANO)
        try:
            yield _Asking(subscription, self.docker, keeps_back)
        finally:
            self.docker.bus.leave(subscription)

    async def _look(self) -> None:
        if self.is_silent:
            raise EngineUnavailable("its service is gone, as the test demands")
        if self.hangs:
            await self._wait_in_vain()
        breaks = self.docker.breaks
        self.docker.see_that_up()
        await trio.sleep(self.docker.pace.look)
        self.docker.see_that_up()
        self._see_that_connected(breaks)

    async def _wait_in_vain(self) -> None:
        await trio.sleep(TIMEOUT_SECONDS)
        raise EngineUnavailable(f"the engine did not answer within {TIMEOUT_SECONDS:g} s")

    def _see_that_connected(self, breaks: int) -> None:
        if breaks != self.docker.breaks:
            raise EngineUnavailable("the connection broke while the engine was at work")


class _Asking:
    """An event stream from which events are kept back."""

    def __init__(self, events: AsyncIterator[EngineEvent], docker: SimulatedDocker, keeps_back: KeepsBack) -> None:
        self._events = events
        self._docker = docker
        self._keeps_back = keeps_back

    def __aiter__(self) -> _Asking:
        return self

    async def __anext__(self) -> EngineEvent:
        while True:
            event = await anext(self._events)
            if not self._keeps_back(event, self._told(event) if event.action == CREATED else None):
                return event

    def _told(self, event: EngineEvent) -> ContainerView | None:
        """Return what an event tells of a created container; None if it is gone."""
        try:
            return _identity_of(self._docker.container(event.container).view())
        except (ContainerGone, EngineUnavailable):
            return None


def _identity_of(view: ContainerView) -> ContainerView:
    """Return what the event of its creation tells of a container."""
    return ContainerView(
        engine=ENGINE,
        id=view.id,
        name=view.name,
        phase=Phase.CREATED,
        labels=view.labels,
        image=view.image,
        is_glance=True,
    )
