"""Requests to the running daemon over its socket: one request, one JSON document, or an error in words."""

from __future__ import annotations

import http.client
import os
import socket
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from sidecar.api.unix_socket import NAME
from sidecar.failures import SidecarError
from sidecar.log import printable
from sidecar.readers import kept
from state import codec, files

T = TypeVar("T")

PATIENCE_SECONDS: Final = 30.0
"""Seconds: longer than the daemon waits for a decision."""

_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of an answer: as of the status document."""


class _Complaint(msgspec.Struct):
    error: str


def container_route(container: str, action: str) -> str:
    """Return the route of an action on a container. SidecarError if the text cannot be a name."""
    name = container.removeprefix("/")
    if not name or "/" in name:
        why = "a name has no slash inside" if name else "that is no name"
        raise SidecarError(f"there is no container {printable(kept(container, 64))!r}: {why}")
    return f"/v1/containers/{quote(name, safe='')}/{action}"


def ask(state_dir: str, method: str, route: str, wanted: type[T], body: object = None) -> T:
    """Return the daemon's answer. SidecarError has its reason if it refuses, and the cure if it does not answer."""
    connection = UnixConnection(os.path.join(state_dir, NAME), PATIENCE_SECONDS)
    content = b"" if body is None else codec.encode(body)
    try:
        connection.request(method, route, content, {"content-type": "application/json"})
        answer = connection.getresponse()
        told = answer.read(_LIMIT)
    except OSError as error:
        raise SidecarError(_cure(state_dir, error)) from error
    except http.client.HTTPException as error:
        raise SidecarError(f"the daemon on {state_dir} broke off its answer: {printable(str(error))}") from error
    finally:
        connection.close()
    try:
        if answer.status < 400:
            return codec.decode(told, wanted)
        reason = codec.decode(told, _Complaint).error
    except codec.UNREADABLE as error:
        raise SidecarError(
            f"the daemon on {state_dir} gave an answer that cannot be understood ({answer.status}): {codec.flaw(error)}"
        ) from error
    raise SidecarError(reason)


def _cure(state_dir: str, error: OSError) -> str:
    match error:
        case FileNotFoundError() | ConnectionRefusedError() | NotADirectoryError():
            return f"no daemon is running on {state_dir} (set another with --state-dir)"
        case PermissionError():
            return f"the daemon on {state_dir} answers only root and its api_group: run this as root"
        case TimeoutError():
            return f"the daemon on {state_dir} did not answer within {PATIENCE_SECONDS:g} s"
        case _:
            return f"the daemon on {state_dir} cannot be reached: {files.reason(error)}"


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket, with a limit in seconds for each step."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        """As the base class; OSError."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
