"""Find out which engine answers at an address, and use its own API.

Podman often replaces Docker at its usual place, and a sidecar may be started before its engine. So the engine is
identified at the first call, and again whenever the connection is renewed (`info`). If another kind answers then,
nothing that is known of the containers holds; the sidecar reports that and waits.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import msgspec
import trio

from sidecar.decide.facts import ContainerView, EngineInfo
from sidecar.decide.orders import Update
from sidecar.engines.address import Address, choose
from sidecar.engines.answer_bounds import Patience
from sidecar.engines.asyncio_room import AsyncioRoom, open_room
from sidecar.engines.docker import engine_identity
from sidecar.engines.docker.docker_engine import DockerEngine
from sidecar.engines.engine_ping import ping
from sidecar.engines.http_client import Client
from sidecar.engines.podman.podman_engine import VERSION_HEADER, LiveMachine, PodmanEngine
from sidecar.failures import EngineFailed, EngineLacks, EngineUnavailable
from sidecar.ports import EngineEvent, KeepsBack, keeps_none
from state.key import MARK

_KINDS: Final = {DockerEngine: "Docker", PodmanEngine: "Podman"}


class FoundEngine:
    """The port `Engine`, on whichever engine answers. `open_engine` makes it."""

    def __init__(
        self,
        room: AsyncioRoom,
        client: Client,
        patience: Patience,
        labels: frozenset[str],
        machine: LiveMachine,
        name: str = "",
    ) -> None:
        self._name = name
        self._room = room
        self._client = client
        self._patience = patience
        self._labels = labels
        self._machine = machine
        self._engine: DockerEngine | PodmanEngine | None = None

    @property
    def name(self) -> str:
        """What the engine calls itself; before it was found, what it is expected to, "" if it may be any. A user's own
        calls itself as the host's does, so it has the name that it is given.
        """
        return self._name if self._engine is None or self._is_users else self._engine.name

    @property
    def _is_users(self) -> bool:
        return MARK in self._name

    def _as_named(self, view: ContainerView) -> ContainerView:
        return msgspec.structs.replace(view, engine=self._name) if self._is_users else view

    async def info(self) -> EngineInfo:
        """Return what the engine is, and what it can do. Raise EngineUnavailable if another one answered before."""
        kind = await self._kind()
        engine = await self._found(kind)
        if not isinstance(engine, kind):
            raise EngineUnavailable(
                f"{_KINDS[kind]} answers where {_KINDS[type(engine)]} was: restart the sidecar to start over with it"
            )
        info = await engine.info()
        if not self._is_users or info.name != self._name.partition(MARK)[0]:
            return info
        notes = tuple(each for each in info.notes if each != engine_identity.ROOTLESS_NOTE)
        return msgspec.structs.replace(info, name=self._name, notes=notes)

    async def ping(self) -> None:
        """Ask for a sign of life."""
        await ping(self._room, self._client, self._patience.look)

    async def containers(self) -> tuple[str, ...]:
        """Return the full ids of all containers, including stopped ones."""
        return await (await self._found()).containers()

    @property
    def unstarted(self) -> Collection[str]:
        """Of the last list, the ids of those that have never run."""
        return self._engine.unstarted if self._engine else ()

    async def inspect(self, container: str) -> ContainerView:
        """Return the engine's view of one container."""
        return self._as_named(await (await self._found()).inspect(container))

    async def glance(self, container: str) -> ContainerView:
        """Return the parts of a container's view that need no lock."""
        return self._as_named(await (await self._found()).glance(container))

    async def update(self, container: str, update: Update) -> None:
        """Change CPUs and quota in one call."""
        await (await self._found()).update(container, update)

    async def stop(self, container: str) -> None:
        """Stop a container, with its own grace."""
        await (await self._found()).stop(container)

    async def signal(self, container: str, signal: str) -> None:
        """Send a signal to a container's first process."""
        await (await self._found()).signal(container, signal)

    @asynccontextmanager
    async def events(self, keeps_back: KeepsBack = keeps_none) -> AsyncIterator[AsyncIterator[EngineEvent]]:
        """Yield the event stream: subscribed when entered."""
        opened: AbstractAsyncContextManager[AsyncIterator[EngineEvent]] = (await self._found()).events(keeps_back)
        async with opened as events:
            yield events

    async def _found(self, kind: type[DockerEngine] | type[PodmanEngine] | None = None) -> DockerEngine | PodmanEngine:
        if self._engine is None:
            if (kind or await self._kind()) is PodmanEngine:
                self._engine = PodmanEngine(self._room, self._client, self._patience, self._labels, self._machine)
            else:
                self._engine = DockerEngine(self._room, self._client, self._patience, self._labels)
        return self._engine

    async def _kind(self) -> type[DockerEngine] | type[PodmanEngine]:
        return await self._room.call(_kind_of, self._client, self._patience.look)


async def _kind_of(client: Client, seconds: float) -> type[DockerEngine] | type[PodmanEngine]:
    """Return the kind of engine that answers. A ping shows it without any lock; a proxy may drop its headers or refuse
    it.
    """
    try:
        if VERSION_HEADER in await client.greet(seconds):
            return PodmanEngine
    except (EngineLacks, EngineFailed):
        pass
    return PodmanEngine if engine_identity.is_podman(await client.version(seconds)) else DockerEngine


@asynccontextmanager
async def open_engine(
    address: str | None = None,
    patience: Patience | None = None,
    *,
    machine: LiveMachine,
    labels: frozenset[str] = frozenset(),
) -> AsyncIterator[FoundEngine]:
    """Yield the engine at this address; None or "auto" looks for it. It connects at the first call, and reconnects.

    Views have the labels that matter to the sidecar, and the given ones. Raise EngineUnavailable if no address is
    found.
    """
    async with open_engines([("", address)], patience, machine=machine, labels=labels) as (engine,):
        yield engine


@asynccontextmanager
async def open_engines(
    places: Sequence[tuple[str, str | None]],
    patience: Patience | None = None,
    *,
    machine: LiveMachine,
    labels: frozenset[str] = frozenset(),
) -> AsyncIterator[list[FoundEngine]]:
    """Yield the engines at these places, each a name that it is expected to have, "" for any, and an address.

    They share a thread: msgspec crashes if two threads are the first to read a type at once (0.22; seen with the
    answers of Docker and Podman).
    """
    found = [(name, choose(address, os.environ, os.path.exists)) for name, address in places]
    async with open_room() as room:
        clients = [await room.call(_client_at, where) for _, where in found]
        try:
            bounds = patience or Patience()
            yield [
                FoundEngine(room, client, bounds, labels, machine, name)
                for (name, _), client in zip(found, clients, strict=True)
            ]
        finally:
            with trio.CancelScope(shield=True):
                for client in clients:
                    await room.call(client.close)


async def _client_at(where: Address) -> Client:
    return Client(where)
