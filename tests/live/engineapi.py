"""The engine's API as its users use it: a small blocking client for live tests, independent of the sidecar's own."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote, urlencode

_API: Final = "v1.41"
_LIBPOD: Final = "v4.0.0/libpod"
_SECONDS: Final = 60.0


class ApiError(Exception):
    """The engine refused: `status` and its message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status = status
        self.message = message


class EngineApi:
    """Requests to an engine's Unix socket, one connection each. Every method blocks."""

    image_prefix = ""
    """What the name of an image begins with that comes from no registry."""
    is_podman = False
    keeps_updates = True
    """Whether an update is seen in inspect, and holds at the next start."""
    tells_of_the_stopped = True
    """Whether inspect tells what was written onto a container since it stopped."""
    network = "host"
    """The network of containers, unless they are given another. To make one for each takes half of a start."""

    def __init__(self, socket_path: str) -> None:
        self.socket_path = socket_path

    def ask(self, method: str, path: str, body: object = None, **params: str) -> Any:
        """Send one request; JSON values in and out, bytes unchanged. ApiError for status 400 and above."""
        return self._ask(f"{_API}/{path}", method, body, params)

    def _ask(self, path: str, method: str, body: object, params: Mapping[str, str]) -> Any:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
        kind = "application/x-tar" if isinstance(body, bytes) else "application/json"
        connection = EngineConnection(self.socket_path)
        try:
            query = f"?{urlencode(params)}" if params else ""
            connection.request(method, f"/{path}{query}", raw, {"Content-Type": kind})
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            raise ApiError(response.status, answer.decode("utf-8", "replace"))
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        return json.loads(answer.splitlines()[-1]) if is_json and answer.strip() else answer

    def has_image(self, name: str) -> bool:
        """Return whether the engine has this image."""
        try:
            self.ask("GET", f"images/{quote(name)}/json")
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def import_image(self, name: str, tag: str, tar: bytes) -> None:
        """Make an image from a tar of its root file system."""
        self.ask("POST", "images/create", tar, fromSrc="-", repo=name, tag=tag)

    def create(
        self,
        name: str,
        image: str,
        *command: str,
        labels: Mapping[str, str] | None = None,
        stop_signal: str = "SIGKILL",
        **host: Any,
    ) -> str:
        """Create a container and return its full id; `host` has the keys of HostConfig.

        The stop signal is SIGKILL: the test programs would ignore SIGTERM, as pid 1 does. "" sets none.
        """
        wanted = {
            "Image": image,
            "Cmd": list(command),
            "Labels": dict(labels or {}),
            **({"StopSignal": stop_signal} if stop_signal else {}),
            "HostConfig": {"NetworkMode": self.network, **host},
        }
        answer = self.ask("POST", "containers/create", wanted, name=name)
        return str(answer["Id"])

    def act(self, container: str, action: str, **params: str) -> None:
        """Call start, stop, kill, restart, pause, unpause, or rename (`name=`)."""
        self.ask("POST", f"containers/{container}/{action}", **params)

    def update(self, container: str, **changes: Any) -> None:
        """Call the update route, with the keys of HostConfig."""
        self.ask("POST", f"containers/{container}/update", changes)

    def inspect(self, container: str) -> Any:
        """Return the engine's JSON about a container."""
        return self.ask("GET", f"containers/{container}/json")

    def remove(self, container: str) -> None:
        """Remove it, running or not; no error if it is gone."""
        try:
            self.ask("DELETE", f"containers/{container}", force="1", v="1")
        except ApiError as error:
            if error.status not in (404, 409):  # 409: its removal is under way
                raise


class PodmanApi(EngineApi):
    """Podman, through the API that it shares with Docker, and through its own where the two differ."""

    image_prefix = "localhost/"
    is_podman = True
    tells_of_the_stopped = False

    @property
    def keeps_updates(self) -> bool:  # type: ignore[override]
        """Whether updates survive a restart, as from 5.1 on."""
        major, minor = self.version()
        return (major, minor) >= (5, 1)

    def version(self) -> tuple[int, int]:
        """Podman's own version."""
        major, minor, *_ = str(self.libpod("GET", "version")["Version"]).split(".")
        return int(major), int(minor)

    def libpod(self, method: str, path: str, body: object = None, **params: str) -> Any:
        """Send one request to Podman's own API."""
        return self._ask(f"{_LIBPOD}/{path}", method, body, params)

    def import_image(self, name: str, tag: str, tar: bytes) -> None:
        """Import by its own route: the shared one forgets the tag (4.3)."""
        self._ask(f"{_LIBPOD}/images/import", "POST", tar, {"reference": f"{name}:{tag}"})

    def update(self, container: str, **changes: Any) -> None:
        """Call its own update route: the shared one is missing before 5.1."""
        words = {"CpusetCpus": "cpus", "CpusetMems": "mems", "CpuQuota": "quota", "CpuPeriod": "period"}
        cpu = {words[key]: value for key, value in changes.items()}
        self.libpod("POST", f"containers/{container}/update", {"cpu": cpu})


def api_at(socket_path: str) -> EngineApi:
    """Return the API of the engine that listens there."""
    api = EngineApi(socket_path)
    try:
        parts = api.ask("GET", "version")["Components"]
    except (ApiError, OSError):
        return api
    return PodmanApi(socket_path) if any("Podman" in part["Name"] for part in parts) else api


@contextmanager
def lock_held(api: EngineApi, id: str) -> Iterator[None]:
    """Ask for a copy of a container's files, and do not read it: the engine holds the container's lock meanwhile."""
    connection = EngineConnection(api.socket_path, receive_bytes=4096)
    try:
        connection.request("GET", f"/{_API}/containers/{id}/archive?path=/bin")
        connection.getresponse()
        yield
    finally:
        connection.close()


class EngineConnection(http.client.HTTPConnection):
    """HTTP over the engine's socket, with a limit of 60 s for each step, unless `timeout` is changed."""

    def __init__(self, path: str, *, receive_bytes: int | None = None) -> None:
        super().__init__("engine", timeout=_SECONDS)
        self._path = path
        self._receive_bytes = receive_bytes

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        if self._receive_bytes is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_bytes)
        self.sock.connect(self._path)
