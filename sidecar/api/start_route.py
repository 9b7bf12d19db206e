"""Strict starts over the API: a start that the OCI runtime holds becomes a fact, and its decision the answer.

While a start is held the engine keeps the container's lock: an inspect would wait for the end of the start, which waits
for the answer. So nothing here needs that lock: the World or a glance identifies the container, and its limits come
from the runtime's own bundle.

1. The caller waits for the answer, `ANSWER_SECONDS` at most. The server notices a client that goes away, and cancels
   this. A start that can be answered now is answered now, however many wait. One that is not answered within
   `PROMPT_SECONDS` needs one of `MOST_HELD` places.
2. Whenever the wait ends without an answer, the daemon is notified that the start is abandoned.
3. Nothing is decided while the engine is not reached, and a booting engine is reached only after its containers have
   started. So after `UNREACHED_SECONDS` the recorded grants decide (`unreached`), or the start is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import msgspec
import trio

from sidecar.api.documents import Declined, declined
from sidecar.board import Board
from sidecar.decide.container.labels import meant
from sidecar.decide.container.start import STRICT_RUNTIME
from sidecar.decide.facts import ContainerView, Fact, Phase, StartHeld, StartLetGo
from sidecar.decide.moves.starts import awaited
from sidecar.decide.moves.starts_from_books import from_books
from sidecar.decide.orders import AnswerStart
from sidecar.decide.world import World
from sidecar.failures import ContainerGone, EngineError
from sidecar.held_starts import Desk
from sidecar.ports import Tickets
from sidecar.systemd_names import is_inside_a_container, parent_in, pod_in
from sidecar.words.counts import some
from sidecar.words.neighbour_names import SHOWN
from state.key import ContainerKey

ANSWER_SECONDS: Final = 30.0
"""How long a start is held at most. The runtime's side waits somewhat longer."""

PROMPT_SECONDS: Final = 1.0
"""How long an answer may take that needs no other container to move: the looks and decisions of a busy host."""

MOST_HELD: Final = 256
"""Starts that wait at once: as many as an engine that restarts may have containers."""

UNREACHED_SECONDS: Final = 2.0
"""How long an unreached engine is waited for: every simultaneous start of a booting machine waits this long."""

GLANCE_SECONDS: Final = 2.0
"""How long one glance may take: a millisecond, except with engines that also need the container's lock for it."""

PAUSE_SECONDS: Final = 0.2
"""Between two attempts to identify a container."""

MAX_BODY: Final = 128 * 1024
"""Bytes of a question: two sets of 8192 CPUs, written in the worst way, and some annotations."""

MOUNTED_AT: Final = "/run/cpuset-sidecar"
"""Where a container finds its own projection, unless it mounts something there itself."""

_OURS: Final = "cpuset."
_CPUS: Final = 40_000
_NUMBER: Final = 2**62
_PATH: Final = 4096
"""Characters of a path: the kernel takes no longer one."""

_List = Annotated[str, msgspec.Meta(max_length=_CPUS)]
_Limit = Annotated[int, msgspec.Meta(ge=-_NUMBER, le=_NUMBER)] | None
_Path = Annotated[str, msgspec.Meta(max_length=_PATH)]
_Word = Annotated[str, msgspec.Meta(max_length=256)]

_Words = Annotated[dict[_Word, _Word], msgspec.Meta(max_length=64)]

Glance = Callable[[str], Awaitable[ContainerView]]


class StartBody(msgspec.Struct, frozen=True, kw_only=True):
    """A runtime's question: the container's full id, and what its bundle contains. `quota` and `period` are in
    microseconds, `memory` in bytes; `annotations` count as labels if the labels are missing. `cgroup` is where its
    cgroup will be, in the spelling of either driver; "" from a runtime of an earlier version. `name` and `labels` come
    from the engine's own records, if the runtime could read them: for when the engine does not answer. `strict`: it
    chose a runtime that asks, and starts on its CPUs or not at all.
    """

    id: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    cgroup: _Path = ""
    cpus: _List = ""
    mems: _List = ""
    quota: _Limit = None
    period: _Limit = None
    memory: _Limit = None
    annotations: _Words = {}
    name: _Word | None = None
    labels: _Words = {}
    strict: bool = True


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """What to write into the bundle; None leaves that part as it is. `quota` in microseconds, -1 for no limit."""

    cpus: str
    mems: str | None = None
    quota: int | None = None


class ProjectionMount(msgspec.Struct, frozen=True, kw_only=True):
    """Where the container's own projection is below the root of all projections, and where it belongs in the container.

    The runtime knows the root's place on the host: the sidecar may see it elsewhere.
    """

    directory: str
    destination: str = MOUNTED_AT


class StartAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How the container starts. Without `update` as its bundle defines; `exclusive`: it has exclusive CPUs."""

    update: Bundle | None = None
    exclusive: bool = False
    projection: ProjectionMount | None = None


class Starts:
    """The questions of runtimes, each about one start."""

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
        """Hold a start until it may go on. Raise Declined: 409 with the reason, 503 if nothing is decided in time."""
        began = self._tickets()
        self._board.starts.asked(self._board.latest.key_of(asked.id), is_usual=not asked.strict)
        if not await self._is_reached(asked):
            return self._from_recorded_grants(asked, began)
        with trio.move_on_after(ANSWER_SECONDS):
            view = _placed(await self._view(asked), asked, self._board.latest)
            answer = await self._held(view, began, is_usual=not asked.strict)
            return start_answer(self._board.latest, asked.id, answer)
        world = self._board.latest
        key = world.key_of(asked.id)
        if world.is_absent(key):
            raise Declined(503, f"not started: the engine was not reached within {ANSWER_SECONDS:g} s")
        others = _waited_for(world, key)
        raise Declined(503, f"not started: its CPUs were not free of others within {ANSWER_SECONDS:g} s{others}")

    async def _is_reached(self, asked: StartBody) -> bool:
        """Return whether there is an engine to decide with, after waiting for it if necessary (3)."""
        with trio.move_on_after(UNREACHED_SECONDS):
            async for world in self._board.worlds():
                if not world.is_away(world.key_of(asked.id)):
                    return True
        return False

    def _from_recorded_grants(self, asked: StartBody, began: int) -> StartAnswer:
        """Answer from the recorded grants as they are (3)."""
        world = self._board.latest
        key = world.key_of(asked.id)
        known = world.containers.get(key)
        if known is None and asked.name is None and not _ours(asked) and asked.strict:
            raise Declined(503, "not started: the engine does not answer, so this container cannot be identified")
        view = _with_limits(known.view if known else _named(asked, key), asked)
        answer = from_books(world, _placed(view, asked, world), began, is_usual=not asked.strict)
        if answer is None:
            raise Declined(503, "not started: the engine does not answer, and this container has no recorded grant")
        return start_answer(self._board.latest, asked.id, answer)

    async def _held(self, view: ContainerView, began: int, *, is_usual: bool) -> AnswerStart:
        with self._desk.held() as waiting:
            try:
                await self._outbox.send(StartHeld(view, waiting.number, began, is_usual))
                with trio.move_on_after(PROMPT_SECONDS):
                    return await waiting.answer()
                if waiting.is_beyond(MOST_HELD):
                    await self._outbox.send(StartLetGo(view.key, waiting.number))
                    raise Declined(503, f"not started: its CPUs are not free of others, and {MOST_HELD} starts wait")
                return await waiting.answer()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                raise Declined(503, "not started: the sidecar is ending") from None
            except trio.Cancelled:
                # (2) A full inbox empties within milliseconds, and a closed one needs no message.
                with (
                    trio.CancelScope(shield=True),
                    contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError),
                ):
                    await self._outbox.send(StartLetGo(view.key, waiting.number))
                raise

    async def _view(self, asked: StartBody) -> ContainerView:
        """Return the container that is about to start; retry while the engine does not answer, as long as the start is
        held.

        An unknown container cannot be placed, unless its annotations contain its request.
        """
        while True:
            world = self._board.latest
            key = world.key_of(asked.id)
            if known := world.containers.get(key):
                # A glance shows no limits; a look may be older than a pin by hand.
                return (_with_limits if known.view.is_glance else _with_cpus)(known.view, asked)
            with trio.move_on_after(GLANCE_SECONDS), contextlib.suppress(EngineError):
                try:
                    return _with_limits(await self._glance(asked.id), asked)
                except ContainerGone:
                    raise Declined(409, f"not started: the engine knows no container {asked.id[:12]}") from None
            if asked.name is not None or _ours(asked):
                return _with_limits(_named(asked, key), asked)
            await trio.sleep(PAUSE_SECONDS)


def start_answer(world: World, id: str, answer: AnswerStart) -> StartAnswer:
    """Return a decision as a runtime is told it. Raise Declined if it is a refusal."""
    if answer.refusal is not None:
        raise declined(answer.refusal, "not started: ")
    if answer.update is None:
        return StartAnswer()
    update, short = answer.update, id[:12]
    # A directory belongs to one container. Where two ids begin alike, this one may not be its own.
    is_alone = all(key.id == id or not key.id.startswith(short) for key in world.containers)
    return StartAnswer(
        update=Bundle(cpus=str(update.cpus), mems=update.mems, quota=update.cpu_quota),
        exclusive=answer.exclusive,
        projection=ProjectionMount(directory=f"by-id/{short}") if is_alone else None,
    )


def _waited_for(world: World, key: ContainerKey) -> str:
    """Return which containers have not left the CPUs of a held start yet, as the end of a sentence; "" for none."""
    names = [each.view.name for each in awaited(world, key)]
    return f": waited for {some(names[:SHOWN], of=len(names))}" if names else ""


def _named(asked: StartBody, key: ContainerKey) -> ContainerView:
    """Return the container as the runtime describes it."""
    return ContainerView(
        engine=key.engine, id=key.id, name=asked.name or key.short, phase=Phase.CREATED, labels=asked.labels
    )


def _ours(asked: StartBody) -> dict[str, str]:
    return {key: value for key, value in asked.annotations.items() if key.startswith(_OURS) or meant(key)}


def _placed(view: ContainerView, asked: StartBody, world: World) -> ContainerView:
    """Return the container with its cgroup parent, if no look has shown that, and the bundle shows that it lies inside
    another container. A pod of Podman is none.
    """
    pod = view.pod or pod_in(asked.cgroup)
    if any(key.id == pod for key in world.containers):
        pod = ""
    parent = parent_in(asked.cgroup)
    if not view.is_glance or view.cgroup_parent or not is_inside_a_container(parent, pod):
        return view
    return msgspec.structs.replace(view, cgroup_parent=parent)


def _with_cpus(view: ContainerView, asked: StartBody) -> ContainerView:
    """Return a container that was looked at, with what its bundle shows. Which of it is newer than the look, and in
    which terms its engine tells a limit, is decided later.
    """
    return msgspec.structs.replace(
        view,
        cpuset=asked.cpus,
        mems=asked.mems,
        nano_cpus=0,
        cpu_quota=asked.quota or 0,
        cpu_period=asked.period or 0,
    )


def _with_limits(view: ContainerView, asked: StartBody) -> ContainerView:
    return msgspec.structs.replace(
        view,
        labels={**_ours(asked), **view.labels},
        cpuset=asked.cpus,
        mems=asked.mems,
        nano_cpus=0,
        cpu_quota=asked.quota or 0,
        cpu_period=asked.period or 0,
        memory=asked.memory or 0,
        runtime=STRICT_RUNTIME if asked.strict else view.runtime,
        is_glance=True,
    )
