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
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from sidecar.decide.container.start import STRICT_RUNTIME
from sidecar.failures import ConfigError
from sidecar.host.install.fronts import Front, checked_name
from sidecar.host.install.podman_files import HOOKS_DIRS, SUPPORTS_JSON
from sidecar.host.install.runtime_files import Places, Planned, below, program
from state import codec, files

ENGINE: Final = "podman"

_SHIPPED: Final = "/usr/share/containers/containers.conf"
_OWN_NAMES: Final = ("crun", "runc")
"""What Podman takes by default: the first of these that is there."""

_SUPPORTS: Final = "runtime_supports_json"
_HOOKS: Final = "hooks_dir"

_LIMIT: Final = 1024 * 1024


class PodmanRuntimes:
    """Podman's default runtime, "" where no file names one, the paths of each name, and its lists, as its files say
    them: those of others, and of ours those that are given in `ours`, by their paths. `said` is the last file that says
    something of a name or a list; `only` the one that CONTAINERS_CONF names, beside which Podman reads no other.
    ConfigError if a file cannot be understood.
    """

    def __init__(self, root: str, places: Places, ours: Mapping[str, bytes | None] | None = None) -> None:
        self.default = ""
        self.paths: dict[str, list[str]] = {}
        self.said: dict[str, str] = {}
        self.lists: dict[str, list[str]] = {_SUPPORTS: list(SUPPORTS_JSON), _HOOKS: list(HOOKS_DIRS)}
        self._is_appending = dict.fromkeys(self.lists, False)
        self.only = os.environ.get("CONTAINERS_CONF", "") if root == "/" else ""
        self._root = root
        own = {below(root, path): (ours or {}).get(path) for path in (places.podman_settings, places.podman_fronts)}
        for path in [self.only] if self.only else _files(root, places, own):
            content = own[path] if path in own else _content(path)
            if content is not None:
                self._read(path, content)

    @property
    def supports_json(self) -> list[str]:
        """The runtimes whose errors Podman reads in its log."""
        return self.lists[_SUPPORTS]

    @property
    def hooks_dirs(self) -> list[str]:
        """Where Podman looks for hooks; where no directory is named, it is as if nothing was said."""
        return self.lists[_HOOKS] or list(HOOKS_DIRS)

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

    def _read(self, path: str, content: bytes) -> None:
        try:
            engine = tomllib.loads(content.decode()).get("engine")
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path} cannot be understood: {codec.flaw(error)}: nothing was changed") from error
        if not isinstance(engine, Mapping):
            return
        if isinstance(named := engine.get("runtime"), str):
            self.default = named
        for key in self.lists:
            if isinstance(value := engine.get(key), list):
                self._take(key, value)
                self.said[key] = path
        table = engine.get("runtimes")
        for name, paths in table.items() if isinstance(table, Mapping) else ():
            self.paths[name] = [each for each in paths if isinstance(each, str)] if isinstance(paths, list) else []
            self.said[name] = path

    def _take(self, key: str, value: list[Any]) -> None:
        """Take a list: in the place of the one before, or after it, once `{append=true}` was among its members."""
        for each in value:
            if isinstance(each, Mapping) and isinstance(each.get("append"), bool):
                self._is_appending[key] = each["append"]
        before = self.lists[key] if self._is_appending[key] else []
        self.lists[key] = list(dict.fromkeys([*before, *(each for each in value if isinstance(each, str))]))


def front_before(found: PodmanRuntimes, name: str) -> Front:
    """Return the front for a runtime. ConfigError."""
    if name == STRICT_RUNTIME:
        raise ConfigError(f"the runtime {name} asks by itself: nothing was changed")
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


def see_that_free(found: PodmanRuntimes, places: Places) -> None:
    """Raise ConfigError if a file of others gives the strict runtime's name to another program."""
    paths = found.paths.get(STRICT_RUNTIME, [places.runtime])
    if paths != [places.runtime]:
        raise ConfigError(
            f"{found.said[STRICT_RUNTIME]} has another runtime {STRICT_RUNTIME!r}, {paths!r}: nothing was changed; "
            "rename that one"
        )


def left_out(after: PodmanRuntimes, places: Places, fronts: Collection[Front], *, with_hook: bool) -> Iterator[str]:
    """Yield what Podman does not take from our files, since a file that it reads after them says otherwise."""
    if after.only:
        yield f"CONTAINERS_CONF is set: where it is, Podman reads {after.only} alone, and nothing of this"
        return
    if STRICT_RUNTIME not in after.supports_json:
        yield (
            f"{after.said[_SUPPORTS]} is read later, and has no {STRICT_RUNTIME} in {_SUPPORTS}: add it there, or "
            "Podman does not show why a start was refused"
        )
    hooks = os.path.dirname(places.podman_hook)
    if with_hook and hooks not in after.hooks_dirs:
        yield f"{after.said[_HOOKS]} is read later, and has no {hooks} in {_HOOKS}: add it there, or no hook is called"
    for front in fronts:
        if after.paths.get(front.name, [])[:1] != [places.front(ENGINE, front.name)]:
            yield (
                f"{after.said[front.name]} is read later, and has its own paths of the runtime "
                f"{front.name}, which starts around its front: move them to a file whose name comes before"
            )


def _files(root: str, places: Places, own: Collection[str]) -> Iterator[str]:
    """Yield Podman's files in its order, and ours in their places."""
    yield below(root, _SHIPPED)
    for folder in dict.fromkeys(("/etc/containers", places.podman)):
        yield below(root, f"{folder}/containers.conf")
        more = below(root, f"{folder}/containers.conf.d")
        found = {os.path.join(more, name) for name in (os.listdir(more) if os.path.isdir(more) else ())}
        found |= {path for path in own if os.path.dirname(path) == more}
        yield from sorted(path for path in found if path.endswith(".conf"))


def _content(path: str) -> bytes | None:
    """Return a file's content; None if there is no such file, or it is a directory. ConfigError."""
    try:
        with open(path, "rb") as file:
            return file.read(_LIMIT)
    except (FileNotFoundError, IsADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {files.reason(error)}: nothing was changed") from error
