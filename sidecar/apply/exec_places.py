"""Where fronts have processes begin that join a container: a file for each container in which they keep off some CPUs.

Fronts read it at each call of `exec` (`runtime/exec_place`), also while no daemon runs. A file that is out of date does
no harm: what it keeps off is cut to the CPUs that the container has, and counts for nothing if none would be left.

1. Only what differs from the last world is written. No file is synced: each is written again when the daemon starts.
2. Files of containers that are gone, or of an earlier run, are removed once all containers were looked at.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from sidecar.board import Board
from sidecar.decide.container.container import Container
from sidecar.decide.moves.exec_cpus import kept_off
from sidecar.decide.world import World
from sidecar.runtime.standing import EXEC, FOLDER
from state import files
from state.errors import StateError

_MODE: Final = 0o600
_PROBLEM: Final = "exec"


class ExecPlaces:
    """The files below this state directory."""

    def __init__(self, board: Board, state_dir: str, report: Callable[[str, str | None], None]) -> None:
        self._board = board
        self._report = report
        self._state_dir = state_dir
        self.folder = os.path.join(state_dir, FOLDER, EXEC)
        self._written: dict[str, str] | None = None
        """By the containers' ids; None before the files of an earlier run are known."""

    async def run(self) -> None:
        """Keep them, until cancelled."""
        count = 0
        while True:
            count = await self._board.changed_since(count)
            world = self._board.latest
            if world.is_ready:
                self.write(world)

    def write(self, world: World) -> None:
        """Write what this world says. What cannot be written is told, and tried again with the next one."""
        try:
            self._write({id: str(off) for id, off in map(_kept_off(world), world.containers.values()) if off}, world)
        except (StateError, OSError) as error:
            self._written = None
            self._report(_PROBLEM, f"where exec and health checks begin cannot be written: {error}")
        else:
            self._report(_PROBLEM, None)

    def _write(self, wanted: dict[str, str], world: World) -> None:
        if self._written is None:
            if not wanted and not os.path.isdir(self.folder):
                self._written = {}
                return
            self._make_folder()
            self._written = dict.fromkeys(os.listdir(self.folder), "")
        if self._written == wanted:
            return
        self._make_folder()
        with files.directory(self.folder) as at:
            for id, off in wanted.items():
                if self._written.get(id) != off:
                    files.replace(at, id, f"{off}\n".encode(), sync=False, mode=_MODE)
                    self._written[id] = off
            if world.sees_all:
                for id in [id for id in self._written if id not in wanted]:
                    files.remove(at, id)
                    del self._written[id]

    def _make_folder(self) -> None:
        above = self._state_dir
        for name in (FOLDER, EXEC):
            with files.directory(above) as at:
                os.close(files.open_directory(name, at=at, create=True, mode=0o700))
            above = os.path.join(above, name)


def _kept_off(world: World) -> Callable[[Container], tuple[str, object]]:
    return lambda container: (container.view.id, kept_off(world, container))
