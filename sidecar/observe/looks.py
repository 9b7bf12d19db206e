"""Looks at containers: one at a time for each container, many in parallel; hints in the meantime cause one more look.

A look is the engine's inspect and the kernel's effective cpuset. Inspecting a container waits for its lock, which any
user of the engine may hold for as long as it likes, and takes as long as its author's labels are. Neither may hold up
others (`turns`):

1. An inventory waits for no look that is late. That look goes on by itself, and ends in a fact of its own. If the
   container is not known yet, a glance, which needs no lock, stands in for it.
2. What took long is left out of inventories while it rests, and so is the list itself: less long if news was lost. What
   has never run is left out while the list says so (`unstarted`).
3. Where containers run is read from the kernel every period, whatever the engine does meanwhile (`kernel_turns`).
4. An inventory from which nothing follows is not told (`quiet`).

An engine that hangs keeps its event stream open and sends nothing: inventories detect that. An inventory without an
answer ends the block of `while_answered`. A single container may hang, too, while its engine answers for all others: it
is left out, and reported. One whose start is held is left out as well, and that is no fault: its lock is free only
after the answer, which may itself wait for the inventory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial

import msgspec
import trio

from sidecar.beat import next_beat
from sidecar.board import Board
from sidecar.crashes import Crashes
from sidecar.decide.facts import ContainerRemoved, ContainerSeen, ContainerView, Fact, InventoryTaken
from sidecar.decide.sightings import as_the_kernel_shows, differs
from sidecar.failures import ContainerGone, EngineError, EngineFailed, EngineRefused, EngineSilent, EngineUnavailable
from sidecar.host_ports import Kernel
from sidecar.lasting import LastingTasks
from sidecar.log import Log
from sidecar.observe.brief import Hints
from sidecar.observe.foreign_writes import ToldWrites, is_foreign
from sidecar.observe.glances import GLANCE_SECONDS, Glances
from sidecar.observe.kernel_turns import KernelTurns
from sidecar.observe.looking_round import LookingRound
from sidecar.observe.newcomers import Newcomers
from sidecar.observe.quiet import Quiet
from sidecar.observe.silence import Silence
from sidecar.observe.turns import ListTurns, Rests, Turns
from sidecar.observe.unseen import Unseen
from sidecar.observe.unstarted import Unstarted
from sidecar.ports import Engine, Tickets
from sidecar.words.units import noun
from state.cpuset import EMPTY
from state.errors import StateError
from state.key import SOURCES, ContainerKey


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
        unit_sources: Callable[[], Collection[str]] = tuple,
        others: Collection[str] = (),
    ) -> None:
        """Make it; `unit_sources` returns those of the units that it lists too, `others` names the other engines."""
        self._others = tuple(others)
        self._unit_sources = unit_sources
        self._nursery = nursery
        self._board = board
        self._outbox = outbox
        self._engine = engine
        self._kernel = kernel
        self._tickets = tickets
        self._log = log
        self._crashes = Crashes(board, log)
        self.glances = Glances(board, engine, self._crashes, self._complete)
        self._turns = Turns(nursery)
        self._rests = Rests[ContainerKey]()
        self._list = ListTurns()
        self._lacked = self._lacks
        """What the last list lacked."""
        self._under_way: dict[ContainerKey, bool] = {}
        self.hints = Hints(nursery, board, self.look, self._crashes)
        self.newcomers = Newcomers(board, self.look, self.is_looked_at, lambda: engine.name)
        meet = partial(LastingTasks(board, log).keep, self.named("meeting newcomers"), self.newcomers.run)
        nursery.start_soon(meet)
        self._writes = ToldWrites(board, log, "updates")
        self._kernel_turns = KernelTurns(
            board,
            self._crashes,
            self._writes,
            complete=self._complete,
            tell_moved=self._tell_moved,
            is_ours=lambda key: not self._others or self._is_listed(key),
        )
        self._counted: dict[ContainerKey, trio.CancelScope] = {}
        """Looks for inventories that are under way."""
        self._due: frozenset[ContainerKey] = frozenset()
        """The containers of the last inventory at which it looked: its outcome may be outstanding."""
        self._everything = trio.Event()
        silence = Silence()
        self.while_answered, self.give_up = silence.while_answered, silence.give_up
        self._unstarted = Unstarted(board)
        self._quiet = Quiet(board)
        self._unseen = Unseen(board, log)

    def named(self, work: str) -> str:
        """Return this work, with the engine's name if there are several."""
        return f"{work} of {self._engine.name}" if self._others else work

    def look(self, container: ContainerKey) -> None:
        """Look at this container soon; if a look is under way, look once more after that."""
        self.hints.answered(container)
        self.newcomers.answered(container)
        if container in self._under_way:
            self._under_way[container] = True
            return
        self._under_way[container] = False
        self._nursery.start_soon(self._look_surely, container)

    def seen(self, view: ContainerView) -> None:
        """Report a container that the engine's adapter looked at, and that was not looked at before."""
        with suppress(EngineFailed), self._crashes.contained(view.key, "look"):
            self.tell(ContainerSeen(self._complete(view), self._tickets()))
            self.hints.told(view.key)
            return
        self.look(view.key)

    def removed(self, container: ContainerKey) -> None:
        """Report that the engine removed this container."""
        self._unseen.forget(container)
        self.glances.forget(container)
        self.hints.answered(container)
        self.newcomers.answered(container)
        self.tell(ContainerRemoved(container, self._tickets()))

    def tell(self, fact: Fact) -> None:
        """Send a fact without waiting: at once if there is room, else as soon as there is."""
        try:
            self._outbox.send_nowait(fact)
        except trio.WouldBlock:
            self._nursery.start_soon(self._outbox.send, fact)

    def is_looked_at(self, container: ContainerKey) -> bool:
        """Return whether a look is under way, or its outcome may be outstanding."""
        return container in self._due or container in self._under_way

    def look_at_everything(self) -> None:
        """Take an inventory soon: news was lost."""
        self._list.lose_news()
        self._everything.set()

    async def lose_news(self) -> None:
        """The same, as something to wait for."""
        self.look_at_everything()

    async def keep_inventory(self, period_seconds: float) -> None:
        """Take an inventory on request, and at least every period, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._kernel_turns.keep, period_seconds)
            while True:
                now = trio.current_time()
                with trio.move_on_at(min(next_beat(now, period_seconds), now + self._list.owed_in())) as pause:
                    await self._everything.wait()
                self._everything = trio.Event()
                try:
                    await self.take_inventory(is_asked_for=not pause.cancelled_caught)
                except EngineUnavailable as error:
                    self._log.debug("no inventory", reason=error)
                    self.give_up(error)
                except EngineError as error:
                    self._report(f"containers cannot be listed: {error}")
                else:
                    self._report(None)
                self._kernel_turns.end_inventory()

    def _tell_moved(self, view: ContainerView) -> None:
        self.tell(ContainerSeen(view, self._tickets()))
        self.look(view.key)

    def _report(self, problem: str | None) -> None:
        if self._board.report("inventory", problem) and problem is not None:
            self._log.error(problem)

    async def take_inventory(self, *, is_asked_for: bool = True) -> None:
        """Look at every container, and report the differences from the latest world. An EngineError reports nothing."""
        began = self._tickets()
        has_list = self._list.is_due() or not self._is_ready()
        self._unstarted.listed(())
        listed = await self._listed() if has_list else self._known()
        views = await self._views(listed)
        world = self._board.latest
        seen = tuple(sorted((view for view in views if differs(world, view)), key=lambda view: view.age))
        gone = tuple(sorted(set(self._known()) - set(listed))) if has_list else ()
        name = self._engine.name if self._others else ""
        taken = InventoryTaken(seen, gone, began, lacks=self._lacked, engine=name, has_list=has_list)
        if not self._quiet.holds(taken, is_awaited=bool(is_asked_for or self._under_way or self._counted)):
            await self._outbox.send(taken)

    def _known(self) -> tuple[ContainerKey, ...]:
        """Return those of the known containers that the engine would list."""
        return tuple(key for key in self._board.latest.containers if self._is_listed(key))

    async def _listed(self) -> tuple[ContainerKey, ...]:
        """Return the containers that the engine lists. From now on the list rests (2)."""
        had_lost_news = self._list.has_lost_news
        with self._list.taken():
            listed = tuple(ContainerKey.listed(self._engine.name, id) for id in await self._engine.containers())
        if not had_lost_news:
            self._unstarted.listed(self._engine.unstarted)
        # As it is now: what can be listed later was not.
        self._lacked = self._lacks
        self._rests.forget_all_but(listed)
        self._turns.forget_all_but(listed)
        self._unseen.forget_all_but(listed)
        return listed

    @property
    def _lacks(self) -> tuple[str, ...]:
        """What the engine does not list: sources of units, and other engines."""
        return (*(each for each in SOURCES if each not in self._unit_sources()), *self._others)

    def _is_ready(self) -> bool:
        """Return whether everything of this engine was looked at since it was reached."""
        return not self._board.latest.is_absent(ContainerKey(self._engine.name, ""))

    def _is_listed(self, key: ContainerKey) -> bool:
        """Return whether the engine would list this container, or unit, if it existed."""
        return key.engine == self._engine.name or (key.is_unit and key.engine not in self._lacks)

    async def _views(self, containers: tuple[ContainerKey, ...]) -> list[ContainerView]:
        """Look at all containers in parallel. An error is raised after all have ended or are left out."""
        known = self._board.latest.containers
        due = [each for each in containers if self._unstarted.needs_a_look(each)]
        due = [each for each in due if each not in known or self._rests.is_over(each)]
        # First this: from now on none of these begins to wait.
        self._due = frozenset(due)
        if self._is_ready():
            due = self.newcomers.without_waiting(due)
        looks = LookingRound(due)
        for container in due:
            if container in self._counted:
                looks.leave_out(container)
            else:
                self._nursery.start_soon(self._look_in, looks, container)

        async def leave_out_held_starts() -> None:
            async for world in self._board.worlds():
                for container, look in self._counted.items():
                    if (known := world.containers.get(container)) and known.is_held:
                        look.cancel()

        async with trio.open_nursery() as watching:
            watching.start_soon(leave_out_held_starts)
            await looks.wait()
            watching.cancel_scope.cancel()
        looks.raise_if_lost()
        if due and not looks.found and (looks.late or looks.failed):
            # Is it these containers, or the engine?
            await self._engine.containers()
        self._unseen.add({each: str(error) for each, error in looks.failed.items()})
        async with trio.open_nursery() as glancing:
            for container in (*looks.failed, *looks.late):
                # An existing but unknown container must not be missing: its recorded state would be forgotten.
                if container not in self._board.latest.containers:
                    glancing.start_soon(self._glance_in, looks, container)
        for error in looks.failed_glances:
            raise error
        return looks.found

    async def _look_in(self, looks: LookingRound, container: ContainerKey) -> None:
        """Look at a container for an inventory. If the inventory does not wait any more, tell what was found (1)."""
        began = self._tickets()
        found: ContainerView | EngineError | None = None
        with trio.CancelScope() as self._counted[container]:
            try:
                found = await self._view(container, partial(looks.leave_out, container))
            except ContainerGone:
                pass
            except EngineError as error:
                found = error
        del self._counted[container]
        known = self._board.latest.containers.get(container)
        if looks.awaits(container):
            looks.end(container, found)
        elif isinstance(found, ContainerView):
            await self._outbox.send(ContainerSeen(found, began))
        elif isinstance(found, EngineSilent | EngineFailed) and not (known and known.is_held):
            with self._crashes.contained(container, "look"):
                self._unseen.add({container: str(found)})

    async def _glance_in(self, looks: LookingRound, container: ContainerKey) -> None:
        """Glance at a container for an inventory; one without a grant may run anywhere if that takes long."""
        has_grant = container in self._board.latest.state.assignments
        try:
            with trio.move_on_after(math.inf if has_grant else GLANCE_SECONDS):
                looks.found.append(await self.glances.at(container))
                return
            looks.found.append(self.glances.unread(container))
        except ContainerGone:
            pass
        except EngineError as error:
            looks.failed_glances.append(error)

    async def _look_surely(self, container: ContainerKey) -> None:
        if not await self._crashes.run(container, "look", partial(self._look_until_calm, container)):
            # What the look showed is not told: the inventory looks again.
            self.look_at_everything()

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
            self._unseen.forget(container)
            self.glances.forget(container)
            await self._outbox.send(ContainerRemoved(container, began))
        except EngineError as error:
            # The inventory after the next connection will look.
            self._log.debug("no look", **{noun(container): container.short}, reason=error)
            self.look_at_everything()
            if isinstance(error, EngineUnavailable) and (fact := self.glances.by_the_kernel(container, began)):
                await self._outbox.send(fact)
        else:
            if view is not None:
                if is_foreign(self._board, view):
                    cpus = view.effective or EMPTY
                    self._writes.add(container, cpus, 1, trio.current_time())
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
            self._unseen.add({container: str(error)})
            return None if container in self._board.latest.containers else await self.glances.at(container)

    async def _view(self, container: ContainerKey, tell_late: Callable[[], None] = lambda: None) -> ContainerView:
        async with self._turns.taken(container, tell_late):
            with self._crashes.contained(container, "look"):
                view = self._complete(await self._described(container))
                self._unseen.forget(container)
                return view
        raise EngineFailed("looking at it failed unexpectedly: the log has the error")

    async def _described(self, container: ContainerKey) -> ContainerView:
        """Return the engine's view, and begin the container's rest (2). Silence begins none: its lock may come free at
        any time.
        """
        began = trio.current_time()
        try:
            view = await self._engine.inspect(container.id)
        except (EngineFailed, EngineRefused):
            self._rests.begin(container, trio.current_time() - began)
            raise
        self._rests.begin(container, trio.current_time() - began)
        self._unstarted.looked(container)
        return view

    def _complete(self, view: ContainerView) -> ContainerView:
        """Return the engine's view with the kernel's effective CPUs, which decide whether it runs. EngineFailed."""
        try:
            effective = self._kernel.effective_cpus(view)
            self._kernel_turns.asked(view.key)
            shown = as_the_kernel_shows(view, effective)
            return msgspec.structs.replace(shown, found_below=self._kernel.parent_of(shown))
        except StateError as error:
            raise EngineFailed(f"where it runs cannot be found out: {error}") from error
