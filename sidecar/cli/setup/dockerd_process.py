"""A Docker daemon as its administrator sees it: its process, its command line, and what it says of its runtimes."""

from __future__ import annotations

import glob
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from sidecar.decide.container.start import is_strict_runtime
from sidecar.failures import EngineUnavailable, SidecarError
from sidecar.host.install.dockerd_parent import flag_of
from state import codec, files

PID_FILE: Final = "/var/run/docker.pid"

RELOAD_SECONDS: Final = 10.0
"""How long a reload is waited for: it takes some milliseconds."""

_LIBPOD: Final = "/v4.0.0/libpod"
"""How the routes of Podman's own API begin; Docker knows none of them."""

_SECONDS: Final = 30.0
_LIMIT: Final = 512 * 1024 * 1024


class Dockerd(msgspec.Struct, frozen=True):
    """The running daemon: its process, and the words of its command line."""

    pid: int
    words: tuple[str, ...]

    def flag(self, name: str) -> str | None:
        """Return the value of a flag; None where it is not given."""
        return flag_of(self.words, name)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Where its command line has it listen, such as `unix:///run/docker.sock`; empty if that is not said there."""
        found = list[str]()
        for word, following in zip(self.words, (*self.words[1:], ""), strict=False):
            flag, equals, value = word.partition("=")
            if flag in ("-H", "--host"):
                found.append(value if equals else following)
            elif word.startswith("-H"):
                found.append(word[2:])
        return tuple(found)

    def reload(self) -> None:
        """Have it read its configuration again. SidecarError where that cannot be asked for."""
        try:
            os.kill(self.pid, signal.SIGHUP)
        except OSError as error:
            raise SidecarError(
                f"dockerd cannot be told to reload its configuration ({files.reason(error)}): "
                "run `systemctl reload docker` on the host"
            ) from error


def is_maybe_unseen(pid_file: str, found: Dockerd | None) -> bool:
    """Return whether a daemon may run that is not to be seen from here: its pid file is."""
    return found is None and os.path.exists(pid_file)


def find_dockerd(pid_file: str = PID_FILE, proc: str = "/proc") -> Dockerd | None:
    """Return the daemon whose pid stands in this file; None where none runs, or it is not to be seen from here."""
    try:
        with open(pid_file, encoding="ascii") as file:
            pid = int(file.read(32))
        with open(f"{proc}/{pid}/cmdline", "rb") as file:
            words = file.read().rstrip(b"\0").decode(errors="replace").split("\0")
    except (OSError, ValueError):
        return None
    return Dockerd(pid, tuple(words[1:])) if os.path.basename(words[0]) == "dockerd" else None


class Runtimes(msgspec.Struct, frozen=True):
    """What an engine tells of its runtimes: which one is the default, and the path of each, "" if it tells none."""

    default: str
    paths: Mapping[str, str]


def runtimes(path: str) -> Runtimes:
    """Return the runtimes that the engine on this socket knows. EngineUnavailable."""
    told = _ask(path, "/info")
    known = told.get("Runtimes")
    known = known if isinstance(known, dict) else {}
    paths = {name: str(each.get("path", "")) for name, each in known.items() if isinstance(each, dict)}
    return Runtimes(str(told.get("DefaultRuntime") or ""), paths)


def data_root(path: str) -> str:
    """Return where the engine on this socket has its data; "" if it does not tell. EngineUnavailable."""
    found = _ask(path, "/info").get("DockerRootDir")
    return found if isinstance(found, str) else ""


def until_so(path: str, is_so: Callable[[Runtimes], bool]) -> bool:
    """Return whether the engine's runtimes come to be so within `RELOAD_SECONDS`. EngineUnavailable."""
    end = time.monotonic() + RELOAD_SECONDS
    while not is_so(runtimes(path)):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class User(msgspec.Struct, frozen=True):
    """A container, with the name or path of its runtime; `started` is when it last began, in the engine's way to write
    times, "" if that is not known.
    """

    name: str
    runtime: str
    is_live: bool
    started: str = ""

    @property
    def is_strict(self) -> bool:
        """Whether it was made with the strict runtime."""
        return is_strict_runtime(self.runtime)


def containers(path: str) -> list[User]:
    """Return all containers, by name. EngineUnavailable.

    Podman behind this socket tells their runtimes by its own API alone.
    """
    found, own = [], ""
    with suppress(EngineUnavailable):
        _ask(path, f"{_LIBPOD}/_ping", is_json=False)
        own = _LIBPOD
    for listed in _ask(path, f"{own}/containers/json?all=true"):
        with suppress(KeyError, TypeError, SidecarError):
            described = _ask(path, f"{own}/containers/{listed['Id']}/json")
            runtime = described.get("OCIRuntime") or described["HostConfig"].get("Runtime") or ""
            state = described["State"]
            name = str(described["Name"]).removeprefix("/")
            found.append(User(name, str(runtime), bool(state.get("Running")), str(state.get("StartedAt") or "")))
    return sorted(found, key=lambda user: user.name)


def recorded_containers(data_root: str) -> list[User]:
    """Return the containers in the records of a Docker engine that does not run. Each of them may be live: with
    live-restore containers outlive their engine.
    """
    found = []
    for path in glob.glob(f"{glob.escape(data_root)}/containers/*/hostconfig.json"):
        folder = os.path.dirname(path)
        try:
            with open(path, "rb") as host, open(f"{folder}/config.v2.json", "rb") as own:
                runtime, name = json.load(host).get("Runtime"), json.load(own).get("Name")
        except (OSError, ValueError, AttributeError):
            continue
        shown = str(name or os.path.basename(folder)[:12]).removeprefix("/")
        found.append(User(shown, str(runtime or ""), is_live=True))
    return sorted(found, key=lambda user: user.name)


def _ask(path: str, route: str, *, is_json: bool = True) -> Any:
    # Only here: other commands do not pay for a web client.
    from http.client import HTTPException

    from sidecar.cli.daemon_client import UnixConnection

    connection = UnixConnection(path, _SECONDS)
    try:
        connection.request("GET", route)
        answer = connection.getresponse()
        content = answer.read(_LIMIT)
        if answer.status != 200:
            raise EngineUnavailable(f"the engine on {path} answers {answer.status} to {route}")
        return json.loads(content) if is_json else content
    except OSError as error:
        raise EngineUnavailable(f"the engine on {path} cannot be reached: {files.reason(error)}") from error
    except (HTTPException, ValueError, RecursionError) as error:
        why = codec.flaw(error)
        raise EngineUnavailable(f"the engine on {path} gave an answer that cannot be understood: {why}") from error
    finally:
        connection.close()


def conflict(words: Sequence[str]) -> str:
    """Return why this daemon would not take a table of runtimes from its configuration file; "" where it would."""
    if any(word == "--add-runtime" or word.startswith("--add-runtime=") for word in words):
        return (
            "dockerd runs with --add-runtime, and then reads no runtimes from its configuration file: "
            "move that flag into the file first"
        )
    return ""
