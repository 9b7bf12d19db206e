"""RawDaemon: raw bytes over a socket in place of an engine, for malformed answers that real engines sometimes give.

One thread accepts, and one thread per connection answers its requests in turn. The answer to a path is a script: bytes
to send, or a function that receives the connection and may send, wait and hang up.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

Script = bytes | Callable[["Connection"], None]

VERSION = {"Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12", "Components": [{"Name": "Engine"}]}
INFO = {"NCPU": 2, "CPUSet": True, "CgroupVersion": "1", "CgroupDriver": "cgroupfs", "LiveRestoreEnabled": False}
NO_CONTAINER = {"message": "No such container: x"}


def answer(status: int, body: object, kind: str = "application/json") -> bytes:
    """Return a complete answer; `body` is bytes to send unchanged, or a value to encode as JSON."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} Word\r\nContent-Type: {kind}\r\nContent-Length: {len(raw)}\r\n\r\n"
    return head.encode() + raw


def chunk(body: bytes) -> bytes:
    """Return a piece of a chunked body."""
    return f"{len(body):x}\r\n".encode() + body + b"\r\n"


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
END_OF_STREAM = b"0\r\n\r\n"


class Connection:
    """One client's connection, for scripts."""

    def __init__(self, sock: socket.socket, closing: threading.Event) -> None:
        self._sock = sock
        self.closing = closing
        self.is_open = True

    def send(self, data: bytes) -> None:
        """Send bytes unchanged; do nothing if the client has gone."""
        try:
            self._sock.sendall(data)
        except OSError:
            self.is_open = False

    def hang(self) -> None:
        """Send nothing more until the client goes or the daemon is closed."""
        try:
            while not self.closing.is_set() and self._sock.recv(1024):
                pass
        except OSError:
            pass
        self.is_open = False

    def cut(self) -> None:
        """Hang up."""
        self.is_open = False


class RawDaemon:
    """Answers by script; `with RawDaemon(path) as daemon`. Paths are without version and query: `/info`."""

    def __init__(self, path: Path | None) -> None:
        """Listen on a Unix socket at `path`, or on a port of the loopback."""
        self.requests: list[str] = []
        """Method and path of each request, with version and query."""
        self.scripts: dict[str, Script] = {
            "/version": answer(200, VERSION),
            "/info": answer(200, INFO),
            "/containers/" + "0" * 64 + "/update": answer(404, NO_CONTAINER),
        }
        self._closing = threading.Event()
        if path is not None:
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._listener.bind(str(path))
            self.address = f"unix://{path}"
        else:
            self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self._listener.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._listener.listen(64)
        self._sockets: list[socket.socket] = []
        self.threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> RawDaemon:
        self.threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def open_connections(self) -> int:
        """Return how many clients are connected now."""
        return sum(thread.is_alive() for thread in self.threads) - 1

    def kill(self) -> None:
        """Close everything and wait for the threads."""
        self._closing.set()
        for sock in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(10)
        for sock in [self._listener, *self._sockets]:
            sock.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock,))
            self.threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        connection = Connection(sock, self._closing)
        try:
            with sock.makefile("rb") as reader:
                while connection.is_open and (first := reader.readline().decode()):
                    method, target, _ = first.split(" ")
                    length = 0
                    while (line := reader.readline().strip().lower()) != b"":
                        if line.startswith(b"content-length:"):
                            length = int(line.partition(b":")[2])
                    reader.read(length)
                    self.requests.append(f"{method} {target}")
                    self._answer(connection, target)
        except OSError:
            pass
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    def _answer(self, connection: Connection, target: str) -> None:
        path = target.partition("?")[0]
        first, _, rest = path.lstrip("/").partition("/")
        script = self.scripts.get(
            f"/{rest}" if first.startswith("v1.") else path, answer(404, b"404 page", "text/plain")
        )
        if callable(script):
            script(connection)
        else:
            connection.send(script)
