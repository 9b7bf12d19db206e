"""The page for one person: with the token of the link, the page's routes and no other; without it, nothing."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import StringIO

import pytest
import trio

from sidecar.api.connections import MOST
from sidecar.api.page_relay import serve_page
from sidecar.api.page_routes import MOST_PAGES
from sidecar.api.tcp_listener import listening_on
from sidecar.log import Log
from tests.api.apirig import Elastic, Rig, until
from tests.api.test_tcp_listener import ask

pytestmark = pytest.mark.trio

TOKEN = "0123456789abcdefghijkl"


@asynccontextmanager
async def relaying(rig: Rig, log: StringIO | None = None) -> AsyncIterator[int]:
    """Serve the page before this rig's socket; yield its port."""
    with listening_on("127.0.0.1:0") as listener:
        assert listener is not None
        port: int = listener.socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_page, listener.socket, TOKEN, rig.path, Log(log or StringIO()))
            yield port
            nursery.cancel_scope.cancel()


async def connected(port: int, request: bytes) -> trio.SocketStream:
    """Open a connection, and send this on it."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    await stream.send_all(request)
    return stream


async def test_with_the_token_the_page_and_what_it_asks(rig: Rig) -> None:
    """The same answers as the daemon's own, with their statuses."""
    async with rig.serving(), relaying(rig) as port:
        assert b"<title>cpuset-sidecar</title>" in (await ask(port, "GET", f"/{TOKEN}/"))[1]
        for route in (
            "/v1/cpus/7",
            "/v1/containers/man/explanation",
            "/v1/plan?cpus=1",
            "/v1/cpus/99",
            "/v1/plan?cpus=x",
        ):
            assert await ask(port, "GET", f"/{TOKEN}{route}") == await rig.raw("GET", route)
        assert (await ask(port, "GET", f"/{TOKEN}/v1/history"))[0] == 200


@pytest.mark.parametrize(
    "path", ["/", "/page.js", "/v1/history", f"/{TOKEN[:-1]}/", f"/{TOKEN}x/", "//", f"/v1/{TOKEN}/"]
)
async def test_without_the_token_nothing_is_answered(rig: Rig, path: str) -> None:
    async with rig.serving(), relaying(rig) as port:
        assert (await ask(port, "GET", path))[0] == 403


@pytest.mark.parametrize(
    ("method", "route"),
    [
        ("POST", "/v1/containers/man/resize"),
        ("POST", "/v1/defragment"),
        ("GET", "/v1/state"),
        ("GET", "/metrics"),
        ("GET", "/v1/status"),
        ("PUT", "/"),
        ("GET", "/v1/containers/../state"),
        ("GET", "/v1/cpus/..%2F..%2Fv1%2Fstate"),
        ("GET", "/v1/cpus/1%0d%0ax: y"),
    ],
)
async def test_no_other_route_is_passed_on(rig: Rig, method: str, route: str) -> None:
    """Nothing that changes anything, and nothing that the page does not need, whatever is put into a path."""
    assert isinstance(rig.story, Elastic)
    async with rig.serving(), relaying(rig) as port:
        stream = await connected(port, f"{method} /{TOKEN}{route} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        status = (await until(stream, lambda text: b"\r\n" in text)).split()[1]
        assert status in (b"400", b"404", b"405")
        await stream.aclose()
    assert rig.asked == []


async def test_a_name_or_another_origin_is_refused(rig: Rig) -> None:
    """Also with the token: a page of another site may have learned it."""
    async with rig.serving(), relaying(rig) as port:
        assert (await ask(port, "GET", f"/{TOKEN}/", host="evil.example"))[0] == 400
        assert (await ask(port, "GET", f"/{TOKEN}/v1/history", origin="http://evil.example"))[0] == 403
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
        assert (await ask(port, "GET", f"/{TOKEN}/page.js", **headers))[0] == 403
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
        for path in ("", "v1/live", "v1/history"):
            assert (await ask(port, "GET", f"/{TOKEN}/{path}", **headers))[0] == 403


async def test_what_is_followed_is_passed_on_and_ends_with_the_daemon(rig: Rig) -> None:
    """The stream as it comes; once the daemon is gone it ends, the files stay, and questions are 503."""
    log = StringIO()
    async with relaying(rig, log) as port:
        async with rig.serving():
            stream = await connected(port, f"GET /{TOKEN}/v1/live HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            await until(stream, lambda text: b"event: status" in text)
            rig.story.arrive("web")
            rig.story.settle()
            rig.tell()
            await until(stream, lambda text: b'"web"' in text)
        with trio.fail_after(5):
            async for _ in stream:
                pass
        await stream.aclose()
        assert (await ask(port, "GET", f"/{TOKEN}/"))[0] == 200
        assert (await ask(port, "GET", f"/{TOKEN}/v1/live"))[0] == 503
        assert (await ask(port, "GET", f"/{TOKEN}/v1/history"))[0] == 503
    assert log.getvalue() == ""


async def test_a_page_that_is_closed_leaves_nothing_open_at_the_daemon(rig: Rig) -> None:
    """Its place is free again, as soon as it is noticed: within a fifth of a second on each side."""
    async with rig.serving(), relaying(rig) as port:
        opened = 0
        with trio.fail_after(20):
            while opened < 2 * MOST_PAGES:
                stream = await connected(port, f"GET /{TOKEN}/v1/live HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
                seen = await until(stream, lambda text: b"event: status" in text or b" 503 " in text)
                opened += b"event: status" in seen
                await stream.aclose()


async def test_half_open_connections_and_slow_readers_hold_up_no_page(rig: Rig) -> None:
    """A thousand that send half a head, and some that read nothing, beside one that reads: it goes on."""
    async with rig.serving(), relaying(rig) as port:
        page = await connected(port, f"GET /{TOKEN}/v1/live HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        await until(page, lambda text: b"event: status" in text)
        slow = []
        for _ in range(8):
            deaf = trio.socket.socket()
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            await deaf.connect(("127.0.0.1", port))
            await deaf.send(f"GET /{TOKEN}/v1/live HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            slow.append(deaf)
        half = []
        for _ in range(1000):
            half.append(await trio.open_tcp_stream("127.0.0.1", port))
            await half[-1].send_all(b"GET /")
        assert len(half) > MOST
        rig.story.arrive("web")
        rig.story.settle()
        rig.tell()
        with trio.fail_after(20):
            await until(page, lambda text: b'"web"' in text)
            assert (await ask(port, "GET", f"/{TOKEN}/"))[0] == 200
            assert (await rig.ask("GET", "/readyz"))[0] == 200
        for each in (page, *half):
            await trio.aclose_forcefully(each)
        for deaf in slow:
            deaf.close()
