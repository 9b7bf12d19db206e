"""A pure model of a host: what containers really do, next to what the World believes. Histories play on it.

Each way in which the two can diverge is a verb: outcomes lost before or after an order took effect (or taking effect
later), looks that arrive late and out of order, events never seen, updates by other tools, CPUs going offline, the
daemon killed and restarted at any point. The engine does one order at a time per container, as real ones do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sidecar.commit.unsaved import may_be_saved_later
from sidecar.decide.container.container import Standing
from sidecar.decide.facts import (
    ContainerRemoved,
    ContainerSeen,
    CpusetApplied,
    CpusetFailed,
    EngineConnected,
    EngineDisconnected,
    Fact,
    Failure,
    InventoryTaken,
    RetryDue,
    SettingsChanged,
    StopFailed,
    TimerEnded,
    TopologyRead,
)
from sidecar.decide.orders import (
    AnswerStart,
    ApplyCpuset,
    HoldAnswers,
    LookAgain,
    Order,
    ReadTopology,
    SendSignal,
    StartTimer,
    StopContainer,
    WriteCpuset,
)
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import Settings
from sidecar.decide.step import step
from sidecar.decide.world import replace
from sidecar.simulation.model_limits import changed
from state.codec import decode, encode, to_builtins
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.model import State
from state.topology import Topology
from tests.support.decide.behind_starts import BehindStarts
from tests.support.decide.modelhost import Host
from tests.support.decide.news import Inventory, Look, inventory_of
from tests.support.decide.real import ENGINE, Real
from tests.support.decide.rights import rights_after
from tests.support.decide.telling import told_after

_LEFT_ALONE = (Standing.STRANGER, Standing.UNMANAGED)


class Reality(Host):
    """A host with a daemon on it. `orders_given` holds (world before, order) of every order of the last burst."""

    def __init__(self, machine: Topology, settings: Settings, *, needs_service: bool = True) -> None:
        super().__init__(machine, settings.shared_slice, needs_service=needs_service)
        self.settings = settings
        self.told_alone: Mapping[ContainerKey, CPUSet] = {}
        self.redeploys, self.changes_rights, self.tickets = False, False, 0
        self.list_rests = False
        """Whether the engine is slow to list its containers: most inventories go without a list."""
        self.wraps = False
        """Whether most containers that chose no runtime which asks start through one all the same."""
        self.flight: list[ApplyCpuset] = []
        self.landed, self.answered, self.overtaken = set[int](), set[int](), set[int]()
        """`answered` are the starts that this run of the daemon answered, `overtaken` those under earlier settings."""
        self.late: list[ApplyCpuset] = []
        self.looks, self.inventories = list[Look](), list[Inventory]()
        self.retries: list[RetryDue] = []
        self.signals, self.stopping = list[SendSignal](), list[StopContainer]()
        self.paused: dict[ContainerKey, int] = {}
        self.failed_with_memory: set[ContainerKey] = set()
        self.checkpoint = State()
        self.bursts: list[tuple[Fact, ...]] = []
        self.first = self.world = self.knowing(begin(State(), machine, settings))
        self.planned_from = self.world
        self.recorded = self.world.state
        """The State before the last burst, or before the daemon started."""
        self.last_orders: tuple[Order, ...] = ()
        self.new_orders, self.new_moves = list[ApplyCpuset](), list[ApplyCpuset]()
        self.new_answers: list[AnswerStart] = []
        self.given_back: list[Real] = []
        self.came_to_rest, self.blocked = True, list[Look]()
        self.behind = BehindStarts()
        self.pulls: list[HoldAnswers | WriteCpuset] = []
        self.connect()

    def ticket(self) -> int:
        """Return the next ticket."""
        self.tickets += 1
        return self.tickets

    def feed(self, *facts: Fact) -> None:
        """Let the daemon take a burst: step, commit, and start the orders."""
        self._take_for_their_own()
        self.bursts.append(facts)
        if any(isinstance(fact, SettingsChanged | TopologyRead) for fact in facts):
            self.failed_with_memory.clear()
        self.planned_from, self.recorded = self.world, self.world.state
        self.world, orders = step(self.world, facts)
        self.last_orders = orders
        self.told_alone = told_after(self.told_alone, self.world)
        forgotten = set(self.planned_from.state.originals) - set(self.world.state.originals)
        known = [(self.containers[id], each) for id, each in self.world.containers.items() if id in self.containers]
        went = [(real, each.wish.standing) for real, each in known if real.key in forgotten]
        self.given_back = [r for r, standing in went if self.world.is_releasing or standing in _LEFT_ALONE]
        if not may_be_saved_later(self.checkpoint, self.world, orders):
            self.checkpoint = self.world.state
        self.new_orders, self.new_moves = Reality.moves_of(self, orders), self.moves_of(orders)
        self.new_answers = [order for order in orders if isinstance(order, AnswerStart)]
        for order in orders:
            self._start(order)

    def pull(self, order: HoldAnswers | WriteCpuset) -> None:
        """Give an order to the hand."""
        raise AssertionError("there is no hand here")

    def moves_of(self, orders: Sequence[Order]) -> list[ApplyCpuset]:
        """Return the orders that move containers."""
        return [order for order in orders if isinstance(order, ApplyCpuset)]

    def _take_for_their_own(self) -> None:
        """Take the present limits of restored containers as their originals, before the next order."""
        for real in self.given_back:
            real.is_ours, real.had = False, real.limits
        self.given_back = []

    def _start(self, order: Order) -> None:
        match order:
            case ApplyCpuset():
                self.flight.append(order)
            case StartTimer():
                self.time(order, self.world)
            case HoldAnswers() | WriteCpuset():
                self.pull(order)
            case LookAgain():
                self.begin_look(order.container)
            case StopContainer():
                self.stopping.append(order)
            case SendSignal():
                self.signals.append(order)
            case AnswerStart():
                if (real := self.containers.get(order.container)) and real.held == order.number:
                    real.held, real.verdict = None, order
                    self.answered.add(order.number)
            case ReadTopology():
                self.pending_read = True

    def unlock(self, real: Real) -> None:
        """End a start: the engine now does what waited behind it, and answers those that asked meanwhile."""
        self.behind.land(self, real)
        for look in [each for each in self.blocked if each.container == real.key]:
            self.blocked.remove(look)
            self.looks.append(Look(real.view(), real.key, look.began))

    def is_being_looked_at(self, key: ContainerKey) -> bool:
        """Return whether a look at it, or at its group, is under way. At what is busy it waits, unseeing."""
        keys = {each.key for each in (self.containers.get(key), self.group) if each and not each.is_busy}
        waiting = any(look.container in keys for look in self.blocked)
        covered = any(each.covers(one) for each in self.inventories for one in {key, *keys})
        return waiting or covered or any(look.container in {key, *keys} for look in self.looks)

    def begin_look(self, container: ContainerKey) -> None:
        """Look at a container; the answer is delivered later, perhaps after others."""
        real = self.containers.get(container)
        if real and real.is_locked:
            self.blocked.append(Look(None, container, self.ticket()))
            return
        self.looks.append(Look(real.view() if real else None, container, self.ticket()))
        if real:
            real.be_looked_at()

    def deliver_look(self, index: int) -> None:
        """Deliver a look to the allocator."""
        look = self.looks.pop(index)
        if look.view is None:
            self.feed(ContainerRemoved(look.container, look.began))
        else:
            self.feed(ContainerSeen(look.view, look.began))

    def take_inventory(self) -> None:
        """Look at everything, and deliver it at once."""
        if self.is_reached:
            self.begin_inventory()
            self.deliver_inventory(len(self.inventories) - 1)

    def begin_inventory(self) -> None:
        """Look at everything; it is delivered later, perhaps after other news."""
        if self.is_reached:
            self.inventories.append(self.inventory(self.containers.values()))

    def inventory(self, reals: Iterable[Real], engine: str = "") -> Inventory:
        """Return a look at these; at those of them that are known, if the list of their engine rests."""
        began = self.ticket()
        rests = self.list_rests and began % 4 and not self.world.is_absent(ContainerKey(engine or ENGINE, ""))
        return inventory_of(reals, began, engine, known=self.world.containers if rests else None)

    def deliver_inventory(self, index: int) -> None:
        """Deliver an inventory to the allocator. Without a list, `gone` are those at which it did not look."""
        taken = self.inventories.pop(index)
        gone = tuple(sorted(self.world.containers.keys() - {view.key for view in taken.views}))
        self.feed(InventoryTaken(taken.views, gone, taken.began, has_list=taken.has_list))

    def read_topology(self) -> None:
        """Report the machine after a hotplug."""
        self.feed(TopologyRead(self.topology()))

    def land(self, index: int) -> None:
        """Let an order take effect; its answer is still on its way."""
        order = self.flight[index]
        if self._is_locked(order.container):
            return
        real = self.containers.get(order.container)
        if order.number not in self.landed and (real is None or not self.objection(real, order.update)):
            self._land_earlier(order)
            self.landed.add(order.number)
            self.take_effect(order)

    def _land_earlier(self, order: ApplyCpuset) -> None:
        for late in [each for each in self.late if each.container == order.container]:
            self.late.remove(late)
            self.take_effect(late)

    def deliver(self, index: int, how: str) -> None:
        """End one order: ok, lost-before, lost-after, lost-late, failed, failed-after, ineffective (above, CPUs lack),
        overwritten (another tool writes to the kernel as well). While a start holds the lock, it can only be given up.
        """
        order = self.flight[index]
        if self._is_locked(order.container):
            self._give_up(order, how)
            return
        self.flight.pop(index)
        self._land_earlier(order)
        real = self.containers.get(order.container)
        if order.number in self.landed:
            how = "landed" if how in ("ok", "ineffective", "overwritten") else "lost"
        if real is None:
            self._failed(order, Failure.GONE)
        elif how not in ("landed", "lost") and self.objection(real, order.update):
            self._failed(order, Failure.REFUSED)
        elif how in ("ok", "landed", "ineffective", "overwritten"):
            if how != "landed":
                self._take_effect_as(order, real, how)
            self._accepted(order, real)
        elif how in ("lost-before", "lost"):
            self._failed(order, Failure.LOST)
        elif how == "lost-after":
            self.take_effect(order)
            self._failed(order, Failure.LOST)
        elif how == "lost-late":
            self.late.append(order)
            self._failed(order, Failure.LOST)
        elif how == "failed-after":
            self.write(real, order.update.cpus)
            self._failed(order, Failure.FAILED)
        else:
            self._failed(order, Failure.FAILED)

    def _take_effect_as(self, order: ApplyCpuset, real: Real, how: str) -> None:
        """Let the engine take the order; the kernel may apply something else."""
        self.relent(real)
        if how == "ineffective":
            self.shrink_above(real)
        self.take_effect(order)
        if how == "overwritten" and real.effective is not None:
            real.meddled, real.is_unseen = self.online - order.update.cpus or self.online, True
            self.kernel.write(real.id, real.meddled)

    def _accepted(self, order: ApplyCpuset, real: Real) -> None:
        """Return the outcome of an order that the engine took: for a live container, what the kernel shows is final."""
        effective = real.effective if order.live else None
        if effective is None or effective == order.update.cpus:
            self.feed(CpusetApplied(order.container, order.number, effective, self.ticket()))
            return
        # The news says where it runs and what it is configured for.
        real.be_shown()
        real.is_unseen = real.is_unseen and real.cpuset != str(order.update.cpus)
        self._failed(order, Failure.INEFFECTIVE, effective)

    def _is_locked(self, container: ContainerKey) -> bool:
        real = self.containers.get(container)
        return real is not None and real.is_locked

    def _give_up(self, order: ApplyCpuset, how: str) -> None:
        if how in ("lost-before", "lost-late"):
            self.flight.remove(order)
            self.late += [order] if how == "lost-late" else []
            self._failed(order, Failure.LOST)

    def go_on(self) -> bool:
        """Let one due thing happen, successfully; return whether there was any."""
        free = [index for index, order in enumerate(self.flight) if not self._is_locked(order.container)]
        if free:
            self.deliver(free[0], "ok")
        elif self.looks:
            self.deliver_look(0)
        elif self.inventories:
            self.deliver_inventory(0)
        elif self.retries:
            self.retry(0)
        elif self.stopping:
            self.deliver_stop(0)
        elif self.timers:
            self.time_out(0)
        else:
            return False
        return True

    def land_late(self) -> bool:
        """Let a lost order take effect after all; return whether there was one that can."""
        free = [order for order in self.late if not self._is_locked(order.container)]
        for order in free[:1]:
            self.late.remove(order)
            self.take_effect(order)
        return bool(free)

    def take_effect(self, order: ApplyCpuset) -> None:
        """Let the engine carry out an order, if it can."""
        real = self.containers.get(order.container)
        if real is not None and not self.objection(real, order.update):
            real.is_ours, real.is_tampered = True, False
            self.update(real, changed(order.update))
            self.note(real, order.update.cpus)

    def _failed(self, order: ApplyCpuset, failure: Failure, effective: CPUSet | None = None) -> None:
        self.retries.append(RetryDue(order.container, order.number))
        if failure is not Failure.REFUSED:
            self.paused[order.container] = order.number
        if order.update.mems is not None and failure is not Failure.LOST:
            self.failed_with_memory.add(order.container)
        self.feed(CpusetFailed(order.container, order.number, failure, f"it {failure.value}", self.ticket(), effective))

    def deliver_stop(self, index: int, *, fails: bool = False) -> None:
        """Report whether a container that was ordered to stop has stopped."""
        order = self.stopping.pop(index)
        real = self.containers.get(order.container)
        if real is None or not real.phase.is_live:
            return
        if fails:
            self.feed(StopFailed(order.container, "it cannot be stopped"))
        else:
            self.stop(real)
            self.begin_look(real.key)

    def retry(self, index: int) -> None:
        """End a pause after a failure."""
        due = self.retries.pop(index)
        if self.paused.get(due.container) == due.order:
            del self.paused[due.container]
        self.feed(due)

    def time_out(self, index: int) -> None:
        """Fire a timer."""
        timer = self.timers.pop(index)
        self.feed(TimerEnded(timer.container, timer.purpose, timer.number))

    def read_settings(self, settings: Settings) -> None:
        """Send SIGHUP, with other settings."""
        may = rights_after(self.settings.may, settings.may) if self.changes_rights else self.settings.may
        self.settings = settings = replace(settings, shared_slice=self.settings.shared_slice, may=may)
        self.overtaken |= {real.verdict.number for real in self.containers.values() if real.verdict}
        self.feed(SettingsChanged(to_builtins(settings)))

    def connect(self, *, is_slow: bool = False) -> None:
        """Reach the engine, and look at everything; other news may come before that is delivered."""
        self.is_reached, self.there_when_reached = True, frozenset(self.containers)
        self.feed(EngineConnected(self.engine_info(), self.ticket()))
        self.begin_inventory()
        if not is_slow:
            self.deliver_inventory(len(self.inventories) - 1)

    def disconnect(self) -> None:
        """Lose the engine; outstanding orders end with unknown outcome, and no inventories are taken."""
        self.is_reached = False
        self.feed(EngineDisconnected("gone"))

    def crash(self, fates: Sequence[bool], *, is_slow: bool = False, is_busy: bool = False) -> None:
        """Kill the daemon; each outstanding order took effect, or never will, or is still to come: it waits behind a
        start or something else that the engine does with the container (`is_busy`). The daemon starts
        again from its checkpoint. Starts that are held stay so, and ask nobody.
        """
        self.behind.leave(self, fates, is_busy=is_busy)
        self.flight, self.late, self.looks, self.retries, self.timers, self.blocked = [], [], [], [], [], []
        self._take_for_their_own()
        self.landed, self.inventories, self.bursts, self.stopping = set(), [], [], []
        self.paused, self.failed_with_memory, self.told_alone, self.answered = {}, set(), {}, set()
        self.recorded = saved = decode(encode(self.checkpoint), State)
        self.first = self.world = self.knowing(begin(saved, self.topology(), self.settings))
        self.connect(is_slow=is_slow)
