"""DockerEngine: the port `Engine` on a real Docker engine, for trio tasks. The asyncio side is in `http_client`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec
import trio

from sidecar.decide.facts import ContainerView, EngineInfo
from sidecar.decide.orders import Update
from sidecar.engines.address import Address, choose
from sidecar.engines.answer_bounds import BACKLOG, Patience, path_of
from sidecar.engines.asyncio_room import AsyncioRoom, open_room
from sidecar.engines.docker import docker_glance, docker_newcomer, docker_wire, engine_identity
from sidecar.engines.docker.docker_signals import refused
from sidecar.engines.engine_ping import ping
from sidecar.engines.event_feed import Feed
from sidecar.engines.http_client import GAP, Client, Reader
from sidecar.engines.intakes import Intake, Sifted, listed_ids
from sidecar.failures import ContainerGone, EngineLacks, EngineUnavailable
from sidecar.ports import EngineEvent, KeepsBack, keeps_none

_ABSENT: Final = "0" * 64
"""A container that does not exist: used to check whether the update route exists."""


NAME: Final = "docker"
"""What Docker calls itself."""


class DockerEngine:
    """A Docker engine. `open_docker` makes it; every call has a time limit."""

    def __init__(self, room: AsyncioRoom, client: Client, patience: Patience, labels: frozenset[str]) -> None:
        self._room = room
        self._labels = labels
        self._client = client
        self._patience = patience
        self._home = ""
        self._unstarted: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """What the engine calls itself."""
        return NAME

    async def info(self) -> EngineInfo:
        """Return what the engine is.

        Raise EngineLacks if the update route or the cpuset controller is missing, and EngineUnavailable if it is
        another engine than the one that answered first.
        """
        socket = self._client.socket()
        version = await self._room.call(self._client.negotiate, self._patience.look)
        described = await self._ask("GET", "info", is_introduction=True)
        info = engine_identity.engine_info_of(described, version)
        self._recognize(engine_identity.home_of(described))
        self._client.trust(socket)
        if not info.has_cpuset:
            raise EngineLacks(
                "the engine has no cpuset controller, so it would accept every update and drop it: delegate the "
                "controller to it (systemd, for a rootless engine: Delegate=cpu cpuset io memory pids on user@.service)"
            )
        with suppress(ContainerGone):  # this is the answer of an existing route
            await self._ask("POST", f"containers/{_ABSENT}/update", body=b"{}")
        return info

    def _recognize(self, home: str) -> None:
        """Raise EngineUnavailable if this is another engine: without the containers, its list would mean that all are
        gone.
        """
        if self._home and home != self._home:
            raise EngineUnavailable(
                f"another engine answers: it keeps its containers in {home}, the previous one in {self._home}; "
                "restart the sidecar to start over with this one"
            )
        self._home = home

    async def ping(self) -> None:
        """Ask for a sign of life."""
        await ping(self._room, self._client, self._patience.look)

    async def containers(self) -> tuple[str, ...]:
        """Return the full ids of all containers, including stopped ones."""
        answer = await self._ask("GET", "containers/json", into=listed_ids(), params={"all": "1"})
        ids, self._unstarted = docker_wire.listed_in(answer)
        return ids

    @property
    def unstarted(self) -> Collection[str]:
        """Of the last list, the ids of those that have never run."""
        return self._unstarted

    async def inspect(self, container: str) -> ContainerView:
        """Return the engine's view of one container."""
        return await self._room.call(self._inspect_from_the_room, container)

    async def glance(self, container: str) -> ContainerView:
        """Return the parts of a container's view that need no lock, which a start holds."""
        params = docker_glance.params_of(container)
        answer = await self._ask("GET", "containers/json", into=Sifted(docker_glance.is_wanted), params=params)
        return msgspec.structs.replace(docker_glance.glance_of(answer, container, self._labels), engine=NAME)

    async def update(self, container: str, update: Update) -> None:
        """Change CPUs and quota in one call."""
        answer = await self._ask(
            "POST",
            f"{path_of(container)}/update",
            body=docker_wire.update_body(update),
            seconds=self._patience.update,
        )
        docker_wire.check_updated(answer)

    async def stop(self, container: str) -> None:
        """Stop a container, with its own grace; no error if it is already stopped."""
        await self._ask("POST", f"{path_of(container)}/stop", seconds=self._patience.stop)

    async def signal(self, container: str, signal: str) -> None:
        """Send a signal to a container's first process. Raise EngineRefused if it would do more than that
        (`docker_signals`).
        """
        path = path_of(container)
        described = await self._ask("GET", f"{path}/json", into=Sifted(docker_wire.is_wanted))
        if effect := docker_wire.side_effect_of(described, signal):
            raise refused(effect, signal)
        await self._ask("POST", f"{path}/kill", params={"signal": signal})

    @asynccontextmanager
    async def events(self, keeps_back: KeepsBack = keeps_none) -> AsyncIterator[AsyncIterator[EngineEvent]]:
        """Yield the event stream: subscribed when entered, and beginning with the last two seconds."""
        feed = Feed(size=BACKLOG, gap=GAP)
        dialect = docker_newcomer.asking(NAME, self._labels, keeps_back)
        reader = Reader(self._client, feed, self._inspect_from_the_room, dialect)
        try:
            await self._room.call(reader.open, self._patience.look)
            yield feed
        finally:
            with trio.CancelScope(shield=True):
                await self._room.call(reader.close)

    async def _inspect_from_the_room(self, container: str) -> ContainerView:
        path, seconds = f"{path_of(container)}/json", self._patience.look
        answer = await self._client.ask("GET", path, seconds, into=Sifted(docker_wire.is_wanted))
        return msgspec.structs.replace(docker_wire.view_of(answer, self._labels), engine=NAME)

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        into: Intake | None = None,
        body: bytes | None = None,
        params: dict[str, str] | None = None,
        seconds: float | None = None,
        is_introduction: bool = False,
    ) -> bytearray:
        limit = self._patience.look if seconds is None else seconds

        async def ask() -> bytearray:
            return await self._client.ask(
                method, path, limit, into=into, body=body, params=params, is_introduction=is_introduction
            )

        return await self._room.call(ask)


@asynccontextmanager
async def open_docker(
    address: str | None = None, patience: Patience | None = None, *, labels: frozenset[str] = frozenset()
) -> AsyncIterator[DockerEngine]:
    """Yield a Docker engine at this address; None or "auto" looks for it. It connects at the first call, and
    reconnects.

    Views have the labels that matter to the sidecar, and the given ones. Raise EngineUnavailable if no address is
    found.
    """
    where = choose(address, os.environ, os.path.exists)
    async with open_room() as room:
        client = await room.call(_client_at, where)
        try:
            yield DockerEngine(room, client, patience or Patience(), labels)
        finally:
            with trio.CancelScope(shield=True):
                await room.call(client.close)


async def _client_at(where: Address) -> Client:
    return Client(where)
