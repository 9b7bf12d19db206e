"""The status document of a board's latest World: made once for all that read it.

The status file, the live document, the API's status and its views of CPUs read the same one. It is made again only
when the World, the problems or the host's confinement are others.
"""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.board import Board
from sidecar.decide.world import World
from sidecar.status.deadlines import Deadlines
from sidecar.status.describe import status_of
from sidecar.status.document import Status
from sidecar.status.machine_map import machine_of
from sidecar.version import version
from sidecar.words.units import HostConfinement

Shown = tuple[World, tuple[str, ...], HostConfinement | None, Mapping[str, int] | None, frozenset[tuple[str, str]]]
"""What a document is made of."""


class PresentStatus:
    """The document of one board. Each reader sets `updated_at` by itself: until when it vouches for what it says."""

    def __init__(self, board: Board, deadlines: Deadlines) -> None:
        """Make it from this board; `deadlines` knows until when takes wait."""
        self._board = board
        self.deadlines = deadlines
        self._shown: Shown | None = None
        self._status: Status | None = None
        self._program = version()

    def of(self) -> Status:
        """Return the document of the present World."""
        world, problems, host = self._board.latest, tuple(self._board.problems.values()), self._board.host
        around, passing = self._board.starts.around, self._board.starts.passing
        known, shown = self._status, self._shown
        if known and shown and shown[0] is world and shown[1:] == (problems, host, around, passing):
            return known
        same_machine = known and shown and shown[0].topology is world.topology
        self._shown = (world, problems, host, around, passing)
        self._status = status_of(
            world,
            program=self._program,
            problems=problems,
            deadlines=self.deadlines.of(world),
            host=host,
            around=around,
            passing=passing,
            machine=known.machine if known and same_machine else machine_of(world.topology),
        )
        return self._status
