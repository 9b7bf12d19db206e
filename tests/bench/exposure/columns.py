"""The columns: without a sidecar, with the engine as its only instrument, and with the hand on the cgroups.

A fourth has no sidecar either, and newcomers whose authors gave them the other CPUs: it shows what part of a lower rate
comes from having fewer CPUs, and not from the sidecar.

Three have the runtime that asks as the engine's default: beside a daemon; without one, which is killed once the owner
is on its CPU; and beside one that is killed and started again every 2 s.

The engine alone is the same daemon where it cannot write a cgroup: in a mount namespace in which they are read-only.
The owner is one container on the machine's last CPU; without a sidecar, its author chose that CPU.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.bench.latency import IMAGE, engine_at
from tests.live.engineapi import EngineApi
from tests.live.kernelview import KernelView
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.stricthost import everything_asks
from tests.live.waiting import eventually

OWNED: Final = max(LAST)
"""The CPU that is granted."""

EXCLUSIVE: Final = {"cpuset.exclusive": "1"}

ALWAYS: Final[dict[str, Any]] = {"RestartPolicy": {"Name": "always"}}
"""In HostConfig: the engine starts it again, and with itself."""

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
    KILLED = "the default runtime, and a daemon that is killed every 2 s"


_FRONTS: Final = (Column.DEFAULT, Column.DEAD, Column.KILLED)

_LIFE_SECONDS: Final = 2.0
"""How long a daemon lives that is killed again and again: it is ready for about half of that."""


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
        """Create one that asks for a CPU, or without a sidecar has that CPU; return its id. It comes back with its
        engine.
        """
        if self.sidecar is None:
            return self.create(name, CpusetCpus=str(OWNED), **ALWAYS)
        return self.api.create(name, IMAGE, *_SLEEP, labels=EXCLUSIVE, **ALWAYS)


@contextmanager
def scene(
    engine: PrivateEngine, column: Column, folder: Path, *, has_owner: bool = True, **settings: str
) -> Iterator[Scene]:
    """Begin a column: the daemon is ready, and the owner alone on its CPU. At the end all containers are removed.
    `settings` are keys of the daemon's.
    """
    api = engine_at(engine.socket_path)
    with ExitStack() as ending:
        if column in _FRONTS:
            ending.enter_context(everything_asks(engine, folder))
        sidecar = None if column in (Column.NONE, Column.APART) else _started(engine, column, folder, settings)
        if sidecar is not None:
            ending.callback(sidecar.terminate)
        ending.callback(_remove_all, api)
        made = Scene(column, api, folder, sidecar, "")
        if has_owner:
            owner = made.create_exclusive("owner")
            api.act(owner, "start")
            kernel = KernelView()
            eventually(lambda: kernel.allowed(owner) == LAST, "the owner is on its CPU", seconds=60)
            made = made._replace(owner=owner)
        if column in (Column.DEAD, Column.KILLED) and sidecar is not None:
            sidecar.until_quiet()
            ending.enter_context(_dead(sidecar) if column is Column.DEAD else _killed(sidecar))
        yield made


def _remove_all(api: EngineApi) -> None:
    for each in api.ask("GET", "containers/json", all="1"):
        api.remove(each["Id"])


@contextmanager
def _dead(sidecar: SidecarProcess) -> Iterator[None]:
    """Kill the daemon for the block."""
    sidecar.kill()
    try:
        yield
    finally:
        sidecar.start()


@contextmanager
def _killed(sidecar: SidecarProcess) -> Iterator[None]:
    """Kill the daemon and start it again during the block, every 2 s. It is ready in the end."""
    over = threading.Event()

    def lives() -> None:
        while not over.wait(_LIFE_SECONDS):
            sidecar.kill()
            sidecar.start(until_ready=False)

    living = threading.Thread(target=lives)
    living.start()
    try:
        yield
    finally:
        over.set()
        living.join()
        sidecar.until_ready()


def _started(engine: PrivateEngine, column: Column, folder: Path, settings: dict[str, str]) -> SidecarProcess:
    """Start the daemon with its defaults, except that all CPUs but one are reserved, and these."""
    sidecar = SidecarProcess(folder, engine.socket_path)
    sidecar.configure(**{"linger": "10s", "reconcile_period": "10s", **settings})
    if column is Column.ENGINE:
        sidecar.wrapper = READ_ONLY
    sidecar.start()
    if column not in (Column.ENGINE, Column.NONE):
        assert not sidecar.has_logged(NO_HAND), sidecar.log()
    return sidecar
