"""Starts over the API in front of real decisions: what is asked, glanced at and decided is the test's own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

import trio

from sidecar.api.start_route import Starts
from sidecar.api.unix_socket import NAME, listening
from sidecar.api.web_app import Api, serve_api
from sidecar.board import Board
from sidecar.decide.facts import ContainerView, Fact, Phase
from sidecar.decide.orders import AnswerStart
from sidecar.decide.step import step
from sidecar.failures import ContainerGone, EngineUnavailable
from sidecar.held_starts import Desk
from sidecar.log import Log
from sidecar.status.deadlines import Deadlines
from sidecar.status.present_status import PresentStatus
from state.key import ContainerKey
from tests.api.apirig import NOW, _blocking
from tests.support.decide.real import ENGINE
from tests.support.decide.stories import Story

ID = "0123456789ab" + "c" * 52
KEY = ContainerKey(ENGINE, ID)


class Counter:
    """A served story whose engine knows `glances`; decisions stop while `deciding` is not set."""

    def __init__(self, directory: Path, story: Story) -> None:
        self.directory = directory
        self.path = str(directory / NAME)
        self.board = Board(story.world)
        self.desk = Desk()
        self.glances: dict[str, ContainerView] = {}
        self.glance_fails = False
        self.asked: list[Fact] = []
        self.deciding = trio.Event()
        self.deciding.set()
        self.outbox, self.inbox = trio.open_memory_channel[Fact](8)
        tickets = count(10_000).__next__
        starts = Starts(self.board, self.outbox, desk=self.desk, glance=self._glance, tickets=tickets)
        present = PresentStatus(self.board, Deadlines(lambda: NOW))
        self.api = Api(self.board, self.outbox, present, clock=lambda: NOW, starts=starts)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Counter]:
        """Serve for the length of the block."""
        with listening(str(self.directory)) as listener:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._decide)
                nursery.start_soon(serve_api, listener, self.api, Log(StringIO()))
                yield self
                nursery.cancel_scope.cancel()

    async def _glance(self, id: str) -> ContainerView:
        if self.glance_fails:
            raise EngineUnavailable("it does not answer")
        try:
            return self.glances[id]
        except KeyError:
            raise ContainerGone("it is not there") from None

    async def _decide(self) -> None:
        async for fact in self.inbox:
            self.asked.append(fact)
            await self.deciding.wait()
            world, orders = step(self.board.latest, [fact])
            self.board.post(world)
            for order in orders:
                if isinstance(order, AnswerStart):
                    self.desk.answer(order)

    async def ask(self, **changed: Any) -> tuple[int, Any]:
        """Ask for a start; return the status and the document."""
        body = json.dumps({"id": ID, **changed}).encode()
        status, content = await trio.to_thread.run_sync(_blocking, self.path, "POST", "/v1/starts", body, {})
        return status, json.loads(content)

    def glance(self, id: str = ID, **labels: str) -> None:
        """Make the engine know this container."""
        named = {key.replace("_", "."): value for key, value in labels.items()}
        self.glances[id] = ContainerView(
            engine=ENGINE, id=id, name="strict", phase=Phase.CREATED, labels=named, is_glance=True
        )
