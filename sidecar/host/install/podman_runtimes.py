"""Which of Podman's runtimes stand behind a front, by Podman's configuration, and the drop-in that says so.

Podman decides by a runtime's name what it can do (`runtime_supports_json`, `runtime_supports_nocgroups`,
`runtime_supports_kvm`), records that name with each container, and takes the first path of the name's list that exists.
So a front keeps the name, and stands first in its list: nothing else is to be said of it, containers that were created
before come through it as well, and if its file goes, Podman calls the next path, which is the real one.

Files are read in Podman's order; later ones count: for a table, each name for itself (containers.conf(5)).
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sidecar.failures import ConfigError
from sidecar.host.install.fronts import Front, checked_name
from sidecar.host.install.runtime_files import Places, Planned, below, program

ENGINE: Final = "podman"

_SHIPPED: Final = "/usr/share/containers/containers.conf"
_OWN_NAMES: Final = ("crun", "runc")
"""What Podman takes by default: the first of these that is there."""

_LIMIT: Final = 1024 * 1024


class PodmanRuntimes:
    """Podman's default runtime, "" where no file names one, and the paths of each name, as its files say them."""

    def __init__(self, root: str, places: Places) -> None:
        self.default = ""
        self.paths: dict[str, list[str]] = {}
        self._root = root
        for path in _files(root, places):
            self._read(path)

    def real(self, name: str) -> str:
        """Return the absolute path of a runtime's program. ConfigError if there is none."""
        for path in self.paths.get(name, []):
            if path.startswith("/") and program(self._root, path):
                return path
        if found := program(self._root, name):
            return found
        raise ConfigError(f"the program of Podman's runtime {name} is missing on the host: nothing was changed")

    def usual(self) -> str:
        """Return the name of the default runtime. ConfigError if it is none that can stand behind a front."""
        if self.default.startswith("/"):
            raise ConfigError(
                f"Podman's default runtime is the path {self.default}: give it a name in [engine.runtimes] of "
                "containers.conf, and name that"
            )
        return self.default or next((name for name in _OWN_NAMES if program(self._root, name)), _OWN_NAMES[-1])

    def _read(self, path: str) -> None:
        try:
            with open(path, "rb") as file:
                engine = tomllib.loads(file.read(_LIMIT).decode()).get("engine")
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be understood: {error}: nothing was changed") from error
        if not isinstance(engine, Mapping):
            return
        if isinstance(named := engine.get("runtime"), str):
            self.default = named
        table = engine.get("runtimes")
        for name, paths in table.items() if isinstance(table, Mapping) else ():
            self.paths[name] = [each for each in paths if isinstance(each, str)] if isinstance(paths, list) else []


def front_before(found: PodmanRuntimes, name: str) -> Front:
    """Return the front for a runtime. ConfigError."""
    real = found.real(checked_name(name))
    entry = {"paths": found.paths[name]} if name in found.paths else None
    return Front(engine=ENGINE, name=name, real=real, entry=entry)


def drop_in(places: Places, fronts: list[Front]) -> Planned:
    """Return the file by which Podman knows the fronts; without any it is removed."""
    if not fronts:
        return Planned(places.podman_fronts, None)
    lines = ["# Written by `cpuset-sidecar install-runtime`.", "[engine.runtimes]"]
    for front in sorted(fronts, key=lambda each: each.name):
        paths = [places.front(ENGINE, front.name), front.real, *_others(front)]
        lines.append(f"{json.dumps(front.name)} = [{', '.join(json.dumps(each) for each in dict.fromkeys(paths))}]")
    return Planned(places.podman_fronts, ("\n".join(lines) + "\n").encode())


def _others(front: Front) -> list[str]:
    paths: Any = (front.entry or {}).get("paths")
    return [str(each) for each in paths] if isinstance(paths, list) else []


def _files(root: str, places: Places) -> Iterator[str]:
    """Yield Podman's files in its order, without ours; CONTAINERS_CONF names the only one."""
    if root == "/" and (only := os.environ.get("CONTAINERS_CONF")):
        yield only
        return
    yield below(root, _SHIPPED)
    for folder in dict.fromkeys(("/etc/containers", places.podman)):
        yield below(root, f"{folder}/containers.conf")
        more = below(root, f"{folder}/containers.conf.d")
        names = sorted(os.listdir(more)) if os.path.isdir(more) else []
        for name in names:
            path = os.path.join(more, name)
            if name.endswith(".conf") and path != below(root, places.podman_fronts):
                yield path
