"""The API over TCP: which routes exist where, that none changes anything, and the errors of a failed listener."""

from __future__ import annotations

import errno
import http.client
import ipaddress
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

from sidecar.api.tcp_listener import Access, TcpListener, listening_on, reach_of
from sidecar.api.unix_socket import listening
from sidecar.api.web_app import serve_api
from sidecar.failures import ConfigError
from sidecar.log import Log
from tests.api.apirig import Rig

READING = ["/healthz", "/readyz", "/metrics", "/v1", "/v1/state", "/v1/status", "/v1/topology", "/v1/events"]
PAGE = ["/", "/page.css", "/page.js", "/v1/live", "/v1/history", "/v1/plan"]
OF_ONE = ["/v1/cpus/{cpu}", "/v1/containers/{container}/explanation", "/v1/containers/{container}"]
FIGURES = ["/healthz", "/readyz", "/metrics"]


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def serving(rig: Rig, reach: Access | None = None) -> AsyncIterator[int]:
    """Serve the rig's API on a port of the loopback address, with this reach or the reach of the address."""
    port = free_port()
    with listening(str(rig.directory)) as listener, listening_on(f"127.0.0.1:{port}") as tcp:
        assert tcp is not None
        chosen = TcpListener(tcp.socket, tcp.address, reach) if reach else tcp
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_api, listener, rig.api, Log(rig.lines), chosen)
            yield port
            nursery.cancel_scope.cancel()


async def ask(port: int, method: str, route: str, **headers: str) -> tuple[int, bytes]:
    """Send one request of a blocking client in a thread."""
    return await trio.to_thread.run_sync(partial(_blocking, port, method, route, headers))


def _blocking(port: int, method: str, route: str, headers: dict[str, str]) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, route, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.trio
async def test_on_loopback_all_that_changes_nothing_may_be_asked(rig: Rig) -> None:
    """The same documents as on the Unix socket."""
    async with serving(rig) as port:
        for route in ("/healthz", "/readyz", "/metrics", "/v1/state", "/v1/status", "/v1/topology"):
            status, told = await ask(port, "GET", route)
            assert (status, told) == (200, (await rig.raw("GET", route))[1])
        assert (await ask(port, "GET", "/v1/containers/man"))[0] == 200
        assert "everything that changes nothing" in rig.lines.getvalue()


@pytest.mark.trio
@pytest.mark.parametrize("reach", [Access.READ, Access.METRICS])
@pytest.mark.parametrize("route", ["/v1/containers/man/resize", "/v1/containers/man/ack", "/v1/defragment"])
@pytest.mark.parametrize("method", ["POST", "PUT", "GET"])
async def test_nothing_can_be_changed_over_tcp(rig: Rig, reach: Access, route: str, method: str) -> None:
    """The routes do not exist, and nothing reaches the allocator."""
    async with serving(rig, reach) as port:
        status, told = await ask(port, method, route)
        assert (status, json.loads(told)) == (
            404,
            {"error": "this is not available over TCP: ask on the daemon's Unix socket"},
        )
    assert rig.asked == []


@pytest.mark.trio
async def test_a_route_that_is_nowhere_is_not_said_to_be_on_the_socket(rig: Rig) -> None:
    """It is 404 with the routes that there are on this listener; a method that no listener takes is 405."""
    async with serving(rig) as port:
        status, told = await ask(port, "GET", "/status")
        error = json.loads(told)["error"]
        assert (status, error.partition(":")[0]) == (404, "there is no such route (the nearest is /v1/status)")
        assert "GET /v1/status" in error
        assert "POST" not in error
        status, told = await ask(port, "POST", "/v1/state")
        assert (status, json.loads(told)["error"]) == (405, "this route does not take this method")


@pytest.mark.trio
async def test_from_elsewhere_there_are_figures_only(rig: Rig) -> None:
    """No names, no State, no machine."""
    async with serving(rig, Access.METRICS) as port:
        assert [(await ask(port, "GET", route))[0] for route in FIGURES] == [200] * 3
        others = [*(set(READING) - set(FIGURES)), *PAGE, "/v1/containers/man", "/v1/cpus/1", "/v2"]
        assert [(await ask(port, "GET", route))[0] for route in others] == [404] * len(others)
        assert (await ask(port, "GET", "/metrics", host="node1.example"))[0] == 200


@pytest.mark.trio
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9413", 200),
        ("localhost:9413", 200),
        ("[::1]:9413", 200),
        ("", 200),
        ("evil.example", 400),
        ("evil.example:9413", 400),
        ("127.0.0.1.evil.example", 400),
        ("localhost.evil.example:9413", 400),
    ],
)
async def test_on_loopback_a_name_of_the_outside_is_refused(rig: Rig, host: str, status: int) -> None:
    """So a page in a browser cannot read it, even if its host name resolves to loopback."""
    async with serving(rig) as port:
        assert (await ask(port, "GET", "/v1/status", host=host))[0] == status


@pytest.mark.trio
async def test_every_route_that_reads_is_there_on_loopback_and_no_other(rig: Rig) -> None:
    """By the table of routes, so that a new one cannot be forgotten."""
    there = {reach: [route.path for route in rig.api.table(reach).routes] for reach in Access}
    assert there[Access.READ] == [*READING, *PAGE, *OF_ONE]
    assert there[Access.METRICS] == FIGURES
    assert there[Access.ALL] == [route.path for route in rig.api.routes]


@pytest.mark.parametrize(
    ("host", "reach"),
    [
        ("127.0.0.1", Access.READ),
        ("127.8.9.1", Access.READ),
        ("::1", Access.READ),
        ("0.0.0.0", Access.METRICS),
        ("::", Access.METRICS),
        ("10.0.0.1", Access.METRICS),
        ("::ffff:10.0.0.1", Access.METRICS),
    ],
)
def test_what_may_be_asked_depends_on_the_address(host: str, reach: Access) -> None:
    """Loopback is for this host; all else is the network."""
    assert reach_of(host) is reach


def test_without_an_address_nothing_listens() -> None:
    """The default."""
    with listening_on("") as tcp:
        assert tcp is None


def test_a_port_in_use_is_said_with_the_cure() -> None:
    """Before any other action."""
    with listening_on(f"127.0.0.1:{free_port()}") as tcp:
        assert tcp is not None
        with pytest.raises(ConfigError, match=r"another program listens there .*: choose another port"):
            _open(tcp.address)


def test_an_address_that_is_not_this_hosts_is_said_with_the_cure() -> None:
    """192.0.2.0/24 is assigned to no host (RFC 5737)."""
    assert not ipaddress.ip_address("192.0.2.1").is_global
    with pytest.raises(ConfigError, match=r"no interface of this host has that address") as raised:
        _open("192.0.2.1:9413")
    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.__cause__.errno == errno.EADDRNOTAVAIL


def test_a_unit_that_forbids_the_network_is_said_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    """RestrictAddressFamilies=AF_UNIX, as in the how-to's unit, forbids all other sockets."""

    def forbidden(*_: object) -> socket.socket:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    monkeypatch.setattr(socket, "socket", forbidden)
    with pytest.raises(ConfigError, match="RestrictAddressFamilies must also have AF_INET and AF_INET6"):
        _open("127.0.0.1:9413")


def test_a_port_is_free_again_once_the_daemon_ended() -> None:
    """At once, although its connections are just ending."""
    address = f"127.0.0.1:{free_port()}"
    for _ in range(3):
        with listening_on(address) as tcp:
            assert tcp is not None
            host, _, port = address.partition(":")
            with socket.create_connection((host, int(port)), timeout=5):
                pass


def test_ipv6_has_brackets() -> None:
    """As in URLs."""
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        with listening_on(f"[::1]:{free_port()}") as tcp:
            assert tcp is not None
            assert (tcp.socket.family, tcp.reach) == (socket.AF_INET6, Access.READ)
    except ConfigError as error:
        pytest.skip(str(error))


def _open(address: str) -> Any:
    with listening_on(address) as tcp:
        return tcp
