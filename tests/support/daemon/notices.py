"""The laws of CPUs that come and go, from a workload's side: what it may rely on, by its files and by the kernel.

A `Witness` looks after every change of a file, of an order or in the kernel, and does not know how decisions are made.
It checks, for every running exclusive container:

1. A CPU that was its own leaves it only with notice: it was listed in `leaving` for at least the container's grace, and
   for as long as any file promised; or the workload acknowledged a generation that listed it.
2. `leaving` and `deadline_seconds` come together, and leaving CPUs are still in force.
3. A settled container has at least its floor and at most its ceiling, and its original set, which stays.
4. A take counts as forced if it was not acknowledged in time, and as acknowledged if it was.
5. A signal is sent only when the file already shows the change.
6. Once it was settled on a CPU, no other container enters that CPU before it has left.

What the sidecar does not control is excused: CPUs that went offline, and containers that another tool changed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import trio

from sidecar.decide.moves.signals import told_of
from sidecar.decide.world import Told, World
from state.cpuset import EMPTY, CPUSet
from state.projection import Projection, Sharing
from tests.support.daemon.workload import Ack
from tests.support.keys import by_id, docker
from tests.support.notices import SLACK, Notices

HEARING = 1.2
"""Seconds within which an acknowledgement is heard, in the worst case: two slow looks."""


@dataclasses.dataclass
class Run:
    """One start of one container, as its program sees it."""

    told: Projection | None
    effective: CPUSet
    own: CPUSet = EMPTY
    """Told to be in force, and to stay so."""
    alone: CPUSet = EMPTY
    """Told to be in force, and settled."""
    original: CPUSet = EMPTY
    notices: Notices = dataclasses.field(default_factory=Notices)


@dataclasses.dataclass
class Terms:
    """What a container asked for: seconds of notice, floor, ceiling, whether it may be moved."""

    grace: float
    floor: int
    ceiling: int
    moves: bool

    @classmethod
    def of(cls, labels: Mapping[str, str], grace: float) -> Terms:
        """Read the terms from its labels; `grace` is the node's."""
        size = int(labels.get("cpuset.exclusive", "0"))
        return cls(
            grace=float(labels["cpuset.grace"].removesuffix("s")) if "cpuset.grace" in labels else grace,
            floor=int(labels.get("cpuset.min", size)),
            ceiling=int(labels.get("cpuset.max", size)),
            moves=labels.get("cpuset.move") == "true",
        )


class Witness:
    """`breaks` is called with each breach, as a sentence; `terms`, `acks` and `name` answer by a container's id."""

    def __init__(
        self,
        breaks: Callable[[str], None],
        *,
        terms: Callable[[str], Terms],
        acks: Callable[[str], list[Ack]],
        name: Callable[[str], str],
    ) -> None:
        self.forced = 0
        self.acknowledged = 0
        """Takes that came to their end so, under all daemons together."""
        self._breaks = breaks
        self._terms = terms
        self._acks = acks
        self._name = name
        self._runs: dict[str, Run] = {}
        self._said: dict[str, float] = {}

    def said(self, id: str) -> None:
        """Record an acknowledgement through the API of all CPUs that are leaving now, whether they were announced or
        not.
        """
        self._said[id] = trio.current_time()

    def ended(self, id: str) -> None:
        """Record that its processes are gone: its next ones did not read what its files said so far."""
        self._runs.pop(id, None)

    def look(
        self, id: str, told: Projection | None, effective: CPUSet, online: CPUSet, *, is_known: bool, is_excused: bool
    ) -> bool:
        """Read its file, and the CPUs that the kernel lets it run on; return whether the file says something new.
        `is_known`: the daemon knows of this very start; `is_excused`: another tool changed it.
        """
        run = self._runs.setdefault(id, Run(told, effective))
        is_new = told is not None and told != run.told
        if is_excused:
            self._runs[id] = Run(told, effective)
            return is_new
        if told is not None and is_new:
            self._read(id, run, told, online, is_known=is_known)
        for cpu in (run.effective - effective) & run.own & online:
            if fault := self._without_notice(id, run, cpu):
                self._breaks(f"CPU {cpu} was taken from {self._name(id)} {fault}")
        for cpu in effective - run.effective:
            for owner, theirs in self._runs.items():
                if owner != id and cpu in theirs.alone:
                    self._breaks(f"{self._name(id)} is let onto CPU {cpu}, and {self._name(owner)} is still there")
        run.own &= effective
        run.alone &= effective
        run.effective = effective
        run.notices.forget(effective)
        if told is not None and told.settled and told.sharing is Sharing.EXCLUSIVE and is_known:
            self._settled(id, run, told, effective, online)
        return is_new

    def _read(self, id: str, run: Run, told: Projection, online: CPUSet, *, is_known: bool) -> None:
        now, before, run.told = trio.current_time(), run.told, told
        if told.sharing is not Sharing.EXCLUSIVE:
            run.own = run.alone = run.original = EMPTY
            run.notices.forget(EMPTY)
            return
        # 2. The file is consistent.
        if bool(told.leaving) is not (told.deadline_seconds is not None) or not told.leaving <= told.cpus:
            self._breaks(f"{self._name(id)} on {told.cpus} is told {told.leaving} leaving in {told.deadline_seconds} s")
        run.notices.read(told, now, now)
        # 1. For a workload that follows the file, a CPU that the file no longer names is taken.
        for cpu in ((before.cpus if before else EMPTY) - told.cpus) & run.own & online:
            if fault := self._without_notice(id, run, cpu):
                self._breaks(f"CPU {cpu} is no longer told to {self._name(id)} {fault}")
        if is_known:
            if told.cpus <= told.desired | told.leaving:
                # Not while it still runs among all others, and so perhaps where another is leaving.
                run.own |= told.cpus
            run.alone |= told.cpus if told.settled else EMPTY
            if (run.original - told.original) & online and not self._terms(id).moves:
                self._breaks(f"{self._name(id)} began on {run.original} and is told that it began on {told.original}")
            run.original = told.original

    def _without_notice(self, id: str, run: Run, cpu: int) -> str:
        """Return what is wrong with taking this CPU at this moment (rule 1); "" if nothing is."""
        grace = self._terms(id).grace
        return run.notices.fault(CPUSet.of(cpu), trio.current_time(), self._numbers(id), grace)

    def _is_acknowledged(self, id: str, run: Run, cpus: CPUSet) -> bool:
        return run.notices.are_acknowledged(cpus, self._numbers(id))

    def _numbers(self, id: str) -> list[int]:
        return [number for _, number in self._acks(id)]

    def _settled(self, id: str, run: Run, told: Projection, effective: CPUSet, online: CPUSet) -> None:
        """Check rule 3."""
        terms, name = self._terms(id), self._name(id)
        if not terms.floor <= len(effective) and effective <= online:
            self._breaks(f"{name} is settled on {effective}, and its floor is {terms.floor}")
        if len(told.cpus - told.leaving) > terms.ceiling:
            self._breaks(f"{name} is settled on {effective}, and its ceiling is {terms.ceiling}")
        if not told.original & online <= effective:
            self._breaks(f"{name} is settled on {effective} without its original {told.original}")

    def decided(self, before: World, after: World, *, heard_since: float, excused: set[str]) -> None:
        """Check rule 4, after each decision. `heard_since`: how long the daemon has been listening."""
        for key, grant in before.state.assignments.items():
            if key.id not in excused and (now := after.state.assignments.get(key)) and now.forced > grant.forced:
                self._see_forced(key.id, heard_since)
        self.forced += after.state.forced - before.state.forced
        count = after.state.acknowledged - before.state.acknowledged
        self.acknowledged += count
        said = [key for key in before.state.assignments if count and self._may_have_said(key.id, before)]
        if len(said) < count and excused.isdisjoint(by_id(before.state.assignments)):
            self._breaks(f"{count} takes count as acknowledged, and {len(said)} were")

    def _see_forced(self, id: str, heard_since: float) -> None:
        run, acks, now = self._runs.get(id), self._acks(id), trio.current_time()
        if run is None or run.told is None or not run.told.leaving:
            # No CPU was announced as leaving: it was withdrawn already, or is not there yet.
            return
        noticed = max(run.notices.read_for(run.told.leaving, now), default=None)
        if noticed is not None and run.told.leaving <= run.own and noticed < self._terms(id).grace - SLACK:
            self._breaks(f"the take from {self._name(id)} was forced after {noticed:.4f} s")
        if not acks or self._terms(id).grace <= HEARING:
            # A take that ends as it begins is over before an earlier acknowledgement is matched to it.
            return
        at, number = acks[-1]
        answers = run.notices.answers(run.told.leaving)
        if number in answers and max(at, heard_since) < now - HEARING:
            self._breaks(f"{self._name(id)} acknowledged {now - at:.2f} s ago, and the take was forced")

    def _may_have_said(self, id: str, before: World) -> bool:
        grant, run = before.state.assignments[docker(id)], self._runs.get(id)
        if grant.leaving is None or grant.leaving.is_due or docker(id) not in before.containers:
            return False
        if run is None:
            # It has just ended; it may have acknowledged before.
            return bool(self._acks(id))
        if trio.current_time() - self._said.get(id, -HEARING) < HEARING:
            return True
        leaving = told_of(before.containers[docker(id)], grant).leaving
        if leaving and leaving.isdisjoint(run.notices.cpus):
            # Announced before its present start.
            return bool(self._acks(id))
        return self._is_acknowledged(id, run, leaving)

    def signalled(self, id: str, told: Projection | None, world: World) -> None:
        """Check rule 5, when the signal is sent."""
        grant, container = world.state.assignments.get(docker(id)), world.containers.get(docker(id))
        if grant is None or container is None:
            return
        if told is None or Told(told.cpus, told.leaving) != told_of(container, grant):
            self._breaks(f"{self._name(id)} is sent a signal, and its file does not say why")
