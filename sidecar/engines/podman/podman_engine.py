"""PodmanEngine: the port `Engine` on Podman's own API (libpod), for trio tasks. The asyncio side is in `http_client`.

Where Podman differs from Docker, measured on 4.3.1 and 5.4.2 (`libpod_wire`, `podman_memory`):

1. It checks no value. A value that its runtime refuses (500) still stays in the container's configuration, and every
   later start fails. So absent CPUs and nodes are refused before they are sent, and after a 500 the old value is
   written again.
2. Before 5.1 an update of a container that does not run fails: it is only remembered, and written once it runs.
3. While it starts a container it answers neither a list nor a request for its info, until that start is done. The list
   is then the remembered containers, without the removed ones; an unknown container is found in Podman's history.
4. Before 5.1 no inspect shows an update, by people or by an earlier sidecar: of a live container the limit counts that
   the kernel enforces. So an update that names all limits changes none that people set.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

import msgspec
import trio

from sidecar.decide.engine_traits import EngineTraits
from sidecar.decide.facts import ContainerView, EngineInfo
from sidecar.decide.orders import Update
from sidecar.engines.answer_bounds import BACKLOG, Patience, path_of
from sidecar.engines.asyncio_room import AsyncioRoom
from sidecar.engines.docker import docker_wire
from sidecar.engines.event_dialect import Dialect
from sidecar.engines.event_feed import Feed
from sidecar.engines.http_client import EVENT_BYTES, GAP, Client, Reader, Socket
from sidecar.engines.intakes import EachLine, Sifted, listed_ids
from sidecar.engines.podman import libpod_wire
from sidecar.engines.podman.libpod_wire import Native, PodLimits
from sidecar.engines.podman.podman_memory import Remembered
from sidecar.engines.traits_table import PODMAN, traits_of
from sidecar.failures import ContainerGone, EngineError, EngineFailed, EngineRefused, EngineSilent, EngineUnavailable
from sidecar.ports import EngineEvent, KeepsBack, keeps_none
from state.cpuset import CPUSet
from state.errors import StateError
from state.topology import Topology

VERSION_HEADER: Final = "Libpod-API-Version"
"""The header with which only Podman answers a ping. Its value is Podman's own version."""

_POD_SECONDS: Final = 1.0
"""How long to wait for the description of a pod: a millisecond, unless one of its containers is being started."""

_MOST_PODS: Final = 4096
"""Pods whose limits are remembered; more than a host has."""

_NOT_RUNNING: Final = "container state improper"


class LiveMachine(Protocol):
    """What Podman does not check before it takes an order, and does not tell."""

    def online(self) -> CPUSet:
        """Return the CPUs that are online now. Raise StateError."""

    def topology(self) -> Topology:
        """Return the machine as it is now. Raise StateError."""

    def limit_of(self, view: ContainerView) -> int | None:
        """Return a live container's CPU limit in 1e-9 CPUs, 0 for none; None if it cannot be read."""


NAME: Final = "podman"
"""What Podman calls itself."""


class PodmanEngine:
    """Podman, 4.3 or later. `open_engine` makes it; every call has a time limit."""

    def __init__(
        self, room: AsyncioRoom, client: Client, patience: Patience, labels: frozenset[str], machine: LiveMachine
    ) -> None:
        client.speak(libpod_wire.PREFIX)
        self._room = room
        self._client = client
        self._patience = patience
        self._labels = labels
        self._machine = machine
        self._remembered = Remembered()
        self._pods: dict[str, PodLimits] = {}
        self._version = ""
        self._home = ""
        self._socket: Socket | None = None
        self._info: EngineInfo | None = None

    @property
    def name(self) -> str:
        """What the engine calls itself."""
        return NAME

    async def info(self) -> EngineInfo:
        """Return what Podman is. Raise EngineLacks if it has no cpuset controller, keeps no events, or is older than
        4.3.
        """
        return await self._room.call(self._ask_info)

    async def containers(self) -> tuple[str, ...]:
        """Return the full ids of all containers, including stopped ones."""
        return await self._room.call(self._list)

    @property
    def unstarted(self) -> Collection[str]:
        """Return none: a Podman without a service does not tell of every change, so each is looked at."""
        return ()

    async def inspect(self, container: str) -> ContainerView:
        """Return the engine's view of one container, with the limits that were written to it."""
        return await self._room.call(self._inspect, container)

    async def glance(self, container: str) -> ContainerView:
        """Return the parts of a container's view that are remembered, or that Podman's history of events contains."""
        return await self._room.call(self._glance, container)

    async def update(self, container: str, update: Update) -> None:
        """Change CPUs and quota in one call."""
        await self._room.call(self._update, container, update)

    async def stop(self, container: str) -> None:
        """Stop a container, with its own grace; no error if it is already stopped."""
        await self._room.call(self._post, f"{path_of(container)}/stop", self._patience.stop)

    async def signal(self, container: str, signal: str) -> None:
        """Send a signal to a container's first process; Podman resumes no container for it.

        Raise EngineRefused if Podman would forget a restart policy.
        """
        await self._room.call(self._signal, container, signal)

    @asynccontextmanager
    async def events(
        self,
        keeps_back: KeepsBack = keeps_none,  # noqa: ARG002 - the protocol's shape
    ) -> AsyncIterator[AsyncIterator[EngineEvent]]:
        """Yield the event stream: subscribed when entered, and beginning with the last two seconds. Nothing is kept
        back: an event does not tell the labels of the pod, which may be meant for the container.
        """
        feed = Feed(size=BACKLOG, gap=GAP)
        dialect = Dialect(tuple(libpod_wire.WATCHED), self._heard, libpod_wire.torn_event_of, is_negotiated=False)
        reader = Reader(self._client, feed, self._inspect, dialect)
        try:
            await self._room.call(reader.open, self._patience.look)
            yield feed
        finally:
            with trio.CancelScope(shield=True):
                await self._room.call(reader.close)

    # From here on everything runs in the room.

    async def _ask_info(self) -> EngineInfo:
        socket = self._client.socket()
        version = await self._greet()
        try:
            answer = await self._client.ask("GET", "info", self._patience.introduction, is_introduction=True)
        except EngineSilent:
            # A container that is being started is in the way (3).
            if self._info is None or self._info.version != version or socket != self._socket:
                raise
            return self._info
        self._info = libpod_wire.engine_info_of(answer, version)
        self._recognize(libpod_wire.home_of(answer))
        self._socket = socket
        self._client.trust(socket)
        return self._info

    def _recognize(self, home: str) -> None:
        """Raise EngineUnavailable if this is another Podman: without the containers, its list would mean that all are
        gone.
        """
        if self._home and home != self._home:
            raise EngineUnavailable(
                f"another engine answers: it keeps its containers in {home}, the previous one in {self._home}; "
                "restart the sidecar to start over with this one"
            )
        self._home = home

    async def _greet(self) -> str:
        """Return the version from a ping, which needs no lock."""
        headers = await self._client.greet(self._patience.look)
        self._version = headers.get(VERSION_HEADER, "")[:64]
        if not self._version:
            raise EngineUnavailable(
                "another engine answers where Podman was: restart the sidecar to start over with it"
            )
        return self._version

    async def _traits(self) -> EngineTraits:
        return traits_of(PODMAN, self._version or await self._greet())

    async def _restarts(self, container: str) -> bool:
        path = f"{path_of(container)}/json"
        return docker_wire.has_restart_policy(
            await self._client.ask("GET", path, self._patience.look, into=Sifted(docker_wire.is_wanted))
        )

    async def _list(self) -> tuple[str, ...]:
        try:
            answer = await self._client.ask(
                "GET", "containers/json", self._patience.look, into=listed_ids(), params={"all": "true"}
            )
        except EngineSilent:
            if not self._remembered.ids():
                raise
            return await self._list_without_locks()
        ids = docker_wire.ids_of(answer)
        self._remembered.retain(ids)
        return ids

    async def _list_without_locks(self) -> tuple[str, ...]:
        """Return the remembered containers that still exist (3)."""
        ids = self._remembered.ids()
        for id, is_there in zip(ids, await asyncio.gather(*(self._exists(id) for id in ids)), strict=True):
            if not is_there:
                self._remembered.forget(id)
        return self._remembered.ids()

    async def _exists(self, container: str) -> bool:
        try:
            await self._client.ask("GET", f"{path_of(container)}/exists", self._patience.look)
        except ContainerGone:
            return False
        return True

    async def _inspect(self, container: str) -> ContainerView:
        view, limits = await self._look(container)
        above = await self._limits_of(view.pod) if view.pod else PodLimits()
        view = msgspec.structs.replace(view, pod_cpuset=above.cpuset, pod_limit=above.cpus)
        return libpod_wire.told(view, limits, keeps_updates=(await self._traits()).keeps_updates)

    async def _limits_of(self, pod: str) -> PodLimits:
        """Return the limits of a pod, which never change. Nothing is known of one that does not answer: it does not
        while one of its containers is being started (3).
        """
        if pod in self._pods:
            return self._pods[pod]
        wanted = Sifted(libpod_wire.is_wanted_of_pod)
        try:
            answer = await self._client.ask("GET", f"pods/{pod}/json", _POD_SECONDS, into=wanted)
        except (EngineSilent, EngineFailed, EngineRefused, ContainerGone):
            return PodLimits()
        if len(self._pods) >= _MOST_PODS:
            self._pods.clear()
        self._pods[pod] = found = libpod_wire.pod_limits_of(answer)
        return found

    async def _look(self, container: str) -> tuple[ContainerView, Native]:
        """Return the view from inspect, and the limits that the container really has."""
        keeps = (await self._traits()).keeps_updates
        try:
            answer = await self._client.ask(
                "GET", f"{path_of(container)}/json", self._patience.look, into=Sifted(libpod_wire.is_wanted)
            )
        except ContainerGone:
            self._remembered.forget(container)
            raise
        view = msgspec.structs.replace(docker_wire.view_of(answer, self._labels), engine=NAME)
        view = libpod_wire.completed(view, answer)
        limits = self._remembered.looked(view, keeps_updates=keeps)
        return view, limits if keeps else limits.in_force(self._machine.limit_of(view))

    async def _glance(self, container: str) -> ContainerView:
        if not await self._exists(container):
            self._remembered.forget(container)
            raise ContainerGone(f"No such container: {container}")
        if self._remembered.view(container) is None:
            await self._read_history(container)
        if (view := self._remembered.view(container)) is None:
            raise EngineUnavailable(
                f"nothing is known of container {container[:12]} yet, and Podman does not describe it while it starts"
            )
        return msgspec.structs.replace(libpod_wire.stripped(view), engine=NAME)

    async def _read_history(self, container: str) -> None:
        """Remember a container from Podman's own record of events, which needs no lock."""
        filters = msgspec.json.encode({"container": [container], "event": ["create", "rename"]}).decode()
        params = {"stream": "false", "filters": filters}
        await self._client.ask(
            "GET", "events", self._patience.look, into=EachLine(self._heard, EVENT_BYTES), params=params
        )

    def _heard(self, line: bytes) -> EngineEvent | None:
        event = libpod_wire.event_of(line)
        if event is not None:
            name, labels = libpod_wire.attributes_of(line, self._labels)
            self._remembered.heard(event.container, event.action, name, labels)
        return event

    async def _update(self, container: str, update: Update) -> None:
        self._refuse_absent(update)
        keeps = (await self._traits()).keeps_updates
        view, before = await self._look(container)
        wanted = before.after(update, len(self._online() or ()))
        if not keeps and not view.phase.is_live:
            self._remembered.wrote(view, wanted)
            return
        body = libpod_wire.update_body(wanted, update, is_whole=not keeps)
        try:
            answer = await self._post(f"{path_of(container)}/update", self._patience.update, body)
            libpod_wire.check_updated(answer, container)
        except ContainerGone:
            self._remembered.forget(container)
            raise
        except EngineFailed as error:
            if keeps:
                await self._write_again(container, before, update, error)
            raise
        self._remembered.wrote(view, wanted)

    def _refuse_absent(self, update: Update) -> None:
        """Refuse CPUs and memory nodes that do not exist, in Docker's words (1)."""
        online = self._online()
        if online is not None and update.cpus - online:
            raise EngineRefused(f"Requested CPUs are not available - requested {update.cpus}, available: {online}")
        if update.mems is None:
            return
        with suppress(StateError):
            nodes = CPUSet(self._machine.topology().memory)
            if nodes and CPUSet.parse(update.mems) - nodes:
                raise EngineRefused(
                    f"Requested memory nodes are not available - requested {update.mems}, available: {nodes}"
                )

    async def _write_again(self, container: str, before: Native, update: Update, error: EngineFailed) -> None:
        """Write the old limits again (1). Raise ContainerGone, or EngineFailed if that fails, too."""
        online = self._online() or CPUSet()
        cpus = before.cpus if before.cpus and _is_within(before.cpus, online) else str(online)
        mems = before.mems
        if not mems and update.mems is not None:
            with suppress(StateError):
                mems = str(CPUSet(self._machine.topology().memory))
        if not cpus:
            return
        healing = Native(cpus=cpus, mems=mems, quota=before.quota, period=before.period)
        try:
            await self._post(
                f"{path_of(container)}/update",
                self._patience.update,
                libpod_wire.update_body(healing, update, is_whole=True),
            )
        except ContainerGone:
            self._remembered.forget(container)
            raise
        except EngineError as again:
            raise EngineFailed(f"{error}; its old limits cannot be restored either: {again}") from error

    def _online(self) -> CPUSet | None:
        """Return the CPUs that are online; None if that cannot be read."""
        try:
            return self._machine.online()
        except StateError:
            return None

    async def _signal(self, container: str, signal: str) -> None:
        if (await self._traits()).signal_forgets_policy and await self._restarts(container):
            raise EngineRefused(
                "the engine would forget its restart policy; let systemd start it again instead (a quadlet unit with "
                "`Restart=always`)"
            )
        try:
            await self._post(f"{path_of(container)}/kill", self._patience.look, params={"signal": signal})
        except (EngineFailed, EngineRefused) as error:
            if _NOT_RUNNING in str(error):
                raise EngineRefused(f"container {container[:12]} is not running: {error}") from error
            raise

    async def _post(
        self, path: str, seconds: float, body: bytes | None = None, params: dict[str, str] | None = None
    ) -> bytearray:
        return await self._client.ask("POST", path, seconds, body=body, params=params)


def _is_within(cpus: str, online: CPUSet) -> bool:
    try:
        return not CPUSet.parse(cpus) - online
    except StateError:
        return False
