"""The API with clients that err, stay, read nothing or send rubbish: it goes on, and does not delay the daemon's
end.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path
from random import Random
from urllib.parse import quote

import pytest
import trio
import trio.testing

from sidecar.api.unix_socket import NAME, listening
from sidecar.decide.facts import DefragmentRequested
from sidecar.failures import ConfigError, StateUnwritable
from sidecar.status import present_status
from tests.api.apirig import Rig, until

pytestmark = pytest.mark.trio


async def test_the_end_does_not_wait_for_anybody(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that follow events, that read nothing of a long answer, that are silent, that sent half a request."""
    monkeypatch.setattr("sidecar.api.http_connection.SEND_SECONDS", 3600)
    rig.board.report("long", "x" * 20_000_000)
    with trio.fail_after(60):
        async with rig.serving():
            for stream in [await rig.send(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n") for _ in range(10)]:
                await until(stream, lambda text: b": following" in text)
            deaf = await rig.send(b"GET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n")
            await until(deaf, lambda text: b"200" in text)
            for text in (b"G", b"POST /v1/defragment HTTP/1.1\r\ncontent-length: 9\r\n"):
                await rig.send(text)
    assert NAME not in os.listdir(rig.directory)


async def test_a_client_that_reads_nothing_is_left(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while its connection is closed, and others are answered all the time."""
    monkeypatch.setattr("sidecar.api.http_connection.SEND_SECONDS", 0.05)
    rig.board.report("long", "x" * 20_000_000)
    async with rig.serving():
        deaf = await rig.send(b"GET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n")
        await until(deaf, lambda text: b"200" in text)
        assert (await rig.ask("GET", "/readyz"))[0] == 200
        with trio.fail_after(20):
            size = 0
            while chunk := await deaf.receive_some(65536):
                size += len(chunk)
                await trio.sleep(0.1 if size < 10**6 else 0)
        assert size < 20_000_000


@pytest.mark.parametrize(
    ("method", "route", "body", "code"),
    [
        ("POST", "/v1/containers/man/resize", b"", 400),
        ("POST", "/v1/containers/man/resize", b"{", 400),
        ("POST", "/v1/containers/man/resize", b"\xff\xfe", 400),
        ("POST", "/v1/containers/man/resize", b"[3]", 400),
        ("POST", "/v1/containers/man/resize", b'{"cpus":"3"}', 400),
        ("POST", "/v1/containers/man/resize", b'{"cpus":3.5}', 400),
        ("POST", "/v1/containers/man/resize", b'{"cpus":true}', 400),
        ("POST", "/v1/containers/man/resize", b'{"cpus":null}', 400),
        ("POST", "/v1/containers/man/resize", b'{"cpus":1e999}', 400),
        ("POST", "/v1/containers/man/resize", b'{"cpus":' + b"9" * 4000 + b"}", 400),
        ("POST", "/v1/containers/man/resize", b'{"cpus":3,"force":true}', 400),
        ("POST", "/v1/containers/man/resize", b'{"x":' + b"[" * 2000, 400),
        ("POST", "/v1/containers/man/resize", b"{}" + b" " * 5000, 413),
        ("POST", "/v1/containers/batch/ack", b'{"number":"one"}', 400),
        ("POST", "/v1/defragment", b"now", 400),
        ("POST", "/v1/containers/nobody/resize", b'{"cpus":3}', 404),
        ("POST", "/v1/containers/0/resize", b'{"cpus":3}', 404),
        ("GET", "/v1/containers/mann", b"", 404),
        ("GET", "/v1/containers/", b"", 404),
        ("GET", f"/v1/containers/{quote('../../etc/passwd', safe='')}", b"", 404),
        ("GET", "/v1/containers/%00%ff%1b[2J", b"", 404),
        ("GET", "/v1/containers/" + "x" * 8000, b"", 404),
        ("GET", "/v1/containers/man/resize", b"", 405),
        ("DELETE", "/v1/state", b"", 405),
        ("POST", "/v1/state", b"", 405),
        ("GET", "/v2", b"", 404),
        ("GET", "/v1/state/", b"", 404),
        ("GET", "//v1/state", b"", 404),
    ],
)
async def test_what_is_wrong_is_told_as_json(rig: Rig, method: str, route: str, body: bytes, code: int) -> None:
    """Never 500, and nothing is changed."""
    async with rig.serving():
        answered, told = await rig.ask(method, route, body)
        assert (answered, list(told)) == (code, ["error"])
        assert (await rig.ask("GET", "/readyz"))[0] == 200
    assert rig.asked == []
    assert rig.lines.getvalue() == ""


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /v1/state HTTP/1.1\r\nhost: x\r\n" + b"a: " + b"b" * 100_000 + b"\r\n\r\n",
        b"POST /v1/defragment HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/defragment HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100,
        b"GET /v1/events HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    ],
)
async def test_what_is_no_request_harms_no_other_client(rig: Rig, request_bytes: bytes) -> None:
    """The connection ends, others go on."""
    async with rig.serving():
        stream = await rig.send(request_bytes)
        await stream.send_eof()
        with trio.fail_after(20):
            with contextlib.suppress(trio.BrokenResourceError):
                while await stream.receive_some(65536):
                    pass
        assert (await rig.ask("GET", "/readyz"))[0] == 200
    assert rig.asked == []


REQUESTS = (
    b"GET /v1/state HTTP/1.1\r\nhost: x\r\n\r\n",
    b'POST /v1/containers/man/resize HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{"cpus":9}',
    b"POST /v1/defragment HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n",
    b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /v1/state HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\nhttp2-settings: AAMA\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + bytes.fromhex("00000004000000000000000e01050000000182448763b858424692ff864181f3"),
    b"HEAD /metrics HTTP/1.0\r\n\r\n",
    b"POST /v1/defragment HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n",
)


def mutated(chance: Random) -> bytes:
    """Draw one or several of these requests, with a few bytes changed, missing or added."""
    text = bytearray(chance.choice(REQUESTS))
    for _ in range(chance.choice((0, 1, 2, 5))):
        place = chance.randrange(len(text) + 1)
        match chance.randrange(4):
            case 0:
                text[place:place] = chance.randbytes(chance.randrange(8))
            case 1:
                del text[place : place + chance.randrange(8)]
            case 2:
                text += chance.choice(REQUESTS)
            case _:
                text[place : place + 1] = chance.randbytes(1)
    return bytes(text)


async def test_rubbish_neither_ends_the_server_nor_keeps_a_place(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of broken requests in pieces, half closed or hung up: all of their tasks end, others are answered."""
    monkeypatch.setattr("sidecar.api.http_connection.HEAD_SECONDS", 0.3)
    chance = Random(7)
    async with rig.serving():
        assert (await rig.ask("GET", "/readyz"))[0] == 200
        before = trio.lowlevel.current_statistics().tasks_living
        for _ in range(400):
            text = mutated(chance)
            stream = await trio.open_unix_socket(rig.path)
            async with stream:
                with contextlib.suppress(trio.BrokenResourceError):
                    await stream.send_all(text[: len(text) // 2])
                    await stream.send_all(text[len(text) // 2 :])
                    if chance.random() < 0.5:
                        await stream.send_eof()
                    with trio.move_on_after(0.005):
                        await stream.receive_some(chance.choice((1, 65536)))
        with trio.fail_after(30):
            while trio.lowlevel.current_statistics().tasks_living > before:  # noqa: ASYNC110 - they end by themselves
                await trio.sleep(0.01)
        assert (await rig.ask("GET", "/readyz"))[0] == 200
    assert [fact for fact in rig.asked if not isinstance(fact, DefragmentRequested)] == []
    assert rig.lines.getvalue() == ""


async def test_a_failure_of_our_own_is_500_and_in_the_log(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """As JSON, and the daemon goes on."""

    def fail(*_: object, **__: object) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(present_status, "status_of", fail)
    async with rig.serving():
        code, told = await rig.ask("GET", "/v1/status")
        assert (code, told) == (500, {"error": "the sidecar failed to answer: its log says why"})
        assert (await rig.ask("GET", "/readyz"))[0] == 200
    assert "the API failed to answer" in rig.lines.getvalue()
    assert "ValueError: planted" in rig.lines.getvalue()


async def test_the_socket_is_its_owners_alone_and_gone_afterwards(tmp_path: Path) -> None:
    """Whatever the umask; a stale one is replaced."""
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(tmp_path / NAME))
    stale.close()
    before = os.umask(0)
    try:
        with listening(str(tmp_path)):
            assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert not (tmp_path / NAME).exists()


async def test_a_socket_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """A path that is too long, with its cure; another file in its place, which is left alone."""
    deep = tmp_path / ("x" * 100)
    with pytest.raises(ConfigError, match=r"bytes, and the path of a socket at most 107: choose a shorter state_dir"):
        listening(str(deep)).__enter__()
    (tmp_path / NAME).write_text("mine")
    with pytest.raises(StateUnwritable, match="cannot be made: Address already in use"):
        listening(str(tmp_path)).__enter__()
    assert (tmp_path / NAME).read_text() == "mine"
