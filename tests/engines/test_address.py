"""The addresses at which the engine is searched."""

from __future__ import annotations

import pytest

from sidecar.engines.address import Address, address, choose, how_to_start, usual_places
from sidecar.failures import EngineUnavailable

SYSTEM = "/var/run/docker.sock"
USER = "/run/user/1000/docker.sock"


def on_a_host_with(*paths: str, **environ: str) -> str:
    return choose("auto", environ, lambda path: path in paths).url


def test_the_order_is_the_environment_the_system_the_user() -> None:
    """DOCKER_HOST, then the system's socket, then the rootless one."""
    assert (
        on_a_host_with(SYSTEM, USER, DOCKER_HOST="unix:///x.sock", XDG_RUNTIME_DIR="/run/user/1000") == "unix:///x.sock"
    )
    assert on_a_host_with(SYSTEM, USER, XDG_RUNTIME_DIR="/run/user/1000") == f"unix://{SYSTEM}"
    assert on_a_host_with(USER, XDG_RUNTIME_DIR="/run/user/1000/") == f"unix://{USER}"


def test_podman_s_places_come_after_docker_s_each() -> None:
    """The system's sockets before the user's, Docker's before Podman's; CONTAINER_HOST after DOCKER_HOST."""
    own = ("/run/user/7/docker.sock", "/run/user/7/podman/podman.sock")
    places = (SYSTEM, "/run/podman/podman.sock", *own)
    assert usual_places({"XDG_RUNTIME_DIR": "/run/user/7"}) == places
    for count, place in enumerate(places):
        assert on_a_host_with(*places[count:], XDG_RUNTIME_DIR="/run/user/7") == f"unix://{place}"
    assert on_a_host_with(CONTAINER_HOST="unix:///c.sock", DOCKER_HOST="unix:///d.sock") == "unix:///d.sock"
    assert on_a_host_with(*places, CONTAINER_HOST="unix:///c.sock") == "unix:///c.sock"


def test_what_is_configured_comes_before_everything() -> None:
    """Also before DOCKER_HOST, and whether or not it exists yet: the engine may come later."""
    chosen = choose("/later.sock", {"DOCKER_HOST": "unix:///x.sock"}, lambda _: False)
    assert chosen == Address(url="unix:///later.sock", path="/later.sock", base="http://engine")
    assert choose(None, {"DOCKER_HOST": "unix:///x.sock"}, lambda _: False).path == "/x.sock"


def test_nothing_found_names_the_places_and_the_cure() -> None:
    """A user may start the sidecar in a container and forget to mount the socket."""
    places = r"/var/run/docker\.sock or /run/podman/podman\.sock or /run/u/docker\.sock or /run/u/podman/podman\.sock"
    with pytest.raises(EngineUnavailable, match=rf"{places}.*mount its socket"):
        on_a_host_with(XDG_RUNTIME_DIR="/run/u")


@pytest.mark.parametrize(
    ("url", "cure"),
    [
        ("unix:///var/run/docker.sock", " (systemctl start docker)"),
        ("unix:///run/user/1000/docker.sock", " (systemctl --user start docker)"),
        ("/run/podman/podman.sock", " (systemctl start podman.socket)"),
        ("unix:///run/user/1000/podman/podman.sock", " (systemctl --user start podman.socket)"),
        ("tcp://127.0.0.1:2375", " (systemctl start docker; systemctl start podman.socket)"),
    ],
)
def test_the_cure_starts_the_engine_that_is_meant(url: str, cure: str) -> None:
    """By its address; both, where that does not tell."""
    assert how_to_start(address(url, "a test")) == cure


def test_tcp_is_plain() -> None:
    """For an engine on the same host behind a proxy."""
    assert address("tcp://127.0.0.1:2375", "x") == Address("tcp://127.0.0.1:2375", None, "http://127.0.0.1:2375")
    assert address("tcp://[::1]:2375/", "x").base == "http://[::1]:2375"


@pytest.mark.parametrize(
    "text",
    [
        "ssh://host",
        "https://h:1",
        "docker.sock",
        "tcp://host",
        "tcp://h:99999",
        "tcp://h:0",
        "tcp://:1",
        "unix://rel",
        "",
    ],
)
def test_what_cannot_be_used_says_what_can(text: str) -> None:
    """And its source."""
    with pytest.raises(EngineUnavailable, match=r"DOCKER_HOST is .*unix://"):
        address(text, "DOCKER_HOST")
