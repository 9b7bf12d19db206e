"""ElasticHost: a Host under the policy `dynamic`, with programs that follow their files, and a witness for them.

Its daemons are killed, as well as stopped: an order that was sent before the kill takes effect after a new daemon has
started, and its answer is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest
import trio

from sidecar import daemon
from sidecar.api import web_app
from sidecar.api.requests import Requests
from sidecar.board import Board
from sidecar.commit.journal import NAME, WorldLine, read_journal
from sidecar.decide.facts import Fact
from sidecar.decide.orders import Update
from sidecar.decide.settings import PolicyName
from sidecar.decide.step import step
from sidecar.decide.world import World
from sidecar.failures import EngineError, EngineUnavailable
from sidecar.simulation.model_kernel import ENGINE_GROUP
from state.codec import decode
from state.cpuset import EMPTY, CPUSet
from state.projection import Sharing
from state.topology import Topology
from tests.support.daemon.host import Host, WatchedKernel
from tests.support.daemon.notices import Terms, Witness
from tests.support.daemon.workload import Ack, Workload
from tests.support.engine.simulated import SimulatedEngine
from tests.support.engine.simulated_docker import SimulatedDocker
from tests.support.keys import by_id, docker

ALONE_SECONDS = 0.3
"""How long files may say `settled` while somebody runs there of whom the daemon knows: generously."""


class ElasticHost(Host):
    """Checks one law more than Host and Witness: no container runs on the CPUs of a settled container for long."""

    engine: ElasticEngine

    def __init__(
        self, path: Path, patch: pytest.MonkeyPatch, nursery: trio.Nursery, *, machine: Topology, **options: Any
    ) -> None:
        """`nursery` is where programs run."""
        version: Literal[1, 2] = options.get("version", 1)
        super().__init__(path, patch, machine=machine, **{"policy": PolicyName.DYNAMIC, **options})
        self.docker.kernel = ElasticKernel(machine, version, self)
        self.engine = ElasticEngine(self.docker, self)
        self.nursery = nursery
        self.board: WatchedBoard | None = None
        """Of the daemon that runs now."""
        self.last: Board | None = None
        """Of the daemon that ran last."""
        self.requests: Requests | None = None
        """What the API asks by."""
        self.listens_since = 0.0
        self.workloads: dict[str, Workload] = {}
        self.witness = Witness(self._breaks, terms=self.terms, acks=self._acks, name=self._name)
        self._crowded: dict[tuple[str, str], float] = {}
        """Since when somebody runs on the CPUs of a settled container."""
        # trio shuffles tasks that are ready together: the seed must give the same history each time.
        patch.setattr("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True)
        patch.setattr("trio._core._run._r", Random(options.get("seed", 1)))
        patch.setattr(daemon, "Board", lambda world: WatchedBoard(world, self))
        patch.setattr(web_app, "Api", self._watched_api)

    def terms(self, id: str) -> Terms:
        """Return what a container asked for."""
        return Terms.of(self.docker.host.containers[docker(id)].labels, self.config.grace_seconds)

    def knows(self, id: str) -> bool:
        """Return whether the daemon knows that this container runs, since this very start."""
        key = docker(id)
        one, container = self.docker.host.containers[key], self.board and self.board.latest.containers.get(key)
        return bool(container and container.view.phase.is_live and container.view.started_at == one.started_at)

    def acknowledge_by_hand(self, id: str) -> None:
        """Acknowledge through the API that this container has vacated its leaving CPUs."""
        self.witness.said(id)
        if told := self.told(id):
            # It counts as the first acknowledgement, not the last: a daemon that is killed may have missed it.
            self._acks(id).insert(0, Ack(trio.current_time(), told.generation))

    def waits(self) -> bool:
        """Return whether any take is pending."""
        grants = self.board.latest.state.assignments.values() if self.board else ()
        return any(grant.leaving and not grant.leaving.is_due for grant in grants)

    async def serve(self, stop: trio.Event | None = None, *, is_release: bool = False) -> int:
        """Run the daemon; return its exit code."""
        try:
            return await super().serve(stop, is_release=is_release)
        finally:
            self.board = self.requests = None

    async def serve_until(self, death: Callable[[], Any]) -> None:
        """Run the daemon until it is killed, when `death` returns."""
        async with trio.open_nursery() as life:

            async def end() -> None:
                await death()
                self.engine.cut()
                life.cancel_scope.cancel()

            life.start_soon(end)
            try:
                await self.serve()
            finally:
                life.cancel_scope.cancel()

    def see(self) -> None:
        """Notify the witness of a change."""
        if not hasattr(self, "witness"):
            return
        super().see()
        settled: list[tuple[str, CPUSet]] = []
        for id in self.live():
            effective, told = self.docker.kernel.effective(id) or EMPTY, self.told(id)
            is_new = self.witness.look(
                id,
                told,
                effective,
                self.docker.kernel.online(),
                is_known=self.knows(id),
                is_excused=id in self.surprised,
            )
            if is_new and told is not None:
                self._workload(id).notice(told)
            if told and told.settled and told.sharing is Sharing.EXCLUSIVE and id not in self.surprised:
                settled.append((id, effective))
        self._see_alone(settled)

    def decided(self, before: World, after: World) -> None:
        """Check a decision. One that fits the State to another machine may take CPUs without notice."""
        if before.topology != after.topology:
            self.surprised.update(by_id(before.state.assignments))
        self.witness.decided(before, after, heard_since=self.listens_since, excused=self.surprised)

    def replayed(self) -> World:
        """Return the World that results from the journal."""
        world: World | None = None
        for line in read_journal(self.path / "state" / NAME):
            if isinstance(line, WorldLine):
                world = decode(bytes(line.world), World)
            else:
                assert world is not None
                world, _ = step(world, line)
        assert world is not None
        return world

    def _see_alone(self, settled: list[tuple[str, CPUSet]]) -> None:
        now, before, self._crowded = trio.current_time(), self._crowded, {}
        if self.board is None or not self.board.latest.is_ready:
            return
        for id, cpus in settled:
            for other in self.live():
                there = cpus & (self.docker.kernel.effective(other) or EMPTY)
                if other == id or not there or other in self.surprised or not self.knows(other):
                    continue
                since = self._crowded[id, other] = before.get((id, other), now)
                told = self.told(other)
                if since < now - ALONE_SECONDS and told and told.sharing is not Sharing.UNMANAGED:
                    self._breaks(f"{self._name(other)} runs on {there} of {self._name(id)}, which is settled")

    def _workload(self, id: str) -> Workload:
        if id not in self.workloads:
            directory = self.path / "cpus" / "by-id" / id[:12]
            self.workloads[id] = Workload(
                id, directory, self.nursery, lambda: self.docker.kernel.effective(id) is not None
            )
        return self.workloads[id]

    def _acks(self, id: str) -> list[Ack]:
        return self._workload(id).acks

    def _name(self, id: str) -> str:
        one = self.docker.host.containers.get(docker(id))
        return one.name if one else id[:4]

    def _watched_api(
        self, board: Board, outbox: trio.MemorySendChannel[Fact], *rest: Any, **options: Any
    ) -> web_app.Api:
        self.requests = Requests(board, outbox)
        return _API(board, outbox, *rest, **options)


_API = web_app.Api


class WatchedBoard(Board):
    """Shows each decision to the host."""

    def __init__(self, world: World, host: ElasticHost) -> None:
        super().__init__(world)
        self._host = host
        host.board, host.listens_since, host.last = self, trio.current_time(), self

    def post(self, world: World) -> None:
        before = self.latest
        super().post(world)
        self._host.decided(before, world)


class ElasticKernel(WatchedKernel):
    """Also notifies the witness of starts and ends."""

    def __init__(self, machine: Topology, version: Literal[1, 2], host: ElasticHost) -> None:
        super().__init__(machine, version, host.see)
        self._host = host

    def enter(self, container: str, cpus: CPUSet, above: str = ENGINE_GROUP) -> None:
        self._host.witness.ended(container)
        super().enter(container, cpus, above)

    def leave(self, container: str) -> None:
        self._host.witness.ended(container)
        super().leave(container)

    def take_offline(self, cpus: CPUSet) -> None:
        super().take_offline(cpus)
        self._host.see()

    def bring_online(self, cpus: CPUSet) -> None:
        super().bring_online(cpus)
        self._host.see()


class ElasticEngine(SimulatedEngine):
    """An engine that completes a request although its client was killed."""

    def __init__(self, docker: SimulatedDocker, host: ElasticHost) -> None:
        super().__init__(docker)
        self._host = host
        self._cut = trio.Event()

    def cut(self) -> None:
        """Cancel all callers that wait for an answer."""
        self._cut.set()
        self._cut = trio.Event()

    async def update(self, container: str, update: Update) -> None:
        cut, errors, answered = self._cut, list[EngineError](), trio.Event()

        async def work() -> None:
            try:
                await super(ElasticEngine, self).update(container, update)
            except EngineError as error:
                errors.append(error)
            answered.set()

        async def wait(event: trio.Event) -> None:
            await event.wait()
            nursery.cancel_scope.cancel()

        self._host.nursery.start_soon(work)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, answered)
            nursery.start_soon(wait, cut)
        if not answered.is_set():
            raise EngineUnavailable("whoever asked is no more")
        for error in errors:
            raise error

    async def signal(self, container: str, signal: str) -> None:
        if self._host.board is not None:
            self._host.witness.signalled(container, self._host.told(container), self._host.board.latest)
        await super().signal(container, signal)
