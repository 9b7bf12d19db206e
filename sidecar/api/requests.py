"""Requests of people, as facts: sent to the allocator, and waited for until the World shows the decision.

Nothing here decides or changes anything. A fact in the inbox is in the next burst, so it was decided by the next World
that is posted. The answer is read from that World, and the wait for it is bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

import trio

from sidecar.api.documents import Declined, declined
from sidecar.board import Board
from sidecar.decide.books.give_up import obstacle
from sidecar.decide.books.resize import objection
from sidecar.decide.facts import DefragmentRequested, Fact, GiveUpRequested, ResizeRequested, TakeAcknowledged
from sidecar.decide.world import World
from sidecar.words.defragmenting import wrong_policy
from state.key import ContainerKey
from state.leaving import Leaving

DECISION_SECONDS: Final = 10.0
"""How long an answer waits for the decision. It takes a millisecond, except on slow disks."""


class Requests:
    """What can be requested of a running daemon. Every method raises Declined."""

    def __init__(self, board: Board, outbox: trio.MemorySendChannel[Fact]) -> None:
        self._board = board
        self._outbox = outbox

    async def resize(self, container: ContainerKey, cpus: int) -> World:
        """Order a size. Return the World in which it was decided."""
        self._check_resize(self._ready(container), container, cpus)

        def is_decided(world: World) -> bool:
            self._check_resize(world, container, cpus)
            return world.state.assignments[container].ordered == cpus

        return await self._decided(ResizeRequested(container, cpus), is_decided)

    async def give_up(self, container: ContainerKey, at: datetime) -> World:
        """Release a container's exclusive CPUs until it starts later than `at`. Return the World in which it was
        decided.
        """
        if refusal := obstacle(self._ready(container), container):
            raise declined(refusal)
        released = self._board.latest.state.assignments[container].since

        def is_decided(world: World) -> bool:
            # At a start in the same burst it may be granted CPUs again.
            grant = world.state.assignments.get(container)
            if grant is None or grant.since != released:
                return True
            if refusal := obstacle(world, container):
                # Its start was held before the order was heard.
                raise declined(refusal)
            return False

        return await self._decided(GiveUpRequested(container, at.isoformat()), is_decided)

    async def acknowledge(self, container: ContainerKey, number: int | None) -> World:
        """Acknowledge on behalf of a workload that it has left the CPUs being taken. Return the World after that."""
        leaving = _waiting(self._ready(container), container)
        name = self._board.latest.containers[container].view.name
        if leaving is None:
            raise Declined(409, f"nothing waits for an acknowledgement of {name}")
        if number not in (None, leaving.number):
            raise Declined(409, f"take {leaving.number} waits for an acknowledgement of {name}, not take {number}")

        def is_decided(world: World) -> bool:
            now = _waiting(world, container)
            return now is None or now.number != leaving.number

        return await self._decided(TakeAcknowledged(container, leaving.number), is_decided)

    async def defragment(self) -> tuple[World, World]:
        """Exchange CPUs for better ones. Return the Worlds before and after the decision."""
        before = self._ready()
        if refusal := wrong_policy(before):
            raise declined(refusal)
        return before, await self._decided(DefragmentRequested(), lambda world: not world.is_defragmenting)

    def _ready(self, container: ContainerKey | None = None) -> World:
        """Return the World, if it is decided in: about this container, if there is one. What is absent keeps what it
        has.
        """
        world = self._board.latest
        if world.is_releasing:
            raise Declined(503, "the sidecar is releasing every container")
        if not world.is_ready:
            raise Declined(503, "the engine is not reached: nothing is decided before everything was looked at")
        if container is not None and container in world.containers and world.is_absent(container):
            raise Declined(503, f"{container.engine} is not reached: nothing is decided about what it runs before that")
        return world

    def _check_resize(self, world: World, container: ContainerKey, cpus: int) -> None:
        if refusal := objection(world, container, cpus):
            raise declined(refusal)

    async def _decided(self, fact: Fact, is_decided: Callable[[World], bool]) -> World:
        before = self._board.latest
        try:
            self._outbox.send_nowait(fact)
        except trio.WouldBlock:
            raise Declined(503, "too much is happening just now: try again") from None
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise Declined(503, "the daemon is ending") from None
        with trio.move_on_after(DECISION_SECONDS):
            async for world in self._board.worlds():
                if world is not before and is_decided(world):
                    return world
        raise Declined(504, f"not decided within {DECISION_SECONDS:g} s; it may be yet")


def _waiting(world: World, container: ContainerKey) -> Leaving | None:
    """Return the take that waits for this container's acknowledgement, None if none does."""
    assignment = world.state.assignments.get(container)
    leaving = assignment.leaving if assignment else None
    return None if leaving is None or leaving.is_due else leaving
