"""A looker and the event stream on a simulated engine, for tests."""

from __future__ import annotations

import io
import itertools
from random import Random

import trio

from sidecar.board import Board
from sidecar.decide.facts import (
    Fact,
)
from sidecar.decide.reconcile import begin
from sidecar.decide.step import step
from sidecar.log import Log, LogLevel
from sidecar.observe.event_stream import follow_events
from sidecar.observe.looks import Looker
from state.model import State
from state.topology import uniform
from tests.support.decide.stories import static
from tests.support.engine.simulated import SimulatedEngine
from tests.support.engine.simulated_docker import SimulatedDocker


class Bench:
    """A looker and the stream on a simulated engine; facts come out of `inbox` and are folded into the board."""

    def __init__(self, nursery: trio.Nursery, *, inbox: int = 100) -> None:
        self.nursery = nursery
        self.docker = SimulatedDocker(uniform(cores=4), chance=Random(1))
        self.engine = SimulatedEngine(self.docker)
        self.board = Board(begin(State(), uniform(cores=4), static()))
        self.lines = io.StringIO()
        self.log = Log(self.lines, level=LogLevel.DEBUG)
        self.outbox, self.inbox = trio.open_memory_channel[Fact](inbox)
        self.tickets = itertools.count(1).__next__
        self.looker = Looker(
            nursery,
            self.board,
            self.outbox,
            engine=self.engine,
            kernel=self.docker.kernel,
            tickets=self.tickets,
            log=self.log,
        )

    def follow(self) -> None:
        """Start the stream, and the inventories that it requests."""
        self.nursery.start_soon(self.looker.keep_inventory, 1000.0)
        self.nursery.start_soon(self._follow)

    async def _follow(self) -> None:
        await follow_events(
            self.engine, self.board, self.looker, self.outbox, tickets=self.tickets, rng=Random(1), log=self.log
        )

    async def next(self, seconds: float = 50) -> Fact:
        """Return the next fact, folded."""
        with trio.fail_after(seconds):
            fact = await self.inbox.receive()
        self.board.post(step(self.board.latest, [fact])[0])
        return fact

    async def silence(self, seconds: float) -> bool:
        """Return whether no fact comes for this long."""
        with trio.move_on_after(seconds):
            await self.inbox.receive()
            return False
        return True


async def drained(bench: Bench) -> None:
    """Follow the engine until there are no more facts."""
    bench.follow()
    while bench.inbox.statistics().current_buffer_used or not bench.board.latest.is_ready:
        await bench.next()
    await trio.sleep(0.1)
    while bench.inbox.statistics().current_buffer_used:
        await bench.next()
