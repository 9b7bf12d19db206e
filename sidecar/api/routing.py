"""Requests and answers as values, and the table of routes that finds the requested one. Nothing here reads or sends."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final
from urllib.parse import unquote

import msgspec

from sidecar.api.browsers import Visitor, objection
from sidecar.api.documents import Declined
from sidecar.api.tcp_listener import Access
from sidecar.readers import closest
from state import codec

MAX_BODY: Final = 4096
"""Bytes of a body: the longest sensible one has thirty."""

JSON: Final = "application/json"

LISTENERS: Final = {"unix": Access.ALL, "loopback": Access.READ, "network": Access.METRICS}
"""The listeners that a route may be served on, by the words of the list of routes."""

_FIGURES: Final = ("/metrics", "/healthz", "/readyz")
"""What every client that can reach the host may request."""

_VARIABLE: Final = ("{container}", "{cpu}")
"""The parts of a path that differ between requests; a path has one at most."""

_NOT_OVER_TCP: Final = "this is not available over TCP: ask on the daemon's Unix socket"


class Answer(msgspec.Struct, frozen=True):
    """An answer of known length; `allow` names the methods of a route that does not take the requested one. `headers`
    are further ones, by their names in lower case.
    """

    content: bytes
    status: int = 200
    kind: str = JSON
    allow: str = ""
    headers: tuple[tuple[str, str], ...] = ()


class Following(msgspec.Struct, frozen=True):
    """An endless answer: one part after the other, until the client leaves, or the parts end. Then it is closed."""

    parts: AsyncIterator[bytes]
    kind: str
    close: Callable[[], None] = lambda: None


class Question(msgspec.Struct, frozen=True):
    """The parts of a request beside its route: the container in the path, decoded, or "", and the whole body; what
    follows the question mark, as it was sent; the last event that a follower has, and the version of the answer that a
    browser has, and the kinds of answers that are accepted, as headers, "" for none.
    """

    container: str = ""
    body: bytes = b""
    query: str = ""
    last_event: str = ""
    known: str = ""
    accept: str = ""


class Route(msgspec.Struct, frozen=True):
    """A method and a path, and the function that answers them. A GET route also answers HEAD.

    `most_body` is in bytes. With `places`, at most that many of its requests are answered at once, and they take none
    of the listener's places; `crowded` is the reason that the next request gets. If `yields` is set, a request may end
    for that of a peer with fewer.
    """

    method: str
    path: str
    answer: Callable[[Question], Awaitable[Answer | Following]]
    most_body: int = MAX_BODY
    places: int = 0
    crowded: str = ""
    yields: bool = False

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that it takes."""
        return ("GET", "HEAD") if self.method == "GET" else (self.method,)


class RouteTable(msgspec.Struct, frozen=True):
    """The routes of one listener: those that its reach permits. `elsewhere` are those of the other listeners."""

    routes: tuple[Route, ...]
    reach: Access
    elsewhere: tuple[Route, ...] = ()

    def find(self, method: str, target: str, host: str, visitor: Visitor = Visitor()) -> tuple[Route, str]:  # noqa: B008  # a frozen value
        """Return the requested route, and the container in its path, or "". Raise Declined: 400, 403, 404, 405."""
        path, host = _path_and_host(target, host)
        if self.reach is Access.READ and not _is_address(host):
            raise Declined(400, "ask by the address, or by localhost")
        if reason := objection(visitor, method, host):
            raise Declined(403, reason)
        allowed: list[str] = []
        for route in self.routes:
            container = _container(route.path, path)
            if container is None:
                continue
            if method in route.methods:
                return route, container
            allowed += route.methods
        others = [route for route in self.elsewhere if _container(route.path, path) is not None]
        if self.reach is Access.GROUP and any(method in route.methods for route in others):
            raise Declined(403, "the group may only read: run this as root")
        if allowed:
            is_elsewhere = any(method in route.methods for route in others)
            reason = _NOT_OVER_TCP if is_elsewhere else "this route does not take this method"
            raise Declined(405, reason, allow=", ".join(allowed))
        raise Declined(404, _NOT_OVER_TCP if others else self._no_route(path))

    def _no_route(self, path: str) -> str:
        near = closest(path, (route.path for route in self.routes))
        there = ", ".join(f"{route.method} {route.path}" for route in self.routes)
        return f"there is no such route{f' (the nearest is {near})' if near else ''}: the routes here are {there}"


def within(routes: tuple[Route, ...], reach: Access) -> Iterator[Route]:
    """Yield the routes of a listener with this reach."""
    for route in routes:
        if reach is Access.ALL or (route.path in _FIGURES if reach is Access.METRICS else route.method == "GET"):
            yield route


class ListedRoute(msgspec.Struct, frozen=True):
    """A route in the list of routes, and the listeners that serve it."""

    method: str
    path: str
    listeners: tuple[str, ...]


class RouteList(msgspec.Struct, frozen=True):
    """All routes of the API, wherever they are served."""

    routes: tuple[ListedRoute, ...]


def listed(routes: tuple[Route, ...]) -> RouteList:
    """Return the list of these routes, for people."""
    served = {name: tuple(within(routes, reach)) for name, reach in LISTENERS.items()}
    return RouteList(
        tuple(
            ListedRoute(route.method, route.path, tuple(name for name in served if route in served[name]))
            for route in routes
        )
    )


def as_json(value: object, status: int = 200) -> Answer:
    """Return an answer of one document."""
    return Answer(codec.encode(value) + b"\n", status)


def query_of(target: str) -> str:
    """Return what follows the question mark of a target, as it was sent."""
    return target.partition("?")[2]


def refusal(declined: Declined) -> Answer:
    """Return the answer to a declined request."""
    return msgspec.structs.replace(as_json({"error": str(declined)}, declined.status), allow=declined.allow)


def _path_and_host(target: str, host: str) -> tuple[str, str]:
    """Return the path without its query, and the requested host. An absolute target's own host overrides the header
    (RFC 9112, 3.2.2).
    """
    if absolute := re.match(r"https?://([^/?]*)(.*)", target, re.IGNORECASE):
        host, target = absolute.groups()
    return target.partition("?")[0] or "/", host


def _container(pattern: str, path: str) -> str | None:
    """Return the container that a path names, "" if the pattern has none; None if the path does not match."""
    container = ""
    # Decoded after the division: a slash in a name divides nothing (RFC 3986, 2.4).
    wanted, parts = pattern.split("/"), [unquote(part) for part in path.split("/")]
    if len(wanted) != len(parts):
        return None
    for want, part in zip(wanted, parts, strict=True):
        if want in _VARIABLE and part:
            container = part
        elif want != part:
            return None
    return container


def _is_address(host: str) -> bool:
    """Return whether a `Host` is an address, localhost or empty.

    A page in a browser of this host, whose name was made to point here (DNS rebinding), would use that name.
    """
    name = re.sub(r":\d{1,5}$", "", host).strip("[]")
    if name in ("", "localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
