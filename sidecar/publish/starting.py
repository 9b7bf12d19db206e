"""Strict start, asked for: a start that the OCI runtime holds becomes a fact, and its answer the answer.

While a start is held the engine keeps the container's lock: an inspect would wait for its end, which waits for the
answer. So nothing is asked here that needs it: who the container is says the World, or else a glance, and its limits
are those of the runtime's own bundle.

1. Whoever asks waits until the answer is there, `ANSWER_SECONDS` at most. A client that goes away is noticed by the
   server, which cancels this.
2. However the waiting ends without an answer, the daemon is told that nobody waits any more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import msgspec
import trio

from sidecar.board import Board
from sidecar.decide.facts import ContainerView, Fact, Phase, StartHeld, StartLetGo
from sidecar.decide.orders import AnswerStart
from sidecar.decide.world import STRICT_RUNTIME
from sidecar.desk import Desk
from sidecar.errors import ContainerGone, EngineError
from sidecar.ports import Tickets
from sidecar.publish.answers import Refused

ANSWER_SECONDS: Final = 30.0
"""How long a start is held at most. The runtime's side waits somewhat longer."""

GLANCE_SECONDS: Final = 2.0
"""How long one glance may take: it takes a millisecond, but for engines that need the container's lock for it, too."""

PAUSE_SECONDS: Final = 0.2
"""Between two attempts to learn who a container is."""

MAX_BODY: Final = 128 * 1024
"""Bytes of a question: two sets of 8192 CPUs, written in the worst way, and some annotations."""

MOUNTED_AT: Final = "/run/cpuset-sidecar"
"""Where a container finds its own projection, if it mounts nothing there itself."""

_OURS: Final = "cpuset."
_CPUS: Final = 40_000
_NUMBER: Final = 2**62

_List = Annotated[str, msgspec.Meta(max_length=_CPUS)]
_Limit = Annotated[int, msgspec.Meta(ge=-_NUMBER, le=_NUMBER)] | None
_Word = Annotated[str, msgspec.Meta(max_length=256)]

Glance = Callable[[str], Awaitable[ContainerView]]


class StartBody(msgspec.Struct, frozen=True, kw_only=True):
    """What a runtime asks: the container's full id, and what its bundle says. `quota` and `period` are in microseconds,
    `memory` in bytes; `annotations` count as labels where the engine tells none.
    """

    id: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    cpus: _List = ""
    mems: _List = ""
    quota: _Limit = None
    period: _Limit = None
    memory: _Limit = None
    annotations: Annotated[dict[_Word, _Word], msgspec.Meta(max_length=64)] = {}


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """What to write into the bundle; None leaves that part as it is. `quota` in microseconds, -1 for no limit."""

    cpus: str
    mems: str | None = None
    quota: int | None = None


class ProjectionMount(msgspec.Struct, frozen=True, kw_only=True):
    """Where the container's own projection is below the root of them all, and where it belongs in the container. The
    root's place on the host is the runtime's to know: it need not be where the sidecar sees it.
    """

    directory: str
    destination: str = MOUNTED_AT


class StartAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How the container starts. Without `update` as its bundle says; `exclusive`: its CPUs are its own."""

    update: Bundle | None = None
    exclusive: bool = False
    projection: ProjectionMount | None = None


class Starts:
    """The questions of runtimes, one at a time each."""

    def __init__(
        self,
        board: Board,
        outbox: trio.MemorySendChannel[Fact],
        *,
        desk: Desk,
        glance: Glance,
        tickets: Tickets,
    ) -> None:
        self._board = board
        self._outbox = outbox
        self._desk = desk
        self._glance = glance
        self._tickets = tickets

    async def ask(self, asked: StartBody) -> StartAnswer:
        """Hold a start until it may go on. Refused: 409 with the decision's reason, 503 where there is none in time."""
        why = "its CPUs were not free of others"
        with trio.move_on_after(ANSWER_SECONDS):
            began = self._tickets()
            view = await self._view(asked)
            return _answer(asked.id, await self._held(view, began))
        if not self._board.latest.is_ready:
            why = "the engine was not reached, or not everything was looked at"
        raise Refused(503, f"not started: {why} within {ANSWER_SECONDS:g} s")

    async def _held(self, view: ContainerView, began: int) -> AnswerStart:
        with self._desk.held() as waiting:
            try:
                await self._outbox.send(StartHeld(view, waiting.number, began))
                return await waiting.answer()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                raise Refused(503, "not started: the sidecar is ending") from None
            except trio.Cancelled:
                # (2) A full inbox empties within milliseconds, and a closed one needs no telling.
                with (
                    trio.CancelScope(shield=True),
                    contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError),
                ):
                    await self._outbox.send(StartLetGo(view.id, waiting.number))
                raise

    async def _view(self, asked: StartBody) -> ContainerView:
        """Who is about to start. Asked for again while the engine does not tell, within whatever time there is: one
        that is not known cannot be placed, and one whose annotations say what it wants need not be.
        """
        ours = {key: value for key, value in asked.annotations.items() if key.startswith(_OURS)}
        while True:
            if known := self._board.latest.containers.get(asked.id):
                return known.view
            with trio.move_on_after(GLANCE_SECONDS), contextlib.suppress(EngineError):
                try:
                    return _with_limits(await self._glance(asked.id), asked, ours)
                except ContainerGone:
                    raise Refused(409, f"not started: the engine knows no container {asked.id[:12]}") from None
            if ours:
                unnamed = ContainerView(id=asked.id, name=asked.id[:12], phase=Phase.CREATED)
                return _with_limits(unnamed, asked, ours)
            await trio.sleep(PAUSE_SECONDS)


def _with_limits(view: ContainerView, asked: StartBody, annotations: dict[str, str]) -> ContainerView:
    return msgspec.structs.replace(
        view,
        labels={**annotations, **view.labels},
        cpuset=asked.cpus,
        mems=asked.mems,
        nano_cpus=0,
        cpu_quota=asked.quota or 0,
        cpu_period=asked.period or 0,
        memory=asked.memory or 0,
        runtime=STRICT_RUNTIME,
    )


def _answer(id: str, answer: AnswerStart) -> StartAnswer:
    if answer.refusal:
        raise Refused(409, f"not started: {answer.refusal}")
    if answer.update is None:
        return StartAnswer()
    update = answer.update
    return StartAnswer(
        update=Bundle(cpus=str(update.cpus), mems=update.mems, quota=update.cpu_quota),
        exclusive=answer.exclusive,
        projection=ProjectionMount(directory=f"by-id/{id[:12]}"),
    )
