"""The files of the strict start on the host that both engines use: the runtime `cpuset-runc`, its program and settings.

Installation and removal use one list, so that the second undoes the first. Everything is below `root`, the host's file
system: `/`, or its mount in a container; paths inside the files are the host's own.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.resources import files as package_files
from typing import Final

import msgspec

from sidecar.decide.container.start import STRICT_PROGRAM
from sidecar.failures import ConfigError
from sidecar.host.install.front_program import front_program
from state import files
from state.errors import FileUnreadable, FileUnwritable

USUAL: Final = "/usr/local"
"""Where programs go that do not belong to the distribution."""

_ALONE: Final = ("bundle.py", "exec_place.py", "front.py", "owner_start.py", "socket_client.py", "standing.py")
_MODULES: Final = ("__init__.py", *_ALONE)
USUAL_PYTHON: Final = "/usr/bin/python3"
_FOUND_IN: Final = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_LIMIT: Final = 8 * 1024 * 1024

WRITTEN: Final = "# Written by `cpuset-sidecar"
"""The first words of a file whose name another program might choose too."""


class Places(msgspec.Struct, frozen=True):
    """Where everything is: below `prefix`, and below `podman` the files that Podman reads. For the usual prefix,
    settings are in /etc.
    """

    prefix: str = USUAL
    podman: str = "/etc/containers"

    @property
    def runtime(self) -> str:
        """The runtime itself."""
        return f"{self.prefix}/bin/{STRICT_PROGRAM}"

    @property
    def hook(self) -> str:
        """The precreate hook."""
        return f"{self.prefix}/bin/cpuset-precreate"

    @property
    def library(self) -> str:
        """Our part of the library's folder."""
        return f"{self.prefix}/lib/cpuset-sidecar"

    @property
    def package(self) -> str:
        """The program that asks."""
        return f"{self.library}/cpuset_runc"

    @property
    def settings(self) -> str:
        """The settings, as a shell reads them."""
        return f"{'' if self.prefix == USUAL else self.prefix}/etc/cpuset-sidecar/runtime.conf"

    def front(self, engine: str, name: str) -> str:
        """The front that an engine calls instead of its own runtime of this name."""
        return f"{self.library}/fronts/{engine}/{name}"

    def front_real(self, engine: str, name: str) -> str:
        """What stands behind that front, where the engine calls it with arguments."""
        return f"{self.library}/reals/{engine}/{name}"

    def front_settings(self, engine: str, name: str) -> str:
        """The settings of that front, as a shell reads them."""
        return f"{os.path.dirname(self.settings)}/fronts/{engine}/{name}.conf"

    def front_record(self, engine: str, name: str) -> str:
        """The record of what that front stands before, and of what was there before it."""
        return f"{os.path.dirname(self.settings)}/fronts/{engine}/{name}.json"

    @property
    def podman_fronts(self) -> str:
        """The file by which Podman knows the fronts before its own runtimes."""
        return f"{self.podman}/containers.conf.d/51-cpuset-sidecar-fronts.conf"

    @property
    def podman_settings(self) -> str:
        """The file by which Podman knows the runtime."""
        return f"{self.podman}/containers.conf.d/50-cpuset-sidecar.conf"

    @property
    def podman_hook(self) -> str:
        """The file by which Podman knows the hook."""
        return f"{self.podman}/oci/hooks.d/50-cpuset-sidecar.json"


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """The runtime's settings: the real runtime and a Python, both absolute; the sidecar's socket and its root of
    projections, as the host sees them; and how many seconds to wait for a missing sidecar. `program` is the compiled
    front; None has the script stand there. `state_dir` is the sidecar's, as the host sees it; "" if it is not
    there yet.
    """

    real: str
    python: str
    socket: str
    projections: str
    patience: float
    program: bytes | None = None
    state_dir: str = ""


class Planned(msgspec.Struct, frozen=True):
    """One planned file; without content it is removed."""

    path: str
    content: bytes | None
    mode: int = 0o644


def runtime_files(places: Places, made: Installation) -> Iterator[Planned]:
    """Yield the runtime's files, which both engines use; its script last, after everything that it needs."""
    package = package_files("sidecar.runtime")
    for name in _MODULES:
        yield Planned(f"{places.package}/{name}", package.joinpath(name).read_bytes())
    yield Planned(places.settings, settings_text(places, made).encode())
    yield Planned(places.runtime, front_content(made, places.settings, "runc", "strict"), 0o755)


def shared_gone(places: Places) -> Iterator[Planned]:
    """Yield every file that both engines use, to be removed; the script first."""
    for path in (places.runtime, places.settings, *(f"{places.package}/{name}" for name in _MODULES)):
        yield Planned(path, None)


def changes(root: str, wanted: Iterator[Planned]) -> list[Planned]:
    """Return the files that differ from what is planned. Raise StateError if one cannot be read."""
    return [each for each in wanted if not _is_so(root, each)]


def is_foreign(root: str, path: str) -> bool:
    """Return whether there is such a file, and its first line does not say that this program wrote it. StateError."""
    folder, name = os.path.split(below(root, path))
    try:
        with files.directory(folder) as at:
            content = files.read_bounded(at, name, _LIMIT)
    except FileUnreadable:
        return os.path.lexists(os.path.join(folder, name))
    return content is not None and not content.startswith(WRITTEN.encode())


def content_at(root: str, path: str) -> bytes | None:
    """Return a file's content; None if there is no such file. FileUnreadable."""
    folder, name = os.path.split(below(root, path))
    if not os.path.lexists(os.path.join(folder, name)):
        return None
    with files.directory(folder) as at:
        return files.read_bounded(at, name, _LIMIT)


def installed_settings(root: str, places: Places) -> dict[str, str]:
    """Return the runtime's settings as they are on the host; nothing where it is not installed. FileUnreadable."""
    found = dict[str, str]()
    for line in (content_at(root, places.settings) or b"").decode(errors="replace").splitlines():
        key, _, value = line.partition("=")
        # What a shell would not read is no setting.
        with suppress(ValueError):
            found[key] = "".join(shlex.split(value))
    return found


def see_that_private(root: str, places: Places) -> None:
    """Raise ConfigError if another user could replace what an engine runs as root: the runtime, its program, or its
    settings, which a shell reads. Directories that are not there yet are made by this user.
    """
    top = os.path.realpath(root)
    for path in (places.runtime, f"{places.package}/front.py", places.settings):
        at = os.path.realpath(below(root, path))
        while (at := os.path.dirname(at)) not in (top, "/"):
            try:
                found = os.stat(at)
            except OSError:
                continue
            is_open = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
            if is_open or found.st_uid not in (0, os.geteuid()):
                writer = "everybody" if is_open else f"user {found.st_uid}"
                raise ConfigError(
                    f"{at} can be written by {writer}, and what is installed below it runs as root: change that, or "
                    "choose another place with --prefix"
                )


def carry_out(root: str, planned: list[Planned]) -> None:
    """Write and remove files, each in one step. Raise StateError if one fails."""
    for each in planned:
        folder, name = os.path.split(below(root, each.path))
        if each.content is None:
            with suppress(FileUnreadable), files.directory(folder) as at:
                files.remove(at, name)
            continue
        _make(folder)
        with files.directory(folder) as at:
            files.replace(at, name, each.content, sync=True, mode=each.mode)


def remove_directories(root: str, places: Places) -> None:
    """Remove our directories if they are empty; compiled Python files in them go with the last module."""
    compiled = f"{places.package}/__pycache__"
    if not os.path.lexists(below(root, f"{places.package}/{_MODULES[-1]}")):
        with suppress(OSError):
            for name in os.listdir(below(root, compiled)):
                if name.endswith(".pyc"):
                    os.unlink(os.path.join(below(root, compiled), name))
    settings, engines = os.path.dirname(places.settings), ("docker", "podman")
    empty = [f"{above}/{name}" for above in (f"{places.library}/fronts", f"{places.library}/reals") for name in engines]
    empty += [f"{settings}/fronts/{name}" for name in engines]
    empty += [f"{places.library}/fronts", f"{places.library}/reals", f"{settings}/fronts"]
    for path in (*empty, compiled, places.package, places.library, settings):
        with suppress(OSError):
            os.rmdir(below(root, path))


def find_real(root: str, wanted: str) -> str:
    """Return the real runtime, by name or path; for `auto` the first of runc and crun. Raise ConfigError if it is
    missing.
    """
    names = ("runc", "crun") if wanted == "auto" else (wanted,)
    for name in names:
        if found := program(root, name):
            if os.path.basename(found) == STRICT_PROGRAM:
                raise ConfigError(f"{found} cannot be its own real runtime: name runc or crun")
            return found
    raise ConfigError(f"there is no OCI runtime {' or '.join(names)} on the host: give its path with --runtime")


def find_python(root: str, wanted: str) -> str:
    """Return the host's Python, not a version manager's. Raise ConfigError if there is none."""
    for name in (wanted,) if wanted else (USUAL_PYTHON, "/usr/local/bin/python3", "/bin/python3"):
        if found := program(root, name):
            return found
    raise ConfigError(
        f"the host has no {wanted or 'python3 in /usr/bin or /usr/local/bin'}, which the runtime needs (3.9 or newer, "
        "only its standard library): install it, or give its path with --python"
    )


def program(root: str, name: str) -> str:
    """Return a program's path on the host; "" if there is none."""
    for path in (name,) if name.startswith("/") else tuple(f"{place}/{name}" for place in _FOUND_IN):
        real = below(root, path)
        # A link on the host may point to nowhere from here.
        if os.path.islink(real) and root != "/":
            real = below(root, os.path.join(os.path.dirname(path), os.readlink(real)))
        if os.path.isfile(real) and os.stat(real).st_mode & stat.S_IXUSR:
            return path
    return ""


def settings_text(places: Places, made: Installation) -> str:
    """Return the settings of the runtime, or of a front, as a shell reads them."""
    pairs: Mapping[str, str] = {
        "real": made.real,
        "python": made.python,
        "library": places.library,
        "socket": made.socket,
        "projections": made.projections,
        "patience": f"{made.patience:g}",
    }
    head = "# Settings of cpuset-runc, written by `cpuset-sidecar install-runtime`; a shell reads them.\n"
    return head + "".join(f"{key}={shlex.quote(value)}\n" for key, value in pairs.items())


def front_content(made: Installation, settings: str, real: str, kind: str) -> bytes:
    """Return a front with these settings: the compiled one, or else the script."""
    compiled = front_program(made.program, settings, real, kind) if made.program else None
    return compiled or front_script(settings, real, kind)


def front_script(settings: str, real: str, kind: str) -> bytes:
    """Return the script of a front with these settings; `real` and `kind` are what it goes by without them."""
    return shell_script("cpuset-runc", {"CONF": settings, "REAL": real, "KIND": kind})


def shell_script(name: str, words: Mapping[str, str]) -> bytes:
    """Return a script of the package `sidecar.runtime` with these words in their places."""
    content = package_files("sidecar.runtime").joinpath(name).read_text()
    for word, value in words.items():
        content = content.replace(f"'@{word}@'", shlex.quote(value))
    return content.encode()


def _is_so(root: str, planned: Planned) -> bool:
    path = below(root, planned.path)
    folder, name = os.path.split(path)
    try:
        with files.directory(folder) as at:
            content = files.read_bounded(at, name, _LIMIT)
            if content is None or planned.content is None:
                return content is None and planned.content is None and not os.path.lexists(path)
            return content == planned.content and stat.S_IMODE(os.stat(path).st_mode) == planned.mode
    except FileUnreadable:
        return planned.content is None and not os.path.lexists(path)


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
    except OSError as error:
        raise FileUnwritable(f"cannot make the directory {folder}: {files.reason(error)}") from error


def below(root: str, path: str) -> str:
    """Return where a path of the host is to be found from here."""
    return path if root == "/" else os.path.join(root, path.lstrip("/"))
