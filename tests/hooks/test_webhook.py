"""The webhook of a hook, against real sockets: what is sent, what counts as success, and that nothing holds it up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from sidecar.hooks.webhook import ask_webhook

pytestmark = pytest.mark.trio

Serve = Callable[[trio.SocketStream], Awaitable[None]]


@asynccontextmanager
async def served(serve: Serve) -> AsyncIterator[str]:
    """Serve on a port of the loopback address; yield its address."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        yield f"http://127.0.0.1:{port}"
        nursery.cancel_scope.cancel()


def answering(answer: bytes, seen: bytearray | None = None) -> Serve:
    async def serve(stream: trio.SocketStream) -> None:
        asked = bytearray() if seen is None else seen
        while b"\r\n\r\n" not in asked or not asked.endswith(b"}"):
            asked += await stream.receive_some(65536)
        await stream.send_all(answer)
        await stream.aclose()

    return serve


async def test_it_posts_the_document() -> None:
    """By HTTP/1.1, to the path and query of the address, as JSON of known length."""
    seen = bytearray()
    async with served(answering(b"HTTP/1.1 204 No Content\r\n\r\n", seen)) as address:
        assert await ask_webhook(f"{address}/a/b?c=d", b'{"events":[]}', 20) == ""
    head, _, body = bytes(seen).partition(b"\r\n\r\n")
    assert head.startswith(b"POST /a/b?c=d HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nContent-Length: 13\r\n" in head
    assert body == b'{"events":[]}'


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_000_000, ""),
        (b"HTTP/1.0 500 Oh\r\n\r\n", "it answered 500"),
        (b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\n\r\n", "it answered 302"),
        (b"220 mail.example.com\r\n", "it does not speak HTTP"),
        (b"x" * 100_000, "it does not speak HTTP"),
        (b"", "it gave no answer"),
    ],
)
async def test_success_is_a_code_from_200_to_299(answer: bytes, reason: str) -> None:
    async with served(answering(answer)) as address:
        assert await ask_webhook(address, b"{}", 20) == reason


async def test_a_server_that_says_nothing_costs_its_limit() -> None:
    async def silent(_: trio.SocketStream) -> None:
        await trio.sleep_forever()

    async with served(silent) as address:
        with trio.fail_after(20):
            assert await ask_webhook(address, b"{}", 0.3) == "it did not answer within 0.3 s"


async def test_a_port_where_nobody_listens_has_its_reason() -> None:
    async with served(answering(b"")) as address:
        pass
    assert (await ask_webhook(address, b"{}", 20)).startswith("it cannot be reached: ")


async def test_a_server_without_tls_is_no_secure_one() -> None:
    async with served(answering(b"HTTP/1.1 200 OK\r\n\r\n}")) as address:
        failed = await ask_webhook(address.replace("http:", "https:"), b"{}", 5)
    assert failed
