"""The question over the sidecar's Unix socket: one request of HTTP/1.1, asked again while a sidecar may be starting.

It runs under any Python from 3.9 on, without `http` and `socket`: they cost as much as all the rest.
"""

from __future__ import annotations

import _socket
import time

from .bundle import MOST_BYTES, StartRefused, loaded, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROUTE = "/v1/starts"
LIMIT_SECONDS = 45.0
"""Time limit of an answer, over all tries: longer than the sidecar itself holds a start."""

UNNEEDED_SECONDS = 3.0
"""The same for a container that asks for no CPUs: there is a standing order for it."""

RETRY_SECONDS = 0.02

MOST_SIZE_DIGITS = 9
"""Of the length of an answer, and of its status."""

STRICT, USUAL, HOOK = "strict", "usual", "hook"
"""The kinds of fronts: for containers that chose it, for all that start through an engine's own runtime, and Podman's
hook, which runs under each runtime.
"""

CURE = "start it (`cpuset-sidecar doctor` says what prevents it)"
ANOTHER = "choose another runtime for this container"
"""What else helps where a container has this one by choice: where it has not, that would lead around the front."""


class RuntimeSettings:
    """Settings of the installation: the real runtime, the sidecar's socket, the host's root of the projections (""
    mounts none), how many seconds to wait for a missing sidecar, and the kind of front.
    """

    def __init__(self, real: str, socket: str, projections: str, patience: str, kind: str = STRICT) -> None:
        self.real = real
        self.socket = socket
        self.projections = projections
        self.patience = float(patience)
        self.is_strict = kind != USUAL
        self.cure = f"{CURE}, or {ANOTHER}" if kind == STRICT else CURE


class KeptFromStarting(StartRefused):
    """The start was refused by a decision: that of a sidecar, or that a container which asks for CPUs needs one."""


def asked(settings: RuntimeSettings, body: bytes, *, is_needed: bool) -> dict[str, Any]:
    """Return the sidecar's answer. Raise KeptFromStarting with its reason, or with the cure if there is no answer that
    `is_needed`. Raise StartRefused at once if there is none that is not.
    """
    path, patience = settings.socket, settings.patience if is_needed else 0.0
    began = missing_since = time.monotonic()
    deadline = missing_since + (LIMIT_SECONDS if is_needed else UNNEEDED_SECONDS)
    while True:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            connection.connect(path)
            missing_since = 0.0
            return _answer(*_exchange(connection, body, deadline))
        except (FileNotFoundError, NotADirectoryError, ConnectionError, BlockingIOError, EOFError):
            # It is missing, or was killed: another one may be starting.
            missing_since = missing_since or time.monotonic()
        except _socket.timeout:
            kind = KeptFromStarting if is_needed else StartRefused
            raise kind(f"not started: the sidecar did not answer within {deadline - began:.0f} s") from None
        except PermissionError:
            raise StartRefused(f"not started: {path} can only be opened by its owner: run this as root") from None
        except OSError as error:
            raise StartRefused(f"not started: {path}: {error.strerror or error}; {settings.cure}") from error
        finally:
            connection.close()
        if time.monotonic() - missing_since >= patience or time.monotonic() >= deadline:
            kind = KeptFromStarting if is_needed else StartRefused
            raise kind(f"not started: nothing answers on {path}, so the sidecar is not running; {settings.cure}")
        time.sleep(RETRY_SECONDS)


def _exchange(connection: _socket.socket, body: bytes, deadline: float) -> tuple[int, bytes]:
    """Send one request of HTTP/1.1. Return the status and the body. Raise EOFError if the answer is not whole."""
    head = f"POST {ROUTE} HTTP/1.1\r\nHost: sidecar\r\nContent-Type: application/json\r\nConnection: close\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    content = b""
    while True:
        if answer := parsed_answer(content):
            return answer
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        more = connection.recv(65536)
        if not more or len(content) > MOST_BYTES:
            raise EOFError
        content += more


def parsed_answer(content: bytes) -> tuple[int, bytes] | None:
    """Return the status and the body of an answer; None if there is more to come. Raise StartRefused if it
    is no HTTP.
    """
    top, found, rest = content.partition(b"\r\n\r\n")
    lines = top.lower().split(b"\r\n")
    sizes = [line[15:].strip() for line in lines if line.startswith(b"content-length:")]
    if not found or not sizes:
        return None
    if not sizes[0].isdigit() or len(sizes[0]) > MOST_SIZE_DIGITS:
        raise StartRefused("the sidecar's answer cannot be understood")
    size, words = int(sizes[0]), lines[0].split()
    if len(rest) < size:
        return None
    if len(words) < 2 or not words[1].isdigit() or len(words[1]) > MOST_SIZE_DIGITS:
        raise StartRefused("the sidecar's answer cannot be understood")
    return int(words[1]), rest[:size]


def _answer(status: int, body: bytes) -> dict[str, Any]:
    if status == 404:
        raise StartRefused("the running sidecar does not support strict start: upgrade it")
    answer = loaded(body)
    if status in (409, 503):
        raise KeptFromStarting(text(answer, "error") or f"the sidecar answered {status}")
    if status != 200:
        raise StartRefused(text(answer, "error") or f"the sidecar answered {status}")
    return answer
