"""A proxy in front of a real engine that lies, drops and delays: on a Unix socket, with a thread per connection.

Every request gets a connection of its own to the engine and gets the engine's answer, unless `choose` names a fault for
it. What a fault does *after* forwarding is the half-failure: the engine acted, and the client gets an error.
"""

from __future__ import annotations

import enum
import random
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

_CHUNK: Final = 64 * 1024
_HEAD_BYTES: Final = 64 * 1024
_DELAY_SECONDS: Final = 0.4
_STREAM_SECONDS: Final = 1.0
_TORN_BYTES: Final = 700
"""In the middle of the first event after the head, which has some 200 bytes."""


class Fault(enum.Enum):
    """What goes wrong with one request."""

    FAIL = "500, and the engine never hears of it"
    HALF_FAIL = "the engine does it, and the answer is 500"
    CUT = "the engine does it, and the connection ends without an answer"
    DELAY = "the request comes late"
    GARBAGE = "the engine does it, and the answer is half a document"
    PAGE = "an HTML page of somebody in between"
    PAGE_200 = "the same, and calls itself a success"
    TORN = "an event stream ends in the middle of a line"
    SHORT = "an event stream ends after a second"


OF_STREAMS: Final = (Fault.FAIL, Fault.PAGE, Fault.DELAY, Fault.TORN, Fault.SHORT)
OF_REQUESTS: Final = tuple(each for each in Fault if each not in (Fault.TORN, Fault.SHORT))

_VERSION: Final = re.compile(r"^/v[0-9.]+(/libpod)?(?=/)")
"""What stands before the paths that both engines' routes have."""

_PAGE: Final = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502</h1></body></html>"
_FORWARDS: Final = (Fault.HALF_FAIL, Fault.CUT, Fault.GARBAGE)

Choose = Callable[[str, str], Fault | None]
"""From a method and a path without its version to what goes wrong."""


def nothing(_method: str, _path: str) -> Fault | None:
    """Choose no fault."""
    return None


def at_random(seed: int, rate: float) -> Choose:
    """Choose any fault, with this probability; more often for streams, which are few."""
    rng = random.Random(seed)

    def choose(_method: str, path: str) -> Fault | None:
        is_stream = path.startswith("/events")
        if rng.random() > (0.8 if is_stream else rate):
            return None
        return rng.choice(OF_STREAMS if is_stream else OF_REQUESTS)

    return choose


class FaultProxy:
    """Make it, point a client at `path`, change `choose` at any time, `close` it."""

    def __init__(self, engine_socket: str, path: Path) -> None:
        self.path = str(path)
        self.choose: Choose = nothing
        self.done: Counter[Fault] = Counter()
        """How often each fault was."""
        self._engine_socket = engine_socket
        self._streams: set[socket.socket] = set()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(128)
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def close(self) -> None:
        """Close the proxy, and every connection."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_streams()

    def cut_streams(self) -> None:
        """Cut everything that is being relayed now, above all event streams."""
        for each in list(self._streams):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), name="proxied", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            request = _request(client)
            if request is None:
                return
            method, path = request.split(b"\r\n", 1)[0].decode("latin-1").split(" ")[:2]
            fault = self.choose(method, _VERSION.sub("", path))
            if fault is not None:
                self.done[fault] += 1
            if fault is Fault.DELAY:
                time.sleep(_DELAY_SECONDS)
            if fault in (None, Fault.DELAY, Fault.TORN, Fault.SHORT):
                self._relay(client, request, fault)
                return
            if fault in _FORWARDS:
                self._swallow(request)
            client.sendall(_instead(fault))

    def _relay(self, client: socket.socket, request: bytes, fault: Fault | None) -> None:
        """Relay the engine's answer as it arrives, or the beginning of it."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as engine:
            engine.connect(self._engine_socket)
            engine.sendall(request)
            self._streams |= {client, engine}
            threading.Thread(target=_until_gone, args=(client, engine), daemon=True).start()
            deadline = time.monotonic() + _STREAM_SECONDS if fault is Fault.SHORT else None
            left = _TORN_BYTES if fault is Fault.TORN else None
            try:
                while left is None or left > 0:
                    engine.settimeout(max(0.001, deadline - time.monotonic()) if deadline else None)
                    chunk = engine.recv(_CHUNK if left is None else left)
                    if not chunk:
                        return
                    client.sendall(chunk)
                    left = None if left is None else left - len(chunk)
            finally:
                self._streams -= {client, engine}
                for each in (client, engine):
                    with suppress(OSError):
                        each.shutdown(socket.SHUT_RDWR)

    def _swallow(self, request: bytes) -> None:
        """Let the engine act, and drop the answer."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as engine:
            engine.connect(self._engine_socket)
            engine.sendall(request)
            while engine.recv(_CHUNK):
                pass


def _instead(fault: Fault | None) -> bytes:
    match fault:
        case Fault.FAIL | Fault.HALF_FAIL:
            return _answer(b"500 Internal Server Error", b"application/json", b'{"message":"the proxy fails it"}')
        case Fault.GARBAGE:
            return _answer(b"200 OK", b"application/json", b'{"Id":"abc","Warnings":[{')
        case Fault.PAGE:
            return _answer(b"502 Bad Gateway", b"text/html", _PAGE)
        case Fault.PAGE_200:
            return _answer(b"200 OK", b"text/html", _PAGE)
        case _:
            return b""


def _answer(status: bytes, kind: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    return head % (status, kind, len(body)) + body


def _request(client: socket.socket) -> bytes | None:
    """Read one whole request, and make it ask the engine to close its connection afterwards; None if there is none."""
    read = b""
    while b"\r\n\r\n" not in read:
        chunk = client.recv(_CHUNK)
        if not chunk or len(read) > _HEAD_BYTES:
            return None
        read += chunk
    head, body = read.split(b"\r\n\r\n", 1)
    first, *fields = head.split(b"\r\n")
    kept = [each for each in fields if each.partition(b":")[0].lower() != b"connection"]
    sizes = [int(each.partition(b":")[2]) for each in fields if each.lower().startswith(b"content-length:")]
    while len(body) < sum(sizes[:1]):
        chunk = client.recv(_CHUNK)
        if not chunk:
            return None
        body += chunk
    return b"\r\n".join([first, *kept, b"Connection: close", b"", body])


def _until_gone(client: socket.socket, engine: socket.socket) -> None:
    """Wait until the client has hung up."""
    with suppress(OSError):
        while client.recv(_CHUNK):
            pass
        engine.shutdown(socket.SHUT_RDWR)
