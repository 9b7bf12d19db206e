"""Where the engine listens: an address from the configuration, the environment, or the usual places. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from sidecar.failures import EngineUnavailable

AUTO: Final = "auto"
VARIABLES: Final = ("DOCKER_HOST", "CONTAINER_HOST")
"""The first is Docker's, and Podman's clients know it as well; the second is Podman's own."""

_MAX_PORT: Final = 65535


class Address(msgspec.Struct, frozen=True):
    """`url` as people write it; `path` of a Unix socket, or None for TCP; `base` of the URLs that are requested."""

    url: str
    path: str | None
    base: str


_USUAL: Final = {"docker": "/var/run/docker.sock", "podman": "/run/podman/podman.sock"}
"""Where each engine of the host listens, where there are several."""

USERS: Final = "/run/user"
USERS_SOCKET: Final = "podman/podman.sock"
"""Where a user's own Podman listens, below the directory of that user's number."""


def addresses(engine: str, engines: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return the names and addresses of the engines of a host, as configured: of several, each as `docker` or
    `docker=ADDRESS`, a user's own as `podman:1000`; of an only one the address, and no name.
    """
    if not engines:
        return [("", engine)]
    read = [each.partition("=") for each in engines]
    return [(name, where or f"unix://{usual_place(name)}") for name, _, where in read]


def usual_place(name: str) -> str:
    """Return the path at which the engine of this name listens, where there are several."""
    _, _, user = name.partition(":")
    return f"{USERS}/{user}/{USERS_SOCKET}" if user else _USUAL[name]


def choose(configured: str | None, environ: Mapping[str, str], exists: Callable[[str], bool]) -> Address:
    """Return the engine's address: as configured, else DOCKER_HOST or CONTAINER_HOST, the system's sockets, the user's
    own.

    Docker or Podman may answer there: each often replaces the other at its usual place. `exists` tells whether there is
    a file. Raise EngineUnavailable, with the cure, if there is no address or it is unusable.
    """
    if configured and configured != AUTO:
        return address(configured, "the setting `engine`")
    for variable in VARIABLES:
        if host := environ.get(variable):
            return address(host, variable)
    usual = usual_places(environ)
    for path in usual:
        if exists(path):
            return address(path, "the usual place")
    raise EngineUnavailable(
        f"no engine socket at {' or '.join(usual)}: start the engine (Podman: systemctl start podman.socket, with "
        "--user if it is rootless), mount its socket into this container, or set `engine` or DOCKER_HOST to its address"
    )


def how_to_start(at: Address) -> str:
    """Return how the engine that is meant is started, as a parenthesis; of each, where its address does not tell."""
    path = at.path or ""
    user = " --user" if path.startswith(f"{USERS}/") else ""
    docker, podman = f"systemctl{user} start docker", f"systemctl{user} start podman.socket"
    if "podman" in path:
        return f" ({podman})"
    # Podman stands in at Docker's place, too, but then it is told by another name.
    return f" ({docker})" if "docker" in path else f" ({docker}; {podman})"


def usual_places(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return where engines usually listen: the system's, then this user's own."""
    system = ("/var/run/docker.sock", "/run/podman/podman.sock")
    if runtime_dir := environ.get("XDG_RUNTIME_DIR", "").rstrip("/"):
        return (*system, f"{runtime_dir}/docker.sock", f"{runtime_dir}/podman/podman.sock")
    return system


def address(text: str, source: str) -> Address:
    """Read one address: `unix:///path`, `/path`, `tcp://host:port`. Raise EngineUnavailable, naming `source`,
    otherwise.
    """
    scheme, found, rest = text.strip().partition("://")
    if not found and scheme.startswith("/"):
        scheme, rest = "unix", scheme
    if scheme == "unix" and rest.startswith("/"):
        return Address(url=f"unix://{rest}", path=rest, base="http://engine")
    host, _, port = rest.rstrip("/").rpartition(":")
    if scheme in ("tcp", "http") and host and port.isdecimal() and len(port) <= 5 and 1 <= int(port) <= _MAX_PORT:
        return Address(url=f"tcp://{host}:{port}", path=None, base=f"http://{host}:{port}")
    if scheme in ("ssh", "https", "npipe", "fd"):
        raise EngineUnavailable(
            f"{source} is {text!r}, but the sidecar must run on the engine's host: write its Unix socket "
            "(unix:///var/run/docker.sock) or plain tcp://127.0.0.1:PORT"
        )
    raise EngineUnavailable(f"{source} is {text!r}: write unix:///path/to/docker.sock or tcp://host:port")
