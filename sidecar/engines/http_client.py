"""The asyncio side of a connection to the engine: requests, bounded in time and size, and the event reader.

Everything here runs in the room; it uses nothing of trio but the feed's thread-safe half. aiodocker makes the
requests; its known faults are handled here:

- Its errors lose whether the engine's answer was JSON, and a 500 that is not JSON escapes as a JSONDecodeError.
 So the session itself turns answers of 400 and above into our errors, before aiodocker sees them.
- It has no `update` on containers: the private `_query` is the only way to that route, and to raw answers of which a
 container's author may have made 40 MB.
- Its event stream goes silently deaf after an end, raises when closed, queues without bound, and one event longer
 than its line limit kills the stream permanently. So the stream is read here as bytes, a fresh request each time.
- It has no time limits, and a `connector` with a unix URL composes broken addresses: it is given the address to
 compose with.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

import aiodocker
import aiohttp
import msgspec

from sidecar.decide.facts import ContainerView
from sidecar.engines import answer_errors
from sidecar.engines.address import Address, how_to_start
from sidecar.engines.byte_lines import Lines, Torn
from sidecar.engines.docker import engine_identity
from sidecar.engines.event_dialect import DOCKER, Dialect
from sidecar.engines.event_feed import Feed
from sidecar.engines.intakes import Entire, Intake
from sidecar.engines.stream_end import next_chunk, wake_at_the_end
from sidecar.failures import EngineError, EngineSilent, EngineUnavailable
from sidecar.ports import EngineEvent

_REFUSAL_BYTES: Final = 64 * 1024
"""Bytes of a refusal's body: the reason is at its beginning."""

_MOST_SECONDS: Final = 60.0
"""The longest time for one answer, however steadily it comes: an engine sends 700 MB in ten seconds."""

EVENT_BYTES: Final = 1024 * 1024
"""Bytes of the longest event that is parsed whole; of a longer one the beginning and the end suffice."""

_CONNECTIONS: Final = 0
"""Requests at once: no limit here, or the locks that others hold would take the connections of all. Orders and looks
begin at a limited rate, and each ends by its time limit.
"""

_GLANCES: Final = 16
"""New containers that the event reader inspects at once; for the others, only the events are handed over."""

_GLANCE_SECONDS: Final = 0.5
"""How long such a look counts: one that waits for a lock longer keeps no other container waiting."""

_OVERLAP_SECONDS: Final = 2.0
"""How far back the stream begins. The engine answers before it has subscribed, and its ring may hold events slightly
out of order; a repeated event does no harm, since it is only a hint.
"""

_NEWEST_API: Final = (1, 45)
"""The newest API version whose answers are known here (Docker 26)."""

_CURES: Final = {
    errno.ENOENT: "no such socket: start the engine{how}, or set `engine` or DOCKER_HOST to its address",
    errno.EACCES: "permission denied: run as root, or as a member of the socket's group (usually `docker`)",
    errno.ECONNREFUSED: "connection refused: start the engine{how}",
    errno.EISDIR: "it is a directory: the path that is mounted there does not exist on the host",
}

GAP: Final = EngineEvent(container="", action="gap", time_nano=0, is_gap=True)
"""Some events were lost here: look at everything."""


Socket = tuple[int, int]
"""Identifies a socket: its device and inode."""


class Client:
    """One engine, by its address. Make it inside the room; it connects at the first call."""

    def __init__(self, address: Address) -> None:
        self._address = address
        connector = _connector(address)
        self._session = _session(connector)
        # Given both, aiodocker makes neither, and reads no DOCKER_TLS_VERIFY; closing both remains our task.
        self._docker = aiodocker.Docker(address.url, connector, self._session, api_version="v1.41")
        self._docker.docker_host = address.base
        self._connected_to = self.socket()
        self._is_negotiated = False
        self._prefix = ""
        self._trusted: Socket | None = None

    def socket(self) -> Socket | None:
        """Return which socket is at the address now; None if there is none, or if the address is no path."""
        if self._address.path is None:
            return None
        with suppress(OSError):
            found = os.stat(self._address.path)
            return found.st_dev, found.st_ino
        return None

    def trust(self, socket: Socket | None) -> None:
        """Use only this socket for `ask` and `subscribe` from now on; None for any socket.

        A socket that replaces it may belong to another engine, which has none of the containers.
        """
        self._trusted = socket

    async def _reconnect_if_replaced(self) -> None:
        """Reconnect if the socket was replaced: kept connections lead to the process that listened when they were made.

        Called before the engine is identified.
        """
        if (found := self.socket()) == self._connected_to:
            return
        left, self._session = self._session, _session(_connector(self._address))
        self._docker.session, self._connected_to = self._session, found
        await left.close()

    def _see_that_trusted(self) -> None:
        # A socket may be back again while connections lead to the one that stood there meanwhile.
        if self._trusted is None or (found := self.socket()) == self._trusted == self._connected_to:
            return
        what = (
            _CURES[errno.ENOENT].format(how=how_to_start(self._address))
            if found is None
            else "its socket was replaced: the engine behind it is identified first"
        )
        raise EngineUnavailable(f"the engine at {self._address.url}: {what}")

    async def close(self) -> None:
        """Close every connection."""
        await self._docker.close()
        await self._session.close()

    def speak(self, prefix: str) -> None:
        """Begin every route with this prefix, without negotiating a version."""
        self._docker.api_version = prefix
        self._prefix = prefix

    async def greet(self, seconds: float) -> Mapping[str, str]:
        """Return the headers of the engine's answer to a ping, which needs no lock. Raise any EngineError."""
        await self._reconnect_if_replaced()
        async with self._patience(seconds):
            answer = await self._docker._do_query("_ping", "GET", versioned_api=False)  # noqa: SLF001
            answer.close()
            return answer.headers

    async def version(self, seconds: float) -> bytearray:
        """Return the answer of the version route. Raise any EngineError."""
        await self._reconnect_if_replaced()
        return await self._answer("version", "GET", None, None, seconds, versioned=False, into=Entire(_REFUSAL_BYTES))

    async def negotiate(self, seconds: float) -> bytearray:
        """Negotiate an API version. Repeated for every stream, as another engine may answer after a restart."""
        version = await self.version(seconds)
        self._docker.api_version = engine_identity.api_version_of(version, _NEWEST_API)
        self._is_negotiated = True
        return version

    async def ask(
        self,
        method: str,
        path: str,
        seconds: float,
        *,
        into: Intake | None = None,
        body: bytes | None = None,
        params: dict[str, str] | None = None,
        is_introduction: bool = False,
    ) -> bytearray:
        """Return what an intake keeps of the answer, by default all of a small one. Raise any EngineError otherwise.

        The answer must begin within `seconds`, and go on in each such time.

        With `is_introduction`, a socket that is not trusted is asked as well.
        """
        if not is_introduction:
            self._see_that_trusted()
        if not self._prefix and not self._is_negotiated:
            await self.negotiate(seconds)
        return await self._answer(path, method, body, params, seconds, versioned=True, into=into or Entire())

    async def subscribe(self, params: dict[str, str], seconds: float) -> aiohttp.ClientResponse:
        """Return the open answer of the event route; the engine must begin it within `seconds`. Raise
        EngineUnavailable.
        """
        self._see_that_trusted()
        try:
            async with asyncio.timeout(seconds):
                return await self._docker._do_query("events", "GET", params=params)  # noqa: SLF001
        except TimeoutError as error:
            raise EngineSilent(f"the engine opened no event stream within {seconds:g} s") from error
        except (aiodocker.DockerError, aiohttp.ClientError, OSError) as error:
            raise self.unavailable(error) from error

    async def _answer(
        self,
        path: str,
        method: str,
        body: bytes | None,
        params: dict[str, str] | None,
        seconds: float,
        *,
        versioned: bool,
        into: Intake,
    ) -> bytearray:
        async with self._patience(seconds) as patience:
            response = await self._docker._do_query(  # noqa: SLF001  (see the module's docstring)
                path, method, data=body, params=params, versioned_api=versioned
            )
            return await _body(response, into, patience, seconds)

    @asynccontextmanager
    async def _patience(self, seconds: float) -> AsyncIterator[asyncio.Timeout]:
        try:
            async with asyncio.timeout(seconds) as timeout:
                yield timeout
        except EngineError:
            raise
        except TimeoutError as error:
            raise EngineSilent(f"the engine at {self._address.url} did not answer within {seconds:g} s") from error
        except (aiodocker.DockerError, aiohttp.ClientError, OSError) as error:
            raise self.unavailable(error) from error

    def unavailable(self, error: BaseException) -> EngineUnavailable:
        """Return a foreign error of the connection as ours, with the cure if the cause is known."""
        if self._address.path is not None and os.path.isdir(self._address.path):
            return EngineUnavailable(f"the engine at {self._address.url}: {_CURES[errno.EISDIR]}")
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, OSError) and cause.errno in _CURES:
                cure = _CURES[cause.errno].format(how=how_to_start(self._address))
                return EngineUnavailable(f"the engine at {self._address.url}: {cure}")
            cause = cause.__cause__ or cause.__context__
        text = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error) or repr(error)
        return EngineUnavailable(f"the engine at {self._address.url}: {answer_errors.shown(text)}")


_CRASH_LENGTH: Final = 500
"""Characters of an unexpected error that are reported."""

Inspect = Callable[[str], Awaitable[ContainerView]]


class Reader:
    """Reads one event stream into a feed. `open` it, and `close` it even if `open` failed.

    Each created container is inspected from right here, and its event handed over with the view: the way through trio
    and back takes long enough for a start to take the container's lock first.
    """

    def __init__(self, client: Client, feed: Feed[EngineEvent], inspect: Inspect, dialect: Dialect = DOCKER) -> None:
        self._client = client
        self._dialect = dialect
        self._feed = feed
        self._inspect = inspect
        self._glances: dict[str, asyncio.Task[None]] = {}
        self._prompt: set[str] = set()
        """The containers whose looks count."""
        self._response: aiohttp.ClientResponse | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self, seconds: float) -> None:
        """Subscribe. Raise EngineUnavailable if that does not succeed within `seconds`."""
        if self._dialect.is_negotiated:
            await self._client.negotiate(seconds)
        filters = {"type": ["container"], "event": list(self._dialect.actions)}
        params = {
            "since": f"{time.time() - _OVERLAP_SECONDS:.9f}",
            "filters": msgspec.json.encode(filters).decode(),
        }
        self._response = await self._client.subscribe(params, seconds)
        self._task = asyncio.create_task(self._read(self._response))
        self._task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Stop reading and close the connection."""
        tasks = [*self._glances.values(), *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._response is not None:
            self._response.close()

    async def _read(self, response: aiohttp.ClientResponse) -> None:
        lines = Lines(EVENT_BYTES)
        try:
            protocol = response.connection.protocol if response.connection else None
            wake_at_the_end(response.content, protocol.closed if protocol else None)

            def has_ended() -> bool:
                return response.connection is None or response.connection.transport is None

            while chunk := await next_chunk(response.content, has_ended):
                for line in lines.feed(chunk):
                    self._push(line)
        except (aiohttp.ClientError, OSError) as error:
            raise EngineUnavailable(
                f"the event stream broke: {answer_errors.shown(str(error) or repr(error))}"
            ) from error
        raise EngineUnavailable("the engine ended its event stream")

    def _push(self, line: bytes | Torn) -> None:
        if isinstance(line, Torn):
            self._feed.push(self._dialect.torn_event_of(line.head, line.tail) or GAP)
        elif (event := self._event_of(line)) is None:
            return
        elif event.action == "create" and len(self._prompt) < _GLANCES:
            self._prompt.add(event.container)
            asyncio.get_running_loop().call_later(_GLANCE_SECONDS, self._prompt.discard, event.container)
            self._glances[event.container] = asyncio.create_task(self._push_with_view(event))
        else:
            if event.action == "destroy" and (glance := self._glances.pop(event.container, None)):
                # Its view is obsolete, and must not be reported after the container's end.
                glance.cancel()
            self._feed.push(event)

    def _event_of(self, line: bytes) -> EngineEvent | None:
        try:
            return self._dialect.event_of(line)
        except Exception as error:
            return msgspec.structs.replace(GAP, crash=f"{type(error).__name__}: {error}"[:_CRASH_LENGTH])

    async def _push_with_view(self, event: EngineEvent) -> None:
        try:
            view = await self._inspect(event.container)
        except Exception:
            self._feed.push(event)
        else:
            self._feed.push(msgspec.structs.replace(event, view=view))
        finally:
            self._glances.pop(event.container, None)
            self._prompt.discard(event.container)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Pass the error that ended the reading to the feed's reader, including a bug in this module."""
        if task.cancelled():
            self._feed.end(EngineUnavailable("the event stream was closed"))
        else:
            self._feed.end(task.exception())


def _session(connector: aiohttp.BaseConnector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(), raise_for_status=_raise_refusal)


def _connector(address: Address) -> aiohttp.BaseConnector:
    if address.path is not None:
        return aiohttp.UnixConnector(address.path, limit=_CONNECTIONS)
    return aiohttp.TCPConnector(limit=_CONNECTIONS)


async def _raise_refusal(response: aiohttp.ClientResponse) -> None:
    """Raise our error for a refusal; the session calls this with every answer."""
    if response.status < 400:
        return
    body = bytearray()
    try:
        while len(body) < _REFUSAL_BYTES and (chunk := await response.content.readany()):
            body += chunk
    finally:
        response.close()
    raise answer_errors.error_of(response.status, bytes(body))


async def _body(response: aiohttp.ClientResponse, into: Intake, patience: asyncio.Timeout, seconds: float) -> bytearray:
    """Return what the intake keeps of the body. EngineFailed of the intake: the rest is not read.

    A body that goes on coming is waited for, up to MOST_SECONDS.
    """
    clock = asyncio.get_running_loop().time
    last = clock() + _MOST_SECONDS
    try:
        while piece := await response.content.readany():
            into.feed(piece)
            if clock() + seconds < last:
                patience.reschedule(clock() + seconds)
    finally:
        response.close()
    return into.answer()
