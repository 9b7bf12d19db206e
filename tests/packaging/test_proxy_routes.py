"""The proxy that is shipped lets through what the sidecar asks of an engine, and nothing else."""

from __future__ import annotations

import socket
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.haproxy import haproxy

ID: Final = "0123456789abcdef" * 4

ALLOWED: Final = (
    ("GET", "/_ping"),
    ("GET", "/version"),
    ("GET", "/v1.41/info"),
    ("GET", "/v1.41/events?since=1&filters=%7B%7D"),
    ("GET", "/v1.41/containers/json?all=1"),
    ("GET", f"/v1.41/containers/{ID}/json"),
    ("POST", f"/v1.41/containers/{ID}/update"),
    ("POST", f"/v1.41/containers/{ID}/stop"),
    ("POST", f"/v1.41/containers/{ID}/kill?signal=HUP"),
    ("GET", "/v4.0.0/libpod/info"),
    ("GET", f"/v4.0.0/libpod/containers/{ID}/exists"),
    ("POST", f"/v4.0.0/libpod/containers/{ID}/update"),
)

REFUSED: Final = (
    # What makes somebody with a socket root, or lets in on what a container does.
    ("POST", "/v1.41/containers/create"),
    ("POST", "/containers/create"),
    ("POST", f"/v1.41/containers/{ID}/start"),
    ("POST", f"/v1.41/containers/{ID}/exec"),
    ("POST", f"/v1.41/containers/{ID}/attach"),
    ("GET", f"/v1.41/containers/{ID}/archive?path=/etc"),
    ("GET", f"/v1.41/containers/{ID}/logs"),
    ("DELETE", f"/v1.41/containers/{ID}"),
    ("POST", "/v1.41/images/create?fromImage=x"),
    ("POST", "/v1.41/build"),
    ("POST", "/session"),
    ("POST", "/grpc"),
    ("GET", "/v1.41/secrets"),
    ("POST", "/v1.41/swarm/init"),
    ("POST", "/v4.0.0/libpod/containers/create"),
    # The right path by another method, and a wrong one that looks like a right one.
    ("POST", "/v1.41/info"),
    ("DELETE", "/v1.41/containers/json"),
    ("GET", f"/v1.41/containers/{ID}/update"),
    ("PUT", f"/v1.41/containers/{ID}/update"),
    ("POST", f"/v1.41/containers/{ID}/update/../../create"),
    ("GET", f"/v1.41/containers/{ID}/archive?x=/json"),
    ("GET", f"/v1.41/containers/{ID[:12]}/json/../archive"),
    ("GET", "/v1.41/containers/../secrets/json"),
    ("GET", f"/v1.41/containers/{ID}%2fexport%3f/json"),
    ("GET", "//v1.41/info"),
    ("GET", "/v1.41/info/"),
    ("GET", "http://engine/v1.41/containers/create"),
    ("POST", "/v1.41/containers/name-of-one/update"),
)


class Recorder(socketserver.ThreadingUnixStreamServer):
    """An engine that answers everything with 200, and keeps the heads that reach it."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.heads: list[str] = []
        super().__init__(str(path), Answer)


class Answer(socketserver.StreamRequestHandler):
    """One connection to it."""

    def handle(self) -> None:
        head = b""
        while (line := self.rfile.readline()) not in (b"\r\n", b""):
            head += line
        assert isinstance(self.server, Recorder)
        self.server.heads.append(head.decode())
        self.wfile.write(
            b"HTTP/1.1 200 OK\r\nLibpod-API-Version: 4.3.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )


@pytest.fixture(scope="module")
def engine() -> Iterator[tuple[Recorder, Path]]:
    """Provide the engine, and the socket of the proxy before it."""
    with tempfile.TemporaryDirectory(prefix="cpuset-proxy-") as folder:
        behind, before = Path(folder) / "engine.sock", Path(folder) / "proxy.sock"
        with Recorder(behind) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            with haproxy(behind, before):
                yield server, before
            server.shutdown()


def ask(path: Path, method: str, target: str, *headers: str) -> str:
    """Return the head of the answer to one request."""
    lines = [f"{method} {target} HTTP/1.1", "Host: engine", "Content-Length: 0", "Connection: close", *headers, "", ""]
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(path))
        client.sendall("\r\n".join(lines).encode())
        answer = b""
        while part := client.recv(65536):
            answer += part
    return answer.partition(b"\r\n\r\n")[0].decode()


@pytest.mark.parametrize(("method", "target"), ALLOWED)
def test_what_the_sidecar_asks_comes_through(engine: tuple[Recorder, Path], method: str, target: str) -> None:
    """On Docker's routes and Podman's, with all that the answer says."""
    server, path = engine
    answer = ask(path, method, target)
    assert answer.startswith("HTTP/1.1 200 ")
    assert "libpod-api-version: 4.3.1" in answer.lower()
    assert server.heads[-1].startswith(f"{method} {target} HTTP/1.1\r\n")


@pytest.mark.parametrize(("method", "target"), REFUSED)
def test_nothing_else_reaches_the_engine(engine: tuple[Recorder, Path], method: str, target: str) -> None:
    """However it is written."""
    server, path = engine
    before = len(server.heads)
    assert ask(path, method, target).startswith(("HTTP/1.1 403 ", "HTTP/1.1 400 "))
    assert len(server.heads) == before


def test_a_connection_stays_one_of_requests(engine: tuple[Recorder, Path]) -> None:
    """No other protocol is spoken through an allowed route."""
    server, path = engine
    answer = ask(path, "GET", "/v1.41/info", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
    assert answer.startswith("HTTP/1.1 200 ")
    assert "upgrade" not in server.heads[-1].lower()
    assert "http2" not in server.heads[-1].lower()


def test_a_second_request_in_the_body_is_none(engine: tuple[Recorder, Path]) -> None:
    """Length and chunks that contradict each other are refused, or read as one request."""
    server, path = engine
    smuggled = "0\r\n\r\nPOST /v1.41/containers/create HTTP/1.1\r\nHost: engine\r\nContent-Length: 0\r\n\r\n"
    before = len(server.heads)
    ask(path, "POST", f"/v1.41/containers/{ID}/update", "Transfer-Encoding: chunked", "", smuggled)
    assert not [head for head in server.heads[before:] if "create" in head.partition("\r\n")[0]]
