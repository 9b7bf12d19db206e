"""HostRecord: what kernel threads and workqueues had before the sidecar moved them, in a file of the state directory.

No cgroup tells which of them were moved, as it does for groups. So what each had is written, and synced, before it is
first changed. It is true until the next reboot, which undoes all of it: another boot's record is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from sidecar.failures import EngineFailed
from state import codec, files
from state.cpuset import CPUSet
from state.errors import StateError

NAME: Final = "host.json"

_LIMIT: Final = 4 * 1024 * 1024
_MODE: Final = 0o600
"""As of the recorded state beside it."""


class HostOriginals(msgspec.Struct, frozen=True, kw_only=True):
    """`threads` are the CPUs that kernel threads had, by their id and start, `workqueues` those that workqueues had;
    `thread_cpus` and `workqueue_cpus` are those to which they are confined. None where nothing is.
    """

    version: int = 1
    boot: str = ""
    threads: Mapping[str, CPUSet] = {}
    thread_cpus: CPUSet | None = None
    workqueues: CPUSet | None = None
    workqueue_cpus: CPUSet | None = None


class HostRecord:
    """The record of this host. `boot_id` is a file that tells one boot from the next."""

    def __init__(self, state_dir: str | Path, boot_id: str | Path = "/proc/sys/kernel/random/boot_id") -> None:
        self._state_dir = state_dir
        self._boot_id = str(boot_id)
        self._known: HostOriginals | None = None
        self._changing = Lock()

    @property
    def latest(self) -> HostOriginals:
        """What is recorded of this boot. Nothing if it cannot be read."""
        if self._known is None:
            self._known = self._read()
        return self._known

    def change(self, how: Callable[[HostOriginals], HostOriginals]) -> None:
        """Replace what is recorded by what `how` makes of it, in one step and synced. Raise EngineFailed: nothing may
        be moved then. Each of two units in two threads changes its own part alone.
        """
        with self._changing:
            made = msgspec.structs.replace(how(self.latest), boot=self._boot())
            try:
                with files.directory(self._state_dir) as at:
                    files.replace(at, NAME, codec.encode(made) + b"\n", sync=True, mode=_MODE)
            except StateError as error:
                raise EngineFailed(f"what the host's own tasks have cannot be recorded: {error}") from error
            self._known = made

    def _read(self) -> HostOriginals:
        try:
            with files.directory(self._state_dir) as at:
                content = files.read_bounded(at, NAME, _LIMIT)
            found = HostOriginals() if content is None else codec.decode(content, HostOriginals)
        except (StateError, *codec.UNREADABLE):
            return HostOriginals()
        return found if found.boot == self._boot() else HostOriginals()

    def _boot(self) -> str:
        try:
            return Path(self._boot_id).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return ""
