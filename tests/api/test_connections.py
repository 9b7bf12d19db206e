"""Places on a listener: which client gets one, which yields first, and which takes none from others."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from sidecar.api import web_app
from tests.api.apirig import Elastic, Rig, until
from tests.api.test_tcp_listener import serving

pytestmark = pytest.mark.trio

FOLLOW = b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n"
READY = b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n"
RESIZE = b'POST /v1/containers/man/resize HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{"cpus":2}'


async def is_closed(stream: trio.SocketStream) -> bool:
    """Return whether the server closes it now without sending anything before."""
    with trio.move_on_after(0.2):
        return await stream.receive_some(1) == b""
    return False


async def test_a_newcomer_gets_the_place_of_the_client_that_waits_for_longest(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So silent clients keep no other client out, however many they are."""
    monkeypatch.setattr("sidecar.api.connections.MOST", 3)
    async with rig.serving():
        first, second, third = [await rig.send(text) for text in (b"", b"GET /rea", READY)]
        await until(third, lambda text: b"ready" in text)
        assert (await rig.ask("GET", "/readyz"))[0] == 200
        assert await is_closed(first)
        assert not await is_closed(second)
        for _ in range(20):
            await rig.send(b"")
            await trio.testing.wait_all_tasks_blocked()
            assert (await rig.ask("GET", "/readyz"))[0] == 200


async def test_a_client_that_reads_slowly_goes_first_too(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it has kept the server waiting longest."""
    monkeypatch.setattr("sidecar.api.connections.MOST", 1)
    rig.board.report("long", "x" * 20_000_000)
    async with rig.serving():
        deaf = await rig.send(b"GET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n")
        await until(deaf, lambda text: b"200" in text)
        assert (await rig.ask("GET", "/readyz"))[0] == 200


async def test_a_request_that_is_being_answered_keeps_its_place(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """If all places answer requests, a newcomer is closed at once."""
    monkeypatch.setattr("sidecar.api.connections.MOST", 2)
    rig.deciding = trio.Event()
    async with rig.serving():
        asking = [await rig.send(RESIZE) for _ in range(2)]
        while len(rig.asked) < 1:  # noqa: ASYNC110 - the server takes it by itself
            await trio.sleep(0.001)
        await trio.testing.wait_all_tasks_blocked()
        assert await is_closed(await rig.send(b""))
        rig.deciding.set()
        for stream in asking:
            await until(stream, lambda text: b"HTTP/1.1 200" in text)


async def test_followers_take_no_other_place_and_have_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An excess one gets an error; a place is free again once its client has left."""
    monkeypatch.setattr(web_app, "MOST_FOLLOWERS", 2)
    monkeypatch.setattr("sidecar.api.connections.MOST", 1)
    rig = Rig(tmp_path, Elastic())
    async with rig.serving():
        for _ in range(2):
            await until(await rig.send(FOLLOW), lambda text: b": following" in text)
        assert await rig.ask("GET", "/v1/events") == (503, {"error": "2 clients follow events already"})
        assert (await rig.ask("GET", "/readyz"))[0] == 200
        await rig.streams[0].aclose()
        with trio.fail_after(10):
            while b"503" in await until(await rig.send(FOLLOW), lambda text: b"\r\n\r\n" in text):  # noqa: ASYNC110
                await trio.sleep(0.01)  # the server notices by itself
    await rig.close()


async def test_followers_over_tcp_take_none_of_the_unix_sockets_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any user of the host may follow on loopback; only the owner on the Unix socket."""
    monkeypatch.setattr(web_app, "MOST_FOLLOWERS", 1)
    rig = Rig(tmp_path, Elastic())
    async with serving(rig) as port, await trio.open_tcp_stream("127.0.0.1", port) as other:
        await other.send_all(FOLLOW.replace(b"host: x", b"host: localhost"))
        await until(other, lambda text: b": following" in text)
        await until(await rig.send(FOLLOW), lambda text: b": following" in text)
    await rig.close()


async def test_the_peer_with_the_most_places_yields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many connections another address has, and however young they are: neither idle ones nor followers."""
    monkeypatch.setattr("sidecar.api.connections.MOST", 3)
    monkeypatch.setattr(web_app, "MOST_FOLLOWERS", 3)
    follow = FOLLOW.replace(b"host: x", b"host: localhost")
    rig = Rig(tmp_path, Elastic())
    async with serving(rig) as port:

        async def connected(address: str, request: bytes) -> trio.SocketStream:
            stream = await trio.open_tcp_stream("127.0.0.1", port, local_address=address)
            rig.streams.append(stream)
            await stream.send_all(request)
            await trio.testing.wait_all_tasks_blocked()
            return stream

        honest = await connected("127.0.0.1", b"")
        for _ in range(10):
            await connected("127.0.0.2", b"")
        assert not await is_closed(honest)
        await honest.send_all(follow)
        await until(honest, lambda text: b": following" in text)
        first = await connected("127.0.0.2", follow)
        await until(first, lambda text: b": following" in text)
        await until(await connected("127.0.0.2", follow), lambda text: b": following" in text)
        crowded = await connected("127.0.0.2", follow)
        await until(crowded, lambda text: b"503" in text)
        await until(await connected("127.0.0.3", follow), lambda text: b": following" in text)
        assert await is_closed(first)
        assert not await is_closed(honest)
    await rig.close()
