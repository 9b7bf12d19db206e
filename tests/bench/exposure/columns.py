"""The columns: without a sidecar, with the engine as its only instrument, and with the hand on the cgroups.

A fourth has no sidecar either, and newcomers whose authors gave them the other CPUs: it shows what part of a lower rate
comes from having fewer CPUs, and not from the sidecar.

Two have the runtime that asks as the engine's default: beside a daemon, and without one, which is killed once the owner
is on its CPU.

The engine alone is the same daemon where it cannot write a cgroup: in a mount namespace in which they are read-only.
The owner is one container on the machine's last CPU; without a sidecar, its author chose that CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.bench.latency import IMAGE, engine_at
from tests.live.engineapi import EngineApi
from tests.live.kernelview import KernelView
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.stricthost import install
from tests.live.waiting import eventually

OWNED: Final = max(LAST)
"""The CPU that is granted."""

EXCLUSIVE: Final = {"cpuset.exclusive": "1"}

_SLEEP: Final = ("sleep", "3600")

_CGROUPS: Final = "/sys/fs/cgroup/cpuset" if Path("/sys/fs/cgroup/cpuset").is_dir() else "/sys/fs/cgroup"

READ_ONLY: Final = (
    *("unshare", "--mount", "--propagation", "private", "sh", "-c"),
    *(f'mount -o remount,bind,ro {_CGROUPS} && exec "$@"', "sh"),
)
"""Put before a command that may not write cgroups of the cpuset controller."""


NO_HAND: Final = "the engine alone changes CPUs"
"""How the daemon's line in the log begins that says that there is no hand."""


class Column(Enum):
    """Who keeps newcomers off the owner's CPU."""

    NONE = "without sidecar"
    APART = "without sidecar, pinned by their authors"
    ENGINE = "engine alone"
    HAND = "with the hand"
    DEFAULT = "the default runtime asks"
    DEAD = "the default runtime, and a daemon that was killed"


_FRONTS: Final = (Column.DEFAULT, Column.DEAD)


class Scene(NamedTuple):
    """An engine, and perhaps a sidecar. `owner` is the id of the owner, "" if there is none yet."""

    column: Column
    api: EngineApi
    folder: Path
    sidecar: SidecarProcess | None
    owner: str

    def create(self, name: str, *command: str, **host: Any) -> str:
        """Create a plain container, not started; return its id."""
        return self.api.create(name, IMAGE, *(command or _SLEEP), **host)

    @property
    def pin(self) -> str:
        """The CPUs that the author of a newcomer gives it, "" for none."""
        return str(REST) if self.column is Column.APART else ""

    def parent_of(self, id: str) -> Path:
        """Return the cgroup below which the engine put a container, as soon as it runs."""
        kernel = KernelView()
        kernel.once_running(id)
        return kernel.parent(id)

    def create_exclusive(self, name: str) -> str:
        """Create one that asks for a CPU, or without a sidecar has that CPU; return its id."""
        if self.sidecar is None:
            return self.create(name, CpusetCpus=str(OWNED))
        return self.api.create(name, IMAGE, *_SLEEP, labels=EXCLUSIVE)


@contextmanager
def scene(engine: PrivateEngine, column: Column, folder: Path, *, has_owner: bool = True) -> Iterator[Scene]:
    """Begin a column: the daemon is ready, and the owner alone on its CPU. At the end all containers are removed."""
    api = engine_at(engine.socket_path)
    if column in _FRONTS:
        _installed(engine, folder, "--default")
    sidecar = None if column in (Column.NONE, Column.APART) else _started(engine, column, folder)
    made = Scene(column, api, folder, sidecar, "")
    try:
        if has_owner:
            owner = made.create_exclusive("owner")
            api.act(owner, "start")
            kernel = KernelView()
            eventually(lambda: kernel.allowed(owner) == LAST, "the owner is on its CPU", seconds=60)
            made = made._replace(owner=owner)
        if column is Column.DEAD and sidecar is not None:
            sidecar.until_quiet()
            sidecar.kill()
        yield made
    finally:
        for each in api.ask("GET", "containers/json", all="1"):
            api.remove(each["Id"])
        if column is Column.DEAD and sidecar is not None:
            sidecar.start()
        if sidecar is not None:
            sidecar.terminate()
        if column in _FRONTS:
            _installed(engine, folder, "--remove")


def _installed(engine: PrivateEngine, folder: Path, *words: str) -> None:
    """Set up the runtime of a column, or take it away."""
    done = install(engine, folder, *words)
    assert done.returncode == 0, done.stderr


def _started(engine: PrivateEngine, column: Column, folder: Path) -> SidecarProcess:
    """Start the daemon with its defaults, except that all CPUs but one are reserved."""
    sidecar = SidecarProcess(folder, engine.socket_path)
    sidecar.configure(linger="10s", reconcile_period="10s")
    if column is Column.ENGINE:
        sidecar.wrapper = READ_ONLY
    sidecar.start()
    if column not in (Column.ENGINE, Column.NONE):
        assert not sidecar.has_logged(NO_HAND), sidecar.log()
    return sidecar
