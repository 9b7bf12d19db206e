"""Opens the API: the socket exists from the start, and is served after the first looks."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Final

import trio

from sidecar.api.change_record import ChangeRecord
from sidecar.api.metric_counts import MetricCounts
from sidecar.api.tcp_listener import TcpListener
from sidecar.api.unix_socket import group_id, listening
from sidecar.board import Board
from sidecar.decide.container.container import Container
from sidecar.decide.facts import Fact
from sidecar.decide.world import World
from sidecar.held_starts import Desk
from sidecar.log import Log, now
from sidecar.ports import Engine, Tickets
from sidecar.status.event_file import event_file
from sidecar.status.history_file import HistoryFile
from sidecar.status.narrator import STATUS_PAUSE
from sidecar.status.present_status import PresentStatus
from sidecar.status.recorded_change import Changes
from state.projection import Projection

READY_SECONDS: Final = 2.0
"""How long the API waits for the first looks before it serves anyway, and reports that they are not done."""


class ServedSocket:
    """Serves the API of one daemon on its socket, and over TCP if there is a listener."""

    def __init__(
        self,
        board: Board,
        desk: Desk,
        present: PresentStatus,
        state_dir: str,
        api_group: str,
        tell: Callable[[World, Container], Projection] | None = None,
        follow: Callable[[Changes], Awaitable[None]] | None = None,
    ) -> None:
        """`tell` makes the projection of a container, for people who ask what it was told; `follow` follows all changes
        for as long as these are recorded.
        """
        self._tell = tell
        self._follow = follow
        self._record = ChangeRecord(board, now, HistoryFile(state_dir), event_file(state_dir))
        # From the first World on: much is decided before anybody is answered.
        self._counts = MetricCounts(board.latest)
        self._board = board
        self._desk = desk
        self._present = present
        self._state_dir = state_dir
        self._api_group = api_group

    async def run(
        self,
        outbox: trio.MemorySendChannel[Fact],
        engine: Engine,
        tickets: Tickets,
        log: Log,
        tcp: TcpListener | None,
    ) -> None:
        """Serve until cancelled. Connections made before the first looks are answered afterwards."""
        with listening(self._state_dir, group_id(self._api_group)) as listener:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._record.keep, log)
                nursery.start_soon(self._counts.keep, self._board)
                if self._follow is not None:
                    nursery.start_soon(self._follow, self._record)
                await self._serve(listener, outbox, engine, tickets, log, tcp)

    async def _serve(
        self,
        listener: socket.socket,
        outbox: trio.MemorySendChannel[Fact],
        engine: Engine,
        tickets: Tickets,
        log: Log,
        tcp: TcpListener | None,
    ) -> None:
        with trio.move_on_after(READY_SECONDS):
            async for world in self._board.worlds():
                if world.is_ready:
                    await trio.sleep(STATUS_PAUSE)
                    break
        http = await trio.to_thread.run_sync(_web_app)
        starts = http.Starts(self._board, outbox, desk=self._desk, glance=engine.glance, tickets=tickets)
        api = http.Api(
            self._board,
            outbox,
            self._present,
            clock=now,
            starts=starts,
            record=self._record,
            counts=self._counts,
            tell=self._tell,
        )
        await http.serve_api(listener, api, log, tcp)


def _web_app() -> ModuleType:
    """Import the web server, in a thread: that takes a tenth of a second."""
    from sidecar.api import web_app

    return web_app
