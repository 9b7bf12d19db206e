"""One HTTP/1.1 connection on a stream in memory, in virtual time: the protocol, its bounds, and arbitrary bytes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from io import StringIO

import hypothesis.strategies as st
import pytest
import trio
import trio.testing
from hypothesis import example, given, settings
from trio.testing import MockClock

from sidecar.api.documents import Declined
from sidecar.api.http_connection import (
    AHEAD,
    BODY_SECONDS,
    CLOSE_SECONDS,
    HEAD_SECONDS,
    MAX_HEAD,
    HttpConnection,
)
from sidecar.api.routing import Answer, Following, Question, Route, RouteTable
from sidecar.api.tcp_listener import Access
from sidecar.log import Log

SLOW_SECONDS = 3


async def ready(_: Question) -> Answer:
    return Answer(b"ready")


async def size(question: Question) -> Answer:
    return Answer(str(len(question.body)).encode())


async def slow(_: Question) -> Answer:
    await trio.sleep(SLOW_SECONDS)
    return Answer(b"slow")


async def declined(_: Question) -> Answer:
    raise Declined(409, "not now")


async def broken(_: Question) -> Answer:
    raise ValueError("planted")


async def parts() -> AsyncIterator[bytes]:
    for number in range(5):
        yield b"part %d\n" % number
        await trio.sleep(1)
    await trio.sleep_forever()


async def follow(_: Question) -> Following:
    return Following(parts(), "text/plain")


TABLE = RouteTable(
    (
        Route("GET", "/ready", ready),
        Route("POST", "/size", size, most_body=100),
        Route("GET", "/slow", slow),
        Route("GET", "/declined", declined),
        Route("GET", "/broken", broken),
        Route("GET", "/follow", follow, places=1, crowded="too many"),
    ),
    Access.ALL,
)

READY = b"GET /ready HTTP/1.1\r\nhost: x\r\n\r\n"


def sized(size: int) -> bytes:
    """Return a request whose head has so many bytes."""
    begun = READY.removesuffix(b"\r\n") + b"a: "
    return begun + b"b" * (size - len(begun) - 4) + b"\r\n\r\n"


class Talk:
    """The bytes received on a connection, its duration in seconds, and the log."""

    def __init__(self) -> None:
        self.received = b""
        self.seconds = 0.0
        self.lines = StringIO()

    @property
    def statuses(self) -> list[int]:
        return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d\d\d) ", self.received)]


async def talk(*chunks: bytes, half_closed: bool = False, waits: bool = True) -> Talk:
    """Send these, each read before the next; then read to the end, or hang up if the client does not wait."""
    told, began = Talk(), trio.current_time()
    client, server = trio.testing.memory_stream_pair()
    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(HttpConnection(server, TABLE, lambda route, peer: False, Log(told.lines)).serve)
            with contextlib.suppress(trio.BrokenResourceError):
                for chunk in chunks:
                    await client.send_all(chunk)
                    await trio.testing.wait_all_tasks_blocked()
                if half_closed:
                    await client.send_eof()
                if waits:
                    told.received = b"".join([chunk async for chunk in client])
            await client.aclose()
    told.seconds = trio.current_time() - began
    return told


@pytest.mark.trio
async def test_requests_follow_each_other_on_one_connection(autojump_clock: MockClock) -> None:
    """Sent at once or one by one; also after a refusal, whose body is skipped."""
    posted = b"POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc"
    for chunks in ((READY * 3 + posted + READY,), (READY, READY, READY, posted[:-1], posted[-1:] + READY)):
        told = await talk(*chunks)
        assert told.statuses == [200, 200, 200, 404, 200]
        assert told.received.endswith(b"\r\n\r\nready")


@pytest.mark.trio
@pytest.mark.parametrize(
    ("request_bytes", "statuses", "part"),
    [
        (b"HEAD /ready HTTP/1.1\r\nhost: x\r\n\r\n", [200], b"content-length: 5\r\n\r\n"),
        (b"HEAD /follow HTTP/1.1\r\nhost: x\r\n\r\n", [200], b"chunked\r\n\r\n"),
        (b"GET /ready HTTP/1.0\r\n\r\n" + READY, [200], b"Connection: close\r\n\r\nready"),
        (READY.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n") + READY, [200], b"ready"),
        (b"OPTIONS /ready HTTP/1.1\r\nhost: x\r\n\r\n", [405], b"allow: GET, HEAD\r\n"),
        (b"GET /size HTTP/1.1\r\nhost: x\r\n\r\n", [405], b"allow: POST\r\n"),
        (b"OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n", [404], b"no such route"),
        (b"CONNECT a:1 HTTP/1.1\r\nhost: x\r\n\r\n", [404], b"no such route"),
        (b"GET /declined HTTP/1.1\r\nhost: x\r\n\r\n", [409], b'{"error":"not now"}'),
        (b"GET http://other/ready HTTP/1.1\r\nhost: x\r\n\r\n", [200], b"ready"),
        (b"GET /ready?then=now HTTP/1.1\r\nhost: x\r\n\r\n", [200], b"ready"),
        (READY.replace(b"host: x", b"host: x\r\nconnection: upgrade\r\nupgrade: h2c") + READY, [200, 200], b"ready"),
        (b"GET /ready HTTP/1.1\r\n\r\n", [400], b"Host"),
        (b"GET /ready HTTP/2.0\r\nhost: x\r\n\r\n", [505], b"only HTTP/1.1"),
        (b"GET /ready HTTP/1.2\r\nhost: x\r\n\r\n" + READY, [200, 200], b"ready"),
        (b"GET /ready HTTP/1.1\r\nhost: x\r\na: " + b"b" * 3 * MAX_HEAD, [431], b"the head has more than"),
        (READY + sized(MAX_HEAD) + sized(MAX_HEAD), [200, 200, 200], b"ready"),
        (READY + sized(MAX_HEAD + 1) + READY, [200, 431], b"the head has more than 16384 bytes"),
        (sized(2 * MAX_HEAD - 1), [431], b"the head has more than 16384 bytes"),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", [400], b'HTTP/1.1: illegal request line"}'),
    ],
)
async def test_what_a_request_without_a_body_is_answered(
    autojump_clock: MockClock, request_bytes: bytes, statuses: list[int], part: bytes
) -> None:
    """The connection stays open exactly where another request may follow."""
    told = await talk(request_bytes)
    assert (told.statuses, part in told.received) == (statuses, True)
    assert told.lines.getvalue() == ""


@pytest.mark.trio
@pytest.mark.parametrize(
    ("head", "body", "statuses"),
    [
        (b"content-length: 3", b"abc", [200, 200]),
        (b"content-length: 101", b"", [413]),
        (b"content-length: 101", b"a" * 101, [413]),
        (b"content-length: 99999999999999999999999", b"", [400]),
        (b"content-length: -1", b"", [400]),
        (b"content-length: 3\r\ncontent-length: 4", b"abc", [400]),
        (b"content-length: 3\r\ntransfer-encoding: chunked", b"0\r\n\r\n", [400]),
        (b"transfer-encoding: chunked", b"3\r\nabc\r\n0\r\n\r\n", [200, 200]),
        (b"transfer-encoding: chunked", b"65\r\n" + b"a" * 101 + b"\r\n0\r\n\r\n", [413]),
        (b"transfer-encoding: chunked", b"ZZ\r\n", [400]),
        (b"transfer-encoding: gzip", b"", [501]),
        (b"expect: 100-continue\r\ncontent-length: 3", b"abc", [100, 200, 200]),
        (b"expect: 100-continue\r\ncontent-length: 101", b"", [413]),
    ],
)
async def test_a_body_has_its_bound_and_one_length(
    autojump_clock: MockClock, head: bytes, body: bytes, statuses: list[int]
) -> None:
    """A body that is too long, or of unsure length, ends the connection: the rest of it is never read as a request."""
    told = await talk(b"POST /size HTTP/1.1\r\nhost: x\r\n" + head + b"\r\n\r\n", body, READY)
    assert told.statuses == statuses
    assert told.received.count(b"connection: close") == (statuses[-1] != 200)


@pytest.mark.trio
@pytest.mark.parametrize(
    ("chunks", "statuses", "seconds"),
    [
        ((), [], HEAD_SECONDS),
        ((b"GET /re",), [], HEAD_SECONDS),
        ((READY,), [200], HEAD_SECONDS),
        ((b"POST /size HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\na",), [408], BODY_SECONDS),
        ((b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n",), [200], SLOW_SECONDS + HEAD_SECONDS),
    ],
)
async def test_each_part_of_a_request_has_its_time(
    autojump_clock: MockClock, chunks: Sequence[bytes], statuses: list[int], seconds: float
) -> None:
    """Silence ends a connection, wherever it begins; an answer may take as long as its route needs."""
    told = await talk(*chunks)
    assert told.statuses == statuses
    assert seconds <= told.seconds <= seconds + 2 * CLOSE_SECONDS


@pytest.mark.trio
async def test_a_byte_now_and_then_does_not_keep_a_connection(autojump_clock: MockClock) -> None:
    """The time limit is for the head as a whole."""
    client, server = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(HttpConnection(server, TABLE, lambda route, peer: False, Log(StringIO())).serve)
        sent = 0
        with contextlib.suppress(trio.BrokenResourceError):
            for byte in READY:
                await client.send_all(bytes([byte]))
                await trio.sleep(1)
                sent += 1
    assert sent <= HEAD_SECONDS + 1


@pytest.mark.trio
@pytest.mark.parametrize("route", [b"slow", b"follow"])
@pytest.mark.parametrize("half_closed", [True, False])
async def test_a_client_that_goes_away_ends_its_request(
    autojump_clock: MockClock, route: bytes, *, half_closed: bool
) -> None:
    """Also behind data that it sent ahead."""
    request = b"GET /" + route + b" HTTP/1.1\r\nhost: x\r\n\r\n"
    for chunks in ((request,), (request, READY * 3)):
        told = await talk(*chunks, half_closed=half_closed, waits=half_closed)
        assert told.seconds <= 2 * CLOSE_SECONDS
        assert told.lines.getvalue() == ""


@pytest.mark.trio
async def test_a_half_closed_client_is_still_answered(autojump_clock: MockClock) -> None:
    """It finished sending, and still reads."""
    told = await talk(READY * 2, half_closed=True)
    assert (told.statuses, told.seconds) == ([200, 200], 0)


@pytest.mark.trio
async def test_what_is_sent_ahead_is_bounded(autojump_clock: MockClock) -> None:
    """A flood behind a slow request stays in the kernel."""
    client, server = trio.testing.memory_stream_pair()
    connection = HttpConnection(server, TABLE, lambda route, peer: False, Log(StringIO()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve)
        await client.send_all(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n")
        for _ in range(100):
            await client.send_all(b"x" * AHEAD)
            await trio.testing.wait_all_tasks_blocked()
        assert len(connection._http.trailing_data[0]) <= 3 * AHEAD
        connection.end()


@pytest.mark.trio
async def test_an_answer_without_an_end_comes_in_parts(autojump_clock: MockClock) -> None:
    """In chunks for HTTP/1.1, plain for HTTP/1.0."""
    for version, part in ((b"1.1", b"7\r\npart 4\n\r\n"), (b"1.0", b"\npart 4\n")):
        client, server = trio.testing.memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(HttpConnection(server, TABLE, lambda route, peer: False, Log(StringIO())).serve)
            await client.send_all(b"GET /follow HTTP/" + version + b"\r\nhost: x\r\n\r\n")
            with trio.move_on_after(6):
                seen = b""
                while True:
                    seen += await client.receive_some()
            await client.aclose()
        assert part in seen


@pytest.mark.trio
async def test_a_crowded_route_says_so(autojump_clock: MockClock) -> None:
    """And the connection stays."""
    client, server = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(HttpConnection(server, TABLE, lambda route, peer: True, Log(StringIO())).serve)
        await client.send_all(b"GET /follow HTTP/1.1\r\nhost: x\r\n\r\n" + READY)
        seen = b"".join([chunk async for chunk in client])
    assert b"503 Service Unavailable" in seen
    assert seen.endswith(b"ready")


@pytest.mark.trio
async def test_a_mistake_of_our_own_ends_one_connection(autojump_clock: MockClock) -> None:
    """With a 500, and in the log with its place."""
    told = await talk(b"GET /broken HTTP/1.1\r\nhost: x\r\n\r\n" + READY)
    assert told.statuses == [500]
    assert "ValueError: planted" in told.lines.getvalue()


REQUESTS = (
    READY,
    b"POST /size HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nabcde",
    b"POST /size HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nend: y\r\n\r\n",
    b"POST /size HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\nabcde",
    b"GET /follow HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /slow HTTP/1.0\r\n\r\n",
    b"HEAD http://x/ready HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """Draw requests, broken requests and rubbish, cut anywhere."""
    pieces = draw(st.lists(st.sampled_from(REQUESTS) | st.binary(max_size=40), max_size=5))
    text = bytearray(b"".join(pieces))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(text)))
        text[place : place + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    return [bytes(text[a:b]) for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(streams(), st.booleans(), st.booleans())
@example(chunks=[b"GET / HTTP/1.1\r\nhost: x\r\n", b"\r\n"], half_closed=True, waits=True)
@example(chunks=[REQUESTS[3][:-5], b"abcde" + READY], half_closed=False, waits=True)
@example(chunks=[REQUESTS[6] + b"\0"], half_closed=False, waits=False)
def test_no_bytes_at_all_break_a_connection(chunks: list[bytes], half_closed: bool, waits: bool) -> None:
    """It ends by itself, sends only answers of the protocol, and logs nothing; the next one is answered."""

    async def all_of_it() -> None:
        told = await talk(*chunks, half_closed=half_closed or b"follow" in b"".join(chunks), waits=waits)
        assert set(told.statuses) <= {100, 200, 400, 404, 405, 408, 413, 431, 501, 505}
        assert told.lines.getvalue() == ""
        assert (await talk(READY)).statuses == [200]

    trio.run(all_of_it, clock=MockClock(autojump_threshold=0))
