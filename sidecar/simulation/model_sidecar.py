"""ModelSidecar: the daemon in virtual time. Its decisions are `step`'s own; its tasks are entries of an agenda.

It connects a BusyHost and `step` as the real edges do: it looks at changes, performs orders through the engine's lock
of each container, answers each with a fact, waits for timers, writes projections before a notice begins, and measures
loads every period. The facts of one instant are one burst. When killed, it forgets everything but the State.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from sidecar.commit.journal import world_line
from sidecar.config.config import Config
from sidecar.config.running_settings import new_doubts
from sidecar.decide.books.load_wish import follows_load, is_news
from sidecar.decide.facts import (
    ContainerRemoved,
    ContainerSeen,
    CpusetApplied,
    CpusetFailed,
    EngineConnected,
    EngineInfo,
    Fact,
    Failure,
    InventoryTaken,
    LoadMeasured,
    Phase,
    Purpose,
    RetryDue,
    SettingsChanged,
    TakeAcknowledged,
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
from sidecar.decide.step import step
from sidecar.decide.world import World
from sidecar.projection.projection_of import projection_of
from sidecar.simulation.agenda import Action, Agenda
from sidecar.simulation.busy_container import BusyContainer
from sidecar.simulation.busy_host import ENGINE, BusyHost, Pace
from sidecar.simulation.happenings import Happening, What, after_resizes, begun, told
from sidecar.simulation.model_limits import changed
from state import codec
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.model import State

REFUSED_PAUSE: Final = 30.0
"""Seconds before an update that the engine refused is tried again, as the executor waits."""

FAILED_PAUSE: Final = 0.2
"""Seconds before an update that failed otherwise is tried again."""


class ModelSidecar:
    """The daemon on a host. `world` is its latest, and stays when it is killed; `say` receives each happening."""

    def __init__(
        self,
        host: BusyHost,
        agenda: Agenda,
        config: Config,
        pace: Pace,
        *,
        say: Callable[[Happening], None],
        trace: Callable[[bytes], None] | None = None,
        answered: Callable[[AnswerStart], None] = lambda _: None,
    ) -> None:
        """Begin without having started. `answered` receives the answers to held starts."""
        self._host = host
        self._answered = answered
        self._agenda = agenda
        self._config = config
        self._pace = pace
        self._say = say
        self._trace = trace
        self._books = State()
        self._inbox: list[Fact] = []
        self._lives = 0
        self._tickets = 0
        self._known: dict[ContainerKey, tuple[object, ...]] = {}
        self._landing = 0.0
        """When the engine is done with all orders that it was given."""
        self.is_running = False
        self.world: World = begin(State(), host.machine, config.settings())
        self.is_new = False
        """Whether the world changed since the last look at it."""

    def start(self) -> None:
        """Start: read the State, reach the engine, and look at everything."""
        if self.is_running:
            return
        self._lives += 1
        self.is_running = True
        recorded = self._books
        self.world = begin(recorded, self._host.topology(), self._config.settings())
        self._books = self.world.state
        self._say(Happening(at=self._agenda.now, what=What.SIDECAR_STARTED, why=f"policy {self._config.policy}"))
        self._warn(self._config.doubts_on(self._host.topology()))
        for happening in begun(recorded, self.world, self._agenda.now):
            self._say(happening)
        self._write_down(world_line(codec.encode(self.world)))
        self.hear(EngineConnected(_with_cpus(self._host.machine.online), self.ticket()))
        self._in_this_life(self._pace.hint, self._take_inventory)
        self._in_this_life(self._config.load_period_seconds, self._measure)

    def crash(self) -> None:
        """Kill it. Orders that the engine has already received still take effect."""
        self.is_running = False
        self._inbox.clear()
        self._known.clear()
        self._say(Happening(at=self._agenda.now, what=What.SIDECAR_CRASHED))

    def reload(self, config: Config) -> None:
        """Read the configuration and the machine again; later if it does not run: at its start."""
        before, self._config = self._config, config
        machine = self._host.topology()
        if self.is_running:
            self._warn(new_doubts(before, config, machine))
        self.hear(TopologyRead(self._host.topology()))
        self.hear(SettingsChanged(codec.to_builtins(config.settings())))

    def _warn(self, sentences: Iterable[str]) -> None:
        for sentence in sentences:
            self._say(Happening(at=self._agenda.now, what=What.WARNING, why=sentence))

    def hear(self, fact: Fact) -> None:
        """Add a fact for the next decision; it is lost while the sidecar does not run."""
        if self.is_running:
            self._inbox.append(fact)

    def look_at(self, key: ContainerKey) -> None:
        """Look at a changed container soon, when the engine is done with it."""
        if self.is_running:
            self._in_this_life(self._pace.hint, partial(self._look, key))

    def read_topology(self) -> None:
        """Read the changed machine soon."""
        if self.is_running:
            self._in_this_life(self._pace.hotplug, lambda: self.hear(TopologyRead(self._host.topology())))

    def decide(self) -> None:
        """Take the facts of this instant as one burst: step, tell, and start the orders."""
        while self._inbox:
            burst, self._inbox = self._inbox, []
            before = self.world
            self.world, orders = step(before, burst)
            self._write_down(codec.encode(burst) + b"\n")
            self._books = self.world.state
            self.is_new = True
            now = self._agenda.now
            for happening in (*told(before, self.world, now), *after_resizes(before, self.world, burst, now)):
                self._say(happening)
            self._tell()
            for order in orders:
                self._perform(order)

    def _in_this_life(self, seconds: float, action: Action) -> None:
        life = self._lives
        self._agenda.after(seconds, lambda: action() if self.is_running and self._lives == life else None)

    def _write_down(self, line: bytes) -> None:
        if self._trace:
            self._trace(line)

    def ticket(self) -> int:
        """Return the next number of what is asked or looked at."""
        self._tickets += 1
        return self._tickets

    # Looks.

    def _look(self, key: ContainerKey, *, has_turn: bool = False) -> None:
        """Look at a container. `has_turn` says that it is this look's turn at the engine's lock."""
        real = self._host.containers.get(key)
        if real is None:
            self.hear(ContainerRemoved(key, self.ticket()))
        elif real.held is not None:
            return  # It is looked at when the engine's lock is free again.
        elif real.free_at > self._agenda.now and not has_turn:
            # What the engine is asked for from now on waits behind this look.
            self._in_this_life(real.free_at - self._agenda.now, partial(self._look, key, has_turn=True))
        else:
            real.is_unseen = False
            self.hear(ContainerSeen(real.view(), self.ticket()))

    def _take_inventory(self) -> None:
        if not self.world.is_ready and self._landing > self._agenda.now:
            # The engine answers for a container when it has done what it was asked for before (decision 0011).
            self._in_this_life(self._landing - self._agenda.now, self._take_inventory)
            return
        began, known = self.ticket(), self.world.containers
        views = tuple(real.view() for real in self._host.containers.values())
        for real, view in zip(self._host.containers.values(), views, strict=True):
            # A glance, at one whose lock is held, does not tell where it runs.
            real.is_unseen = real.is_unseen and view.is_glance
        gone = tuple(key for key in known if key not in self._host.containers)
        seen = tuple(view for view in views if view.key not in known or known[view.key].view != view)
        if seen or gone or not self.world.is_ready:
            self.hear(InventoryTaken(seen, gone, began))
        self._in_this_life(self._config.reconcile_seconds, self._take_inventory)

    def _measure(self) -> None:
        loads = []
        for key in self.world.state.assignments:
            real = self._host.containers.get(key)
            if real and real.phase is Phase.RUNNING and follows_load(self.world, key):
                load = real.load(self._agenda.now, self._config.load_half_life_seconds)
                if load and is_news(self.world, load):
                    loads.append(load)
        if loads:
            self.hear(LoadMeasured(tuple(loads)))
        self._in_this_life(self._config.load_period_seconds, self._measure)

    # Projections.

    def _tell(self) -> None:
        """Update the projections, which are true at each instant: they omit CPUs from the moment the taking order is
        sent.
        """
        for key, container in self.world.containers.items():
            real = self._host.containers.get(key)
            if real is None or not real.follows:
                continue
            known = (container, self.world.state.assignments.get(key))
            if all(a is b for a, b in zip(self._known.get(key, (None, None)), known, strict=True)):
                continue
            self._known[key] = known
            real.advance(self._agenda.now)
            real.told = projection_of(self.world, container)

    # Orders.

    def _perform(self, order: Order) -> None:
        match order:
            case ApplyCpuset():
                self._begin_apply(order)
            case StartTimer():
                if order.purpose is Purpose.GRACE:
                    self._give_notice(order)
                ended = TimerEnded(order.container, order.purpose, order.number)
                self._in_this_life(order.seconds, lambda: self.hear(ended))
            case SendSignal():
                real = self._host.containers.get(order.container)
                if real:
                    what = What.SIGNALLED
                    self._say(Happening(at=self._agenda.now, what=what, container=real.name, why=order.signal))
            case StopContainer():
                self._agenda.after(self._pace.stop, partial(self._stopped, order.container))
            case AnswerStart():
                self._answered(order)
            case HoldAnswers() | WriteCpuset():
                raise AssertionError("there is no hand here")
            case LookAgain():
                self.look_at(order.container)
            case ReadTopology():
                self.read_topology()

    def _give_notice(self, order: StartTimer) -> None:
        real = self._host.containers.get(order.container)
        if real is None or not real.follows or real.moves_in is None:
            return
        self._in_this_life(real.moves_in, partial(self._acknowledge, real, real.starts, order.number))

    def _acknowledge(self, real: BusyContainer, start: int, number: int) -> None:
        assignment = self.world.state.assignments.get(real.key)
        leaving = assignment.leaving if assignment else None
        if leaving is None or leaving.number != number or leaving.is_due or real.starts != start or not real.effective:
            return
        now = self._agenda.now
        self._say(Happening(at=now, what=What.ACKNOWLEDGES, container=real.name, cpus=leaving.cpus))
        self.hear(TakeAcknowledged(real.key, number))

    def _stopped(self, key: ContainerKey) -> None:
        real = self._host.containers.get(key)
        if real and real.phase.is_live:
            self._host.die(real, self._agenda.now)
            self._say(Happening(at=self._agenda.now, what=What.STOPPED, container=real.name, why="by the sidecar"))
            self.look_at(key)

    def _begin_apply(self, order: ApplyCpuset) -> None:
        real = self._host.containers.get(order.container)
        if real and real.held is not None:
            real.waiting.append(partial(self._begin_apply, order))
            return
        now = self._agenda.now
        # A container that is being started will be live when its turn comes.
        is_live = real is not None and (real.phase.is_live or real.free_at > now)
        ends = self._agenda.later(
            self._pace.apply if is_live else self._pace.store, begins=real.free_at if real else now
        )
        if real:
            real.free_at = ends
        self._landing = max(self._landing, ends)
        self._agenda.at(ends, partial(self._end_apply, order, self._lives))

    def _end_apply(self, order: ApplyCpuset, life: int) -> None:
        real, is_heard = self._host.containers.get(order.container), self.is_running and self._lives == life
        objection = self._host.objection(real, order.update) if real else "there is no such container"
        if real is not None and not objection:
            before = real.effective
            self._host.update(real, changed(order.update), self._agenda.now)
            if real.effective is not None and before != real.effective:
                self._say(_runs(real, before, self._agenda.now))
            if not is_heard:
                # The engine tells of an order of an earlier life as of anybody else's.
                self.look_at(order.container)
            else:
                self.hear(CpusetApplied(order.container, order.number, real.effective, self.ticket()))
        elif is_heard:
            failure = Failure.REFUSED if real else Failure.GONE
            self.hear(CpusetFailed(order.container, order.number, failure, objection, self.ticket()))
            pause = REFUSED_PAUSE if real else FAILED_PAUSE
            self._in_this_life(pause, lambda: self.hear(RetryDue(order.container, order.number)))


def _runs(real: BusyContainer, before: CPUSet | None, now: float) -> Happening:
    cpus, was = real.effective or CPUSet(), before or CPUSet()
    return Happening(at=now, what=What.RUNS_ON, container=real.name, cpus=cpus, was=was)


def _with_cpus(online: CPUSet) -> EngineInfo:
    return EngineInfo(name=ENGINE, version="1", api_version="1.41", ncpu=len(online), cgroup_version="2")
