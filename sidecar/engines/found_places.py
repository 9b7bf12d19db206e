"""Where engines listen, as configured, and with `engines = "auto"` all of this host that answer.

A file may be left of an engine that is gone, and Podman often stands in at Docker's place. So each place is asked: what
answers tells by its headers which of the two it is, and one that is found twice counts once.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from sidecar.engines.address import AUTO, USERS, USERS_SOCKET, addresses, usual_place

_SECONDS: Final = 1.0
"""How long a place is waited for: it answers without any lock."""

_PING: Final = b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n"
_MOST: Final = 16 * 1024
_OF_PODMAN: Final = b"libpod-api-version"


def engine_places(engine: str, engines: Sequence[str] = (), *, root: str = "") -> list[tuple[str, str]]:
    """Return the names and addresses of the engines to serve. What is found by itself is below `root`; one that is
    found alone needs no name.
    """
    if tuple(engines) != (AUTO,):
        return addresses(engine, engines)
    found = answering(root)
    if len(found) < 2:
        return [("", f"unix://{path}") for path in found.values()] or [("", engine)]
    return [(name, f"unix://{path}") for name, path in found.items()]


def answering(root: str = "") -> dict[str, str]:
    """Return where each engine of this host answers, by its name: those of the host first, then users' own."""
    found: dict[str, str] = {}
    seen = set()
    for name, path in _candidates(root):
        real = os.path.realpath(path)
        if real in seen or (kind := _kind_at(path)) is None:
            continue
        seen.add(real)
        found.setdefault(kind if ":" not in name else name, path)
    return found


def _candidates(root: str) -> Iterator[tuple[str, str]]:
    for name in ("docker", "podman"):
        yield name, f"{root}{usual_place(name)}"
    with suppress(OSError):
        users = sorted((each for each in os.listdir(f"{root}{USERS}") if each.isdecimal()), key=int)
        yield from ((f"podman:{user}", f"{root}{USERS}/{user}/{USERS_SOCKET}") for user in users)


def _kind_at(path: str) -> str | None:
    """Return the kind of engine that answers there; None if none does."""
    answer = b""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        asked.settimeout(_SECONDS)
        asked.connect(path)
        asked.sendall(_PING)
        while len(answer) < _MOST and b"\r\n\r\n" not in answer and (more := asked.recv(_MOST)):
            answer += more
    if not answer.startswith(b"HTTP/"):
        return None
    return "podman" if _OF_PODMAN in answer.lower() else "docker"
