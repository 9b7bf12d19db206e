"""The routes that the page needs beside the status: its files, the live stream, the last hour, and answers to
questions about one container, one CPU, or requests that were not made. All of them only read.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final
from urllib.parse import parse_qsl

import msgspec
import trio

from sidecar.api.change_record import ChangeRecord
from sidecar.api.documents import Declined, Vouching, found
from sidecar.api.live_document import LiveDocument
from sidecar.api.page_files import PageFiles
from sidecar.api.routing import Answer, Following, Question, Route, as_json
from sidecar.board import Board, SampledDisturbance
from sidecar.decide.container.container import Container
from sidecar.decide.container.labels import NAMES, split
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from sidecar.readers import kept
from sidecar.status.cpu_view import cpu_view
from sidecar.status.describe import container_status
from sidecar.status.last_state import container_reading_of
from sidecar.status.planned_requests import planned
from sidecar.status.present_status import PresentStatus
from sidecar.words.machine_text import no_cpu
from sidecar.words.placement_text import placement_told
from state import codec
from state.cpuset import MAX_CPU, CPUSet
from state.projection import Projection

EVENT_STREAM: Final = "text/event-stream; charset=utf-8"

MOST_PAGES: Final = 16
"""Clients of one listener that follow the live document at once."""

MOST_PLANS: Final = 2
"""Plans that are made at once: each decides for all containers, in a thread."""

MOST_REQUESTS: Final = 16
"""Requests of one plan."""

Tell = Callable[[World, Container], Projection]


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """One container in words: why it has its CPUs, where these are, what it is told in its projection, and what
    disturbed it as far as that is sampled; null if it is not.
    """

    id: str
    name: str
    explanation: tuple[str, ...]
    projection: Projection | None = None
    disturbed: SampledDisturbance | None = None


class PageRoutes:
    """These routes, over one board."""

    def __init__(
        self,
        board: Board,
        present: PresentStatus,
        clock: Callable[[], datetime],
        record: ChangeRecord,
        live: LiveDocument,
        tell: Tell | None,
    ) -> None:
        self._board = board
        self._present = present
        self._clock = clock
        self._record = record
        self._live = live
        self._tell = tell
        page = PageFiles()
        crowded, planning = f"{MOST_PAGES} pages are open already", f"{MOST_PLANS} plans are made already: try again"
        self.routes = (
            Route("GET", "/", page.html),
            Route("GET", "/page.css", page.css),
            Route("GET", "/page.js", page.js),
            Route("GET", "/v1/live", self._follow, places=MOST_PAGES, crowded=crowded, yields=True),
            Route("GET", "/v1/history", self._history),
            Route("GET", "/v1/plan", self._plan, places=MOST_PLANS, crowded=planning),
            Route("GET", "/v1/cpus/{cpu}", self._cpu),
            Route("GET", "/v1/containers/{container}/explanation", self._explanation),
        )

    async def _follow(self, question: Question) -> Following:
        return Following(_LiveStream(self._live, self._record, question.last_event), EVENT_STREAM)

    async def _history(self, _: Question) -> Answer:
        return as_json(self._record.history())

    async def _cpu(self, question: Question) -> Answer:
        world, asked = self._board.latest, question.container
        number = int(asked) if asked.isascii() and asked.isdigit() and len(asked) <= len(str(MAX_CPU)) else -1
        view = cpu_view(self._present.of(), number)
        if view is None:
            raise Declined(404, no_cpu(asked, world.topology.online))
        return as_json(view)

    async def _explanation(self, question: Question) -> Answer:
        world = self._board.latest
        container = world.containers[found(world, question.container).key]
        vouching = Vouching.of(world, self._board.vouched_at, self._clock())
        told = container_status(world, container, self._present.deadlines.of(world))
        said = container_reading_of(told, vouched=vouching.counts, said=vouching.last_word).explanation
        grant = world.state.assignments.get(container.view.key)
        return as_json(
            Explained(
                id=container.view.id,
                name=container.view.name,
                explanation=(*said, *(placement_told(world, grant) if grant and vouching.counts else ())),
                projection=self._tell(world, container) if self._tell else None,
                disturbed=self._board.disturbances.get(container.view.key),
            )
        )

    async def _plan(self, question: Question) -> Answer:
        cpus, labels = _requests(question.query)
        world = self._board.latest
        if not world.is_ready:
            raise Declined(503, "not everything was looked at since the engine was reached")
        if world.settings.policy is PolicyName.NONE:
            raise Declined(409, "the policy is none: no request gets CPUs of its own")
        pinned = {
            each.view.name: kept_there
            for each in world.containers.values()
            if (kept_there := CPUSet.from_mask(world.kept_by_pin(each)) & world.state.online)
        }
        return as_json(await trio.to_thread.run_sync(lambda: planned(world, cpus, labels, pinned=pinned)))


def _requests(query: str) -> tuple[list[int], dict[str, str]]:
    """Return how many CPUs each request of a query asks for, and the labels of all of them. Raise Declined."""
    cpus: list[int] = []
    labels: dict[str, str] = {}
    try:
        given = parse_qsl(query, keep_blank_values=True, max_num_fields=MOST_REQUESTS + len(NAMES))
    except ValueError as error:
        raise Declined(400, "too many requests or labels at once") from error
    for name, value in given:
        label, _, text = value.partition("=")
        if name == "cpus" and value.isascii() and value.isdigit() and len(value) < 7 and 1 <= int(value) <= MAX_CPU:
            cpus.append(int(value))
        elif name == "label" and split(label)[0] in NAMES and label != "cpuset.exclusive":
            labels[label] = text
        elif name == "label":
            wanted = "a label is one of the sidecar's, written NAME=VALUE, and not the number of CPUs itself"
            raise Declined(400, f"{kept(value)} is not understood: {wanted}")
        else:
            wanted = f"cpus=N, from 1 to {MAX_CPU}, or label=NAME=VALUE with a label of the sidecar"
            raise Declined(400, f"{kept(f'{name}={value}')} is not understood: {wanted}")
    if not cpus or len(cpus) > MOST_REQUESTS:
        raise Declined(400, f"ask for one to {MOST_REQUESTS} requests, each as cpus=N")
    return cpus, labels


class _LiveStream:
    """Events, changes of grants, and the document as it changes, indefinitely. An iterator: leaving it half-way leaves
    nothing behind.

    Whatever is an event changes the World, so a reader that waits for the document misses none.
    """

    def __init__(self, live: LiveDocument, record: ChangeRecord, last_event: str) -> None:
        self._live = live
        self._record = record
        self._next = record.from_id(last_event)
        self._granted = record.granted
        self._version = 0

    def __aiter__(self) -> _LiveStream:
        return self

    async def __anext__(self) -> bytes:
        if self._version:
            await self._live.changed_since(self._version)
        told, self._next = self._record.events(self._next)
        if grants := self._record.grants(self._granted):
            told += b"event: grants\ndata: %s\n\n" % codec.encode(grants)
        self._granted = self._record.granted
        message = self._live.message(self._version)
        self._version = self._live.version
        return told + message
