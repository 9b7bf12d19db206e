"""`cpuset-sidecar` with a stopwatch: where the time of an arrival goes.

python -m tests.bench.beside.stopwatch run --config FILE

Notes are kept in memory, and written at the end beside the configuration, as `stopwatch.jsonl`: one line each, with the
wall clock in nanoseconds when a step began, how long it took, how much of that its thread had a CPU, what it was, and
the container.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from sidecar import allocator
from sidecar.__main__ import main
from sidecar.commit.fallback_books import SparedCheckpoint
from sidecar.commit.journal import Journal
from sidecar.decide.facts import ContainerSeen, Fact
from sidecar.decide.orders import HoldAnswers, Order
from sidecar.engines.docker import docker_wire
from sidecar.engines.docker.docker_engine import DockerEngine
from sidecar.hand.cgroup_hand import CgroupHand
from sidecar.observe.births import Births
from sidecar.ports import GroupBorn
from sidecar.projection.projections import Projections
from sidecar.projection.teller import Teller
from state.model import State

NAME: Final = "stopwatch.jsonl"

T = TypeVar("T")


class Note(NamedTuple):
    """One step. Times are in nanoseconds; `at` is the wall clock when it began."""

    at: int
    took: int
    on_cpu: int
    what: str
    container: str
    more: str = ""

    @property
    def end(self) -> int:
        """The wall clock at its end."""
        return self.at + self.took


_notes: list[Note] = []


def read_notes(folder: Path) -> list[Note]:
    """Return the notes of a daemon that has ended, in the order in which the steps ended."""
    return [Note(*json.loads(line)) for line in (folder / NAME).read_text().splitlines()]


def _timed(owner: Any, name: str, what: str, id_of: Callable[..., str] = lambda *_: "") -> None:
    """Note each call of a function that waits for nothing but its own work."""
    honest = getattr(owner, name)

    @functools.wraps(honest)
    def timed(*args: Any, **named: Any) -> Any:
        at, began, cpu = time.time_ns(), time.monotonic_ns(), time.thread_time_ns()
        try:
            return honest(*args, **named)
        finally:
            took = time.monotonic_ns() - began
            _notes.append(Note(at, took, time.thread_time_ns() - cpu, what, id_of(*args)))

    setattr(owner, name, timed)


def _awaited(owner: Any, name: str, what: str, id_of: Callable[..., str] = lambda *_: "") -> None:
    """Note each call of a function that waits for others."""
    honest: Callable[..., Awaitable[Any]] = getattr(owner, name)

    @functools.wraps(honest)
    async def timed(*args: Any, **named: Any) -> Any:
        at, began = time.time_ns(), time.monotonic_ns()
        try:
            return await honest(*args, **named)
        finally:
            _notes.append(Note(at, time.monotonic_ns() - began, 0, what, id_of(*args)))

    setattr(owner, name, timed)


def _events() -> None:
    honest = docker_wire.event_of

    def event_of(*given: Any) -> Any:
        cpu = time.thread_time_ns()
        event = honest(*given)
        at = time.time_ns()
        if event is not None:
            _notes.append(
                Note(at, 0, time.thread_time_ns() - cpu, f"read {event.action}", event.container, str(event.time_nano))
            )
        return event

    docker_wire.event_of = event_of  # type: ignore[assignment]


def _decisions() -> None:
    honest = allocator.decide  # type: ignore[attr-defined]

    def decide(world: Any, burst: Sequence[Fact], crashes: Any) -> Any:
        at, began, cpu = time.time_ns(), time.monotonic_ns(), time.thread_time_ns()
        decided = honest(world, burst, crashes)
        took, on_cpu = time.monotonic_ns() - began, time.thread_time_ns() - cpu
        facts = Counter(type(each).__name__ for each in burst)
        orders = Counter(type(each).__name__ for each in decided.orders)
        books = [each for each in world.state.__struct_fields__ if _differs(world.state, decided.world.state, each)]
        _notes.append(Note(at, took, on_cpu, "decide", "", f"{dict(facts)} -> {dict(orders)} {' '.join(books)}"))
        views = [each.view for each in burst if isinstance(each, ContainerSeen)]
        _notes.extend(Note(at, took, 0, f"seen {each.phase.value}", each.id) for each in views)
        given = [each for each in decided.orders if not isinstance(each, HoldAnswers)]
        _notes.extend(Note(at + took, 0, 0, f"order {type(each).__name__}", _of(each)) for each in given)
        return decided

    allocator.decide = decide  # type: ignore[attr-defined]


def _differs(before: State, after: State, field: str) -> bool:
    return before is not after and getattr(before, field) != getattr(after, field)


def _of(order: Order) -> str:
    container = getattr(order, "container", None)
    return container.id if container is not None else ""


def _births() -> None:
    honest = Births._take

    async def take(self: Births, hand: Any, engine: str, news: Any) -> None:
        now, wall = time.monotonic(), time.time_ns()
        born = [each for each in news if isinstance(each, GroupBorn)]
        _notes.extend(Note(wall, 0, 0, "birth told", each.id, f"{now - each.at:.6f} s late") for each in born)
        await honest(self, hand, engine, news)

    Births._take = take  # type: ignore[method-assign]


def plant() -> None:
    """Put the stopwatch into the program."""
    _events()
    _decisions()
    _births()
    _awaited(DockerEngine, "_inspect_from_the_room", "inspect in the room", lambda _, id: id)
    _awaited(DockerEngine, "inspect", "inspect", lambda _, id: id)
    _awaited(DockerEngine, "containers", "list")
    _awaited(DockerEngine, "update", "update", lambda _, id, *__: id)
    _awaited(allocator.Allocator, "_take", "take")
    _awaited(Teller, "tell", "tell")
    _timed(SparedCheckpoint, "save", "save")
    _timed(Journal, "append", "journal")
    _timed(CgroupHand, "hold", "hold")
    _timed(CgroupHand, "write_many", "hand write")
    _timed(Projections, "withdraw_many", "file withdraw")
    for each in ("write", "withdraw", "correct", "announce"):
        _timed(Projections, each, f"file {each}", lambda _, handle, *__: handle)


if __name__ == "__main__":
    plant()
    code = main()
    # By now nothing runs any more.
    folder = Path(sys.argv[sys.argv.index("--config") + 1]).parent
    (folder / NAME).write_text("".join(f"{json.dumps(each)}\n" for each in _notes))
    sys.exit(code)
