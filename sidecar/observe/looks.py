"""Looks at containers: one at a time for each container, many in parallel; hints in the meantime cause one more look.

A look is the engine's inspect and the kernel's effective cpuset. Inspecting a container that is just being started
waits for its start (0.2 s), so the limit of parallel looks is generous: a few slow ones must not hold up the rest.

An engine that hangs keeps its event stream open and sends nothing: inventories detect that. An inventory without an
answer ends the block of `while_answered`. A single container may hang, too, while its engine answers for all others (a
stuck runtime holds the container's lock): it is left out, and reported. One whose start is held is left out as well,
and that is no fault: its lock is free only after the answer, which may itself wait for the inventory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import msgspec
import trio

from sidecar.board import Board
from sidecar.crashes import Crashes
from sidecar.decide.facts import ContainerRemoved, ContainerSeen, ContainerView, Fact, InventoryTaken, Phase
from sidecar.decide.sightings import differs
from sidecar.failures import ContainerGone, EngineError, EngineFailed, EngineRefused, EngineSilent, EngineUnavailable
from sidecar.log import Log
from sidecar.ports import Engine, Kernel, Tickets
from state.errors import StateError
from state.key import ContainerKey

AT_ONCE: Final = 16
"""Parallel looks."""


class Looker:
    """Looks on request, and periodically at everything. `look` and `look_at_everything` never wait."""

    def __init__(
        self,
        nursery: trio.Nursery,
        board: Board,
        outbox: trio.MemorySendChannel[Fact],
        *,
        engine: Engine,
        kernel: Kernel,
        tickets: Tickets,
        log: Log,
    ) -> None:
        self._nursery = nursery
        self._board = board
        self._outbox = outbox
        self._engine = engine
        self._kernel = kernel
        self._tickets = tickets
        self._log = log
        self._crashes = Crashes(board, log)
        self._limit = trio.CapacityLimiter(AT_ONCE)
        self._under_way: dict[ContainerKey, bool] = {}
        self._everything = trio.Event()
        self._following: trio.CancelScope | None = None
        self._silence: EngineUnavailable | None = None
        self._unseen: dict[ContainerKey, str] = {}

    def look(self, container: ContainerKey) -> None:
        """Look at this container soon; if a look is under way, look once more after that."""
        if container in self._under_way:
            self._under_way[container] = True
            return
        self._under_way[container] = False
        self._nursery.start_soon(self._look_until_calm, container)

    def seen(self, view: ContainerView) -> None:
        """Report a container that the engine's adapter looked at, and that was not looked at before."""
        with suppress(EngineFailed), self._crashes.contained(view.key, "look"):
            self.tell(ContainerSeen(self._complete(view), self._tickets()))
            return
        self.look(view.key)

    def removed(self, container: ContainerKey) -> None:
        """Report that the engine removed this container."""
        self.tell(ContainerRemoved(container, self._tickets()))

    def tell(self, fact: Fact) -> None:
        """Send a fact without waiting: at once if there is room, else as soon as there is."""
        try:
            self._outbox.send_nowait(fact)
        except trio.WouldBlock:
            self._nursery.start_soon(self._outbox.send, fact)

    def look_at_everything(self) -> None:
        """Take an inventory soon."""
        self._everything.set()

    @contextmanager
    def while_answered(self) -> Iterator[None]:
        """Leave the block when an inventory gets no answer. Raise EngineUnavailable with the reason."""
        self._silence = None
        try:
            with trio.CancelScope() as self._following:
                yield
        finally:
            self._following = None
        if self._silence is not None:
            raise self._silence

    async def keep_inventory(self, period_seconds: float) -> None:
        """Take an inventory on request, and at least every period, until cancelled."""
        while True:
            with trio.move_on_after(period_seconds):
                await self._everything.wait()
            self._everything = trio.Event()
            try:
                await self.take_inventory()
            except EngineUnavailable as error:
                self._log.debug("no inventory", reason=error)
                self._give_up(error)
            except EngineError as error:
                self._report(f"containers cannot be listed: {error}")
            else:
                self._report(None)

    def _give_up(self, error: EngineUnavailable) -> None:
        """Make the follower of the stream reconnect."""
        if self._following is not None:
            self._silence = error
            self._following.cancel()

    def _report(self, problem: str | None) -> None:
        if self._board.report("inventory", problem) and problem is not None:
            self._log.error(problem)

    async def take_inventory(self) -> None:
        """Look at every container, and report the differences from the latest world. An EngineError reports nothing."""
        began = self._tickets()
        listed = await self._listed()
        views = await self._views(listed)
        world = self._board.latest
        seen = tuple(sorted((view for view in views if differs(world, view)), key=lambda view: view.age))
        gone = tuple(sorted({key for key in world.containers if key.engine == self._engine.name} - set(listed)))
        await self._outbox.send(InventoryTaken(seen, gone, began))

    async def _listed(self) -> tuple[ContainerKey, ...]:
        ids = await self._engine.containers()
        return tuple(ContainerKey(self._engine.name, id) for id in ids)

    async def _views(self, containers: tuple[ContainerKey, ...]) -> list[ContainerView]:
        """Look at all containers in parallel. An error is raised after all have ended, so that it is unwrapped."""
        found: list[ContainerView] = []
        errors: list[EngineUnavailable] = []
        unseen: dict[ContainerKey, EngineError] = {}
        looks: dict[ContainerKey, trio.CancelScope] = {}

        async def add(container: ContainerKey) -> None:
            try:
                with trio.CancelScope() as looks[container]:
                    found.append(await self._view(container))
                del looks[container]
            except ContainerGone:
                pass
            except EngineUnavailable as error:
                if isinstance(error, EngineSilent):
                    unseen[container] = error
                else:
                    errors.append(error)
            except EngineError as error:
                unseen[container] = error

        async def leave_out_held_starts() -> None:
            async for world in self._board.worlds():
                for container, look in looks.items():
                    if (known := world.containers.get(container)) and known.is_held:
                        look.cancel()

        async with trio.open_nursery() as watching:
            async with trio.open_nursery() as nursery:
                for container in containers:
                    nursery.start_soon(add, container)
                watching.start_soon(leave_out_held_starts)
            watching.cancel_scope.cancel()
        if errors:
            raise errors[0]
        if any(isinstance(error, EngineSilent) for error in unseen.values()):
            # Is it these containers, or the engine?
            await self._engine.containers()
        self._tell_unseen({container: str(error) for container, error in unseen.items()})
        for container in unseen:
            # An existing but unknown container must not be missing: its recorded state would be forgotten.
            if container not in self._board.latest.containers:
                with suppress(ContainerGone):
                    found.append(await self._glanced(container))
        return found

    async def _glanced(self, container: ContainerKey) -> ContainerView:
        """Return a glance; one that cannot be understood shows a container that may run anywhere."""
        try:
            with self._crashes.contained(container, "glance"):
                return self._complete(await self._engine.glance(container.id))
        except (EngineFailed, EngineRefused):
            pass
        # The kernel knows whether an exited container runs.
        unread = ContainerView(engine=container.engine, id=container.id, name=container.short, phase=Phase.EXITED)
        return self._complete(msgspec.structs.replace(unread, is_glance=True))

    def _tell_unseen(self, unseen: dict[ContainerKey, str]) -> None:
        """Report the containers that cannot be looked at, each once per reason: they must not hide all the others."""
        for container, reason in unseen.items():
            if self._unseen.get(container) != reason:
                self._log.warning("a container cannot be inspected", container=self._name(container), reason=reason)
        self._unseen = unseen
        names = ", ".join(self._name(container) for container in unseen)
        self._board.report("looks", f"these containers cannot be inspected: {names}" if names else None)

    def _name(self, container: ContainerKey) -> str:
        known = self._board.latest.containers.get(container)
        return known.view.name if known else container.short

    async def _look_until_calm(self, container: ContainerKey) -> None:
        try:
            while True:
                self._under_way[container] = False
                await self._look_once(container)
                if not self._under_way[container]:
                    return
        finally:
            del self._under_way[container]

    async def _look_once(self, container: ContainerKey) -> None:
        began = self._tickets()
        try:
            view = await self._view_or_glance(container)
        except ContainerGone:
            await self._outbox.send(ContainerRemoved(container, began))
        except EngineError as error:
            # The inventory after the next connection will look.
            self._log.debug("no look", container=container.short, reason=error)
            self.look_at_everything()
        else:
            if view is not None:
                await self._outbox.send(ContainerSeen(view, began))

    async def _view_or_glance(self, container: ContainerKey) -> ContainerView | None:
        """Return what a look shows, or a glance if the engine's answer cannot be read; None if that shows no more than
        is known.
        """
        try:
            return await self._view(container)
        except (ContainerGone, EngineUnavailable):
            raise
        except EngineError as error:
            self._tell_unseen({**self._unseen, container: str(error)})
            return None if container in self._board.latest.containers else await self._glanced(container)

    async def _view(self, container: ContainerKey) -> ContainerView:
        async with self._limit:
            with self._crashes.contained(container, "look"):
                return self._complete(await self._engine.inspect(container.id))
        raise EngineFailed("looking at it failed unexpectedly: the log has the error")

    def _complete(self, view: ContainerView) -> ContainerView:
        """Return the engine's view with the kernel's effective CPUs, which decide whether it runs. EngineFailed."""
        try:
            effective = self._kernel.effective_cpus(view)
        except StateError as error:
            raise EngineFailed(f"where it runs cannot be found out: {error}") from error
        phase = Phase.RUNNING if effective is not None and view.phase is Phase.EXITED else view.phase
        found_below = self._kernel.parent_of(view)
        return msgspec.structs.replace(view, effective=effective, phase=phase, found_below=found_below)
