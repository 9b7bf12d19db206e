"""Simulation: a whole host in virtual time, with the daemon's own decisions; for scenarios, and for programs.

A program makes one, lets people and workloads act (`create`, `start`, `set_demand`, ...), moves the clock with
`advance`, and asks where containers run. Between two calls nothing happens, so another model can run in lockstep:
`advance` to the time of its own next event or to `next_at`, whichever is earlier, and look at `cpus_of`.

The same calls always give the same history. After every instant two things are checked: the laws of the State, and that
no container runs on CPUs on which another one is settled. Violations are recorded in `broken`; there should be none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from sidecar.config.config import Config
from sidecar.config.misfits import misfits
from sidecar.decide.books.give_up import obstacle
from sidecar.decide.books.resize import objection
from sidecar.decide.facts import DefragmentRequested, GiveUpRequested, ResizeRequested
from sidecar.decide.moves.alone import is_alone
from sidecar.decide.moves.settled import is_settled
from sidecar.decide.world import World
from sidecar.simulation.agenda import Action, Agenda
from sidecar.simulation.busy_container import BusyContainer
from sidecar.simulation.busy_host import BusyHost, Pace, ScenarioError
from sidecar.simulation.happenings import Frame, Happening, Holding, What
from sidecar.simulation.intruders import intruders
from sidecar.simulation.model_limits import Limits
from sidecar.simulation.model_sidecar import ModelSidecar
from sidecar.simulation.strict_starts import NOT_RUNNING, StrictStarts
from sidecar.words.counts import agree, counted, named
from sidecar.words.defragmenting import why_not
from sidecar.words.misread import sentences
from sidecar.words.neighbours import whether_alone
from sidecar.words.refusals import sentence
from sidecar.words.settings_text import reloaded
from state.cpuset import EMPTY, CPUSet
from state.invariants import violations
from state.key import ContainerKey
from state.model import State
from state.topology import Topology


class Simulation:
    """A host with the sidecar on it, at time 0. Times are in seconds; containers are identified by their names.

    `log` is all that happened, `frames` where each container ran from when on, `broken` which laws were ever broken.
    """

    def __init__(
        self,
        machine: Topology,
        config: Config,
        *,
        pace: Pace | None = None,
        trace: Callable[[bytes], None] | None = None,
    ) -> None:
        """Begin at time 0. `config` is the daemon's. `trace` receives the lines of the journal."""
        self.log: list[Happening] = []
        self.frames: list[Frame] = []
        self.broken: list[str] = []
        self._pace = pace or Pace()
        self._agenda = Agenda()
        self._host = BusyHost(machine)
        self._starts = StrictStarts(self._host, self._agenda, self._pace.start, self._start_ended, self._runs_already)
        self._sidecar = ModelSidecar(
            self._host,
            self._agenda,
            config,
            self._pace,
            say=self.log.append,
            trace=trace,
            answered=self._starts.answered,
        )
        self._checked: State | None = None
        self._granted: dict[ContainerKey, CPUSet] = {}
        self._waiting_since: dict[ContainerKey, float] = {}
        self._is_changed = True
        self._told = 0
        self.start_sidecar()
        self._end_instant()

    # Asking.

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self._agenda.now

    @property
    def next_at(self) -> float | None:
        """When something happens next by itself; None if nothing will."""
        return self._agenda.next_at

    @property
    def world(self) -> World:
        """What the sidecar knows, or last knew."""
        return self._sidecar.world

    @property
    def machine(self) -> Topology:
        """The machine as it was at the beginning."""
        return self._host.machine

    def cpus_of(self, name: str) -> CPUSet:
        """Return where a container may run in the kernel; nothing while it does not run. Raise ScenarioError."""
        return self._host.named(name).effective or EMPTY

    def usable_of(self, name: str) -> CPUSet:
        """Return where its work runs: a container that follows its projection avoids the leaving CPUs. Raise
        ScenarioError.
        """
        return self._host.named(name).usable

    def is_there(self, name: str) -> bool:
        """Return whether there is such a container now, running or not."""
        return any(each.name == name for each in self._host.containers.values())

    # Acting, now.

    def create(
        self,
        name: str,
        labels: Mapping[str, str] | None = None,
        *,
        limit: float | None = None,
        cpuset: str = "",
        image: str = "",
        runtime: str = "",
        follows: bool = False,
        moves_in: float | None = None,
        demand: float = 0.0,
    ) -> None:
        """Create a container, not started. Raise ScenarioError if the name is in use.

        `limit` is its CPU limit, `cpuset` a pin by hand, `demand` the CPUs that it would use. With the `runtime` of
        strict starts, each start asks the sidecar. With `follows`, it stays on the CPUs of its projection, and
        acknowledges takes `moves_in` seconds after notice, or never.
        """
        limits = Limits(nano_cpus=round((limit or 0) * 1e9), cpuset=cpuset)
        labels = dict(labels or {})
        real = self._host.create(name, labels, limits, self.now, demand, image=image, runtime=runtime)
        real.follows, real.moves_in = follows, moves_in
        self._say(What.CREATED, name)
        self._sidecar.look_at(real.key)

    def start(self, name: str) -> None:
        """Start it; it runs a moment later. The log says so if it runs already. Raise ScenarioError if there is no such
        container.
        """
        real = self._host.named(name)
        if real.is_strict:
            self._hold(real)
        else:
            self._with_lock(real, self._pace.start, self._started)

    def run(self, name: str) -> None:
        """Start it a moment after it was created, as `docker run` does. Raise ScenarioError as `start` does."""
        key = self._host.named(name).key
        self._agenda.after(self._pace.between, lambda: self.start(name) if key in self._host.containers else None)

    def stop(self, name: str) -> None:
        """Stop it; it has ended a moment later. The log says so if it does not run. Raise ScenarioError."""
        self._with_lock(self._host.named(name), self._pace.stop, self._stopped)

    def remove(self, name: str) -> None:
        """Kill it if it runs, and remove it. Raise ScenarioError."""
        real = self._host.named(name)
        self._host.remove(real, self.now)
        self._say(What.REMOVED, name)
        self._sidecar.look_at(real.key)

    def set_demand(self, name: str, cpus: float, *, is_said: bool = False) -> None:
        """Set how many CPUs it would use from now on; log that if `is_said`. Raise ScenarioError."""
        real = self._host.named(name)
        real.advance(self.now)
        real.use.wanted = cpus
        if is_said:
            self._say(What.DEMAND, name, why=counted(cpus, "CPU"))

    def resize(self, name: str, cpus: int) -> None:
        """Order a size, as `cpuset-sidecar resize` does; the log reports an impossible one. Raise ScenarioError."""
        key = self._host.named(name).key
        why = "" if self._sidecar.is_running else NOT_RUNNING
        if not why and (refusal := objection(self.world, key, cpus)):
            why = sentence(refusal)
        self._say(What.RESIZE, name, why=f"not done: {why}" if why else f"to {counted(cpus, 'CPU')}")
        if not why:
            self._sidecar.hear(ResizeRequested(key, cpus))

    def defragment(self) -> None:
        """Order a defragmentation, as `cpuset-sidecar defragment` does; the log says so if it moves nothing."""
        why = why_not(self.world) if self._sidecar.is_running else NOT_RUNNING
        self._say(What.DEFRAGMENT, why=f"not done: {why}" if why else "")
        self._sidecar.hear(DefragmentRequested())

    def switch_off(self, cpus: CPUSet) -> None:
        """Take CPUs offline. The log says which are offline already. Raise ScenarioError if they are the last."""
        gone = cpus & self._host.online
        self._host.switch(self._host.online - gone, self.now)
        self._switched(What.OFFLINE, gone, cpus - gone)

    def switch_on(self, cpus: CPUSet) -> None:
        """Bring CPUs of the machine back online. The log says which of them are online already."""
        back = (cpus & self.machine.online) - self._host.online
        self._host.switch(self._host.online | back, self.now)
        self._switched(What.ONLINE, back, (cpus & self.machine.online) - back)

    def release(self, name: str) -> None:
        """Release the exclusive CPUs of a container, as `cpuset-sidecar release NAME` does; the log reports an
        impossible release. Raise ScenarioError.
        """
        key = self._host.named(name).key
        why = "" if self._sidecar.is_running else NOT_RUNNING
        if not why and (refusal := obstacle(self.world, key)):
            why = sentence(refusal)
        self._say(What.RELEASE, name, why=f"not done: {why}" if why else "")
        if not why:
            self._sidecar.hear(GiveUpRequested(key, self._host.stamp(self.now)))

    def reload(self, config: Config, changes: Sequence[tuple[str, str]] = ()) -> None:
        """Change the configuration, and have the sidecar read it again, as SIGHUP does. One that does not run reads it
        at its start. The log reports the changed keys with their values, or why the machine as it is cannot have them:
        then nothing changes.
        """
        wrong = sentences(misfits(config, self._host.topology()))
        self._say(What.RELOAD, why=f"not done: {'; '.join(wrong)}" if wrong else reloaded(changes))
        if not wrong:
            self._sidecar.reload(config)

    def crash_sidecar(self) -> None:
        """Kill the sidecar; containers continue. The log says so if it does not run."""
        if not self._sidecar.is_running:
            self._say(What.CRASH, why=f"not done: {NOT_RUNNING}")
            return
        self._sidecar.crash()
        self._starts.outlast()
        self._is_changed = True

    def start_sidecar(self) -> None:
        """Start the sidecar (again), from its State. The log says so if it runs already."""
        if self._sidecar.is_running:
            self._say(What.RESTART, why="not done: the sidecar runs already")
            return
        self._sidecar.start()
        self._agenda.after(self._pace.hint, lambda: self._starts.ask_again(self._sidecar))

    # Time.

    def at(self, time: float, action: Action) -> None:
        """Schedule an action at a time."""
        self._agenda.at(time, action)

    def advance(self, until: float) -> tuple[Happening, ...]:
        """Run everything up to and including `until`, which is the new present. Return what happened since the last
        call.
        """
        before = self._told
        self._end_instant()
        while action := self._agenda.due(until):
            action()
            if self._agenda.next_at != self._agenda.now:
                self._end_instant()
        self._agenda.rest_until(until)
        self._told = len(self.log)
        return tuple(self.log[before:])

    def _end_instant(self) -> None:
        self._sidecar.decide()
        if self._agenda.next_at == self._agenda.now:
            # A timer of 0 s: the instant goes on.
            return
        if not self._sidecar.is_new and not self._is_changed:
            return
        self._sidecar.is_new = self._is_changed = False
        self._note_in_place()
        self._check()
        frame = self._frame()
        if not self.frames or frame != _moved(self.frames[-1], frame.at):
            self.frames.append(frame)

    # What the engine does.

    def _hold(self, real: BusyContainer) -> None:
        if real.held is not None:
            real.waiting.append(partial(self._hold, real))
        else:
            self._starts.begin(real, self._sidecar)

    def _start_ended(self, real: BusyContainer, why: str) -> None:
        if why:
            self._say(What.NOT_STARTED, real.name, why=why)
        else:
            self._say(What.STARTED, real.name, cpus=real.effective or EMPTY)
        self._sidecar.look_at(real.key)

    def _with_lock(self, real: BusyContainer, seconds: float, then: Callable[[BusyContainer], None]) -> None:
        if real.held is not None:
            real.waiting.append(partial(self._with_lock, real, seconds, then))
            return
        real.free_at = self._agenda.later(seconds, begins=real.free_at)
        self._agenda.at(real.free_at, partial(self._if_there, real, then))

    def _if_there(self, real: BusyContainer, then: Callable[[BusyContainer], None]) -> None:
        if real.key in self._host.containers:
            then(real)
            self._sidecar.look_at(real.key)

    def _started(self, real: BusyContainer) -> None:
        if real.phase.is_live:
            self._runs_already(real)
        elif self._host.start(real, self.now):
            real.begin(self.now)
            self._say(What.STARTED, real.name, cpus=real.effective or EMPTY)
        else:
            self._say(What.NOT_STARTED, real.name, why=f"it is pinned to {real.cpuset}, and not all of that is online")

    def _stopped(self, real: BusyContainer) -> None:
        if real.phase.is_live:
            self._host.die(real, self.now)
            self._say(What.STOPPED, real.name)
        else:
            self._say(What.STOP, real.name, why="not done: it does not run")

    def _runs_already(self, real: BusyContainer) -> None:
        self._say(What.START, real.name, why="not done: it runs already")

    def _switched(self, what: What, cpus: CPUSet, others: CPUSet) -> None:
        """Tell of CPUs that went or came, and of `others` that had done so before."""
        is_back = what is What.ONLINE
        why = f"{named(others)} {agree(len(others), 'is', 'are')} {'online' if is_back else 'offline'} already"
        if cpus:
            self._say(what, cpus=cpus, why=why if others else "")
            self._sidecar.read_topology()
        elif others:
            self._say(What.SWITCH_ON if is_back else What.SWITCH_OFF, cpus=others, why=f"not done: {why}")

    def _say(
        self, what: What, name: str = "", *, cpus: CPUSet = EMPTY, why: str = "", seconds: float | None = None
    ) -> None:
        self._is_changed = True
        self.log.append(Happening(at=self.now, what=what, container=name, cpus=cpus, why=why, seconds=seconds))

    # What is noted at each instant.

    def _note_in_place(self) -> None:
        """Note each container that is settled on its new grant now, after a change of the grant or a start."""
        world = self.world
        for key in [key for key in self._granted if key not in world.state.assignments]:
            del self._granted[key]
            self._waiting_since.pop(key, None)
        for key, assignment in world.state.assignments.items():
            real, container = self._host.containers.get(key), world.containers.get(key)
            if self._granted.get(key) != assignment.cpus:
                self._granted[key] = assignment.cpus
                self._waiting_since.setdefault(key, self.now)
            if key not in self._waiting_since or real is None or container is None or real.effective != assignment.cpus:
                continue
            if self._sidecar.is_running and is_settled(world, container):
                waited, beside = round(self.now - self._waiting_since.pop(key), 6), whether_alone(world, container)
                self._say(What.IN_PLACE, real.name, cpus=assignment.cpus, why=beside, seconds=waited)

    def _check(self) -> None:
        world = self.world
        found = [] if world.state is self._checked else [str(each) for each in violations(world.state, world.topology)]
        self._checked = world.state
        if self._sidecar.is_running and world.is_ready:
            found += intruders(world, self._host.containers)
        for law in found:
            if law not in self.broken:
                self.broken.append(law)
                self._say(What.BROKEN, why=law)

    def _frame(self) -> Frame:
        state, holdings = self.world.state, list[Holding]()
        for key, real in self._host.containers.items():
            grant = state.assignments.get(key)
            if grant is None and not real.effective:
                continue
            leaving = grant.leaving.cpus if grant and grant.leaving else EMPTY
            cpus, known = real.effective or EMPTY, self.world.containers.get(key)
            holdings.append(
                Holding(
                    name=real.name,
                    cpus=cpus,
                    granted=grant.cpus if grant else None,
                    leaving=leaving & cpus,
                    alone=known is not None and self._sidecar.is_running and is_alone(self.world, known),
                    wants=real.use.wanted,
                )
            )
        return Frame(at=self.now, online=self._host.online, reserved=state.reserved, holdings=tuple(holdings))


def _moved(frame: Frame, at: float) -> Frame:
    return Frame(at=at, online=frame.online, reserved=frame.reserved, holdings=frame.holdings)


__all__ = ["Pace", "ScenarioError", "Simulation"]
