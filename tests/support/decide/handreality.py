"""A Reality with a hand on its cgroups: kernel and engine are two places, and a birth is answered in its instant.

An order to the hand is carried out at once or later, and reported later still, in order. The hand may fail to write a
group, may be lost, and come back; the daemon may be killed between the two legs of a change.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence
from typing import Any, Final

from sidecar.decide.facts import ContainerRemoved, ContainerSeen, ContainerView, Fact, InventoryTaken, Phase
from sidecar.decide.hand_facts import AnswersHeld, CpusetWritten, HandLost, HandReady, Overwritten, Slipped, WriteFailed
from sidecar.decide.orders import ApplyCpuset, HoldAnswers, Order, WriteCpuset
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.sightings import as_the_kernel_shows
from sidecar.decide.world import replace
from sidecar.failures import CgroupClosed, CgroupGone
from sidecar.simulation.model_hand import DEFAULT_PARENTS, ModelHand
from state.cpuset import EMPTY, CPUSet, union
from state.key import ContainerKey
from state.topology import Topology
from tests.support.decide.glances import begin_start
from tests.support.decide.real import ENGINE, LATE_PARENT, NEVER_PARENT, Real
from tests.support.decide.reality import Reality

_PARENTS: Final = (LATE_PARENT, NEVER_PARENT)


class Temper(enum.Enum):
    """How the hand of a history behaves (`hand_verbs`)."""

    STEADY = enum.auto()
    PROMPT = enum.auto()
    WEAK = enum.auto()
    RESTLESS = enum.auto()


class HandReality(Reality):
    """A Reality with a hand, which is there from the beginning."""

    may_watch: tuple[str, ...] = (LATE_PARENT,)
    """The parents that it can watch, if it is asked, beside the default."""

    def __init__(
        self, machine: Topology, settings: Settings, temper: Temper = Temper.STEADY, *, needs_service: bool = True
    ) -> None:
        self.temper = temper
        self.has_slow_starts = True
        """Whether the engine is long about some starts, after their programs run."""
        self.denied: set[str] = set()
        """The containers whose groups the hand can never write."""
        self.called: dict[str, str] = {}
        """By their ids, containers in groups that are called like other containers, and the ids of these."""
        self.is_lost = self.has_missed = False
        """Whether the hand has ended, or holds its answers again for a group that is stuck, and that is not reported
        yet.
        """
        self.slips: list[Slipped] = []
        """What the hand tells of these, as far as that is not reported yet."""
        self.wrested: dict[ContainerKey, int] = {}
        """The containers of which that was reported, and the newest ticket, until it was told that they are calm."""
        self.unsure: dict[ContainerKey, int] = {}
        """The same, until a look that began later."""
        self.astray: set[int] = set()
        """The writes after which the kernel showed other CPUs, and that are not reported yet."""
        self.carried: HoldAnswers | None = None
        """The last answers that the hand held."""
        self.tried_on = EMPTY
        """The CPUs that were online when the hand last tried its answers, and told where newborns are stuck."""
        self.is_home_told = settings.policy is PolicyName.DYNAMIC
        self.hand: ModelHand | None = None
        self.hand_news: list[Fact] = []
        self.new_answers_told: list[HoldAnswers] = []
        super().__init__(machine, settings, needs_service=needs_service)
        for parent in _PARENTS:
            self.kernel.confine(EMPTY, parent.strip("/"))
        self.begin_hand()

    @property
    def is_blind(self) -> bool:
        """Whether something happened to the hand that is not reported yet."""
        return self.is_lost or self.has_missed or bool(self.astray or (self.hand and self.hand.missed))

    def is_unheard(self, key: ContainerKey) -> bool:
        """Return whether the hand could not write this container, and that is not reported yet: nothing undoes what
        others write into it meanwhile.
        """
        failed = [fact.container for fact in self.hand_news if isinstance(fact, WriteFailed) and not fact.is_gone]
        return key in failed or any(slip.container == key for slip in self.slips)

    @property
    def newly_stuck(self) -> CPUSet:
        """Where the hand found that newborns are stuck, as far as that is not reported yet."""
        return union(fact.stuck for fact in self.hand_news if isinstance(fact, AnswersHeld))

    def create(self, *args: Any, **kwargs: Any) -> Real:
        """Add a container; some name a cgroup parent of their own, and some are locked at once."""
        real = super().create(*args, **kwargs)
        if not real.is_member and self.created % 5 in (3, 4):
            real.parent = _PARENTS[self.created % 5 - 3]
            real.home = real.parent.strip("/")
            if real.home == LATE_PARENT.strip("/") and self.created % 4 == 0:
                self._call_like_another(real)
        if self.temper is Temper.WEAK and self.created % 3 == 0:
            self.denied.add(real.id)
        real.is_busy = self.created % 6 == 4
        return real

    def _call_like_another(self, real: Real) -> None:
        """Have a container name a parent that is called like one that asks for CPUs, elsewhere. The engine makes that
        group, and it is confined with what is inside.
        """
        others = [
            each for each in self.containers.values() if "cpuset.exclusive" in each.labels and each.home != real.home
        ]
        if others:
            self.called[real.id] = others[-1].id
            real.parent = f"{LATE_PARENT}/{others[-1].id}"

    def note(self, real: Real, cpus: CPUSet) -> None:
        """Record the CPUs that it was ordered onto. Where the hand is, it runs where the hand wrote it."""
        answer = real.answer(self.online)
        super().note(real, cpus if answer is None else (real.effective or cpus) if answer else answer)

    def start(self, real: Real, now: float = 0.0) -> bool:
        """Start it. While the engine is away, the kernel alone tells of one that is not known, as in a glance without
        labels.
        """
        self.hear_of_the_run_before(real)
        is_running = super().start(real, now)
        if is_running and not self.is_reached and self.hand and real.key not in self.world.containers:
            unread = ContainerView(engine=real.key.engine, id=real.id, name=real.key.short, phase=Phase.EXITED)
            shown = as_the_kernel_shows(replace(unread, is_glance=True), real.effective)
            found_below = real.glance().found_below
            self.hand_news.append(ContainerSeen(replace(shown, found_below=found_below), self.ticket()))
        return is_running

    def hear_of_the_run_before(self, real: Real) -> None:
        """Report what the hand told of it: that a group of it was shut is heard sooner than of another run, because a
        start takes the engine longer.
        """
        while any(slip.container == real.key for slip in self.slips) and self.hear():
            pass

    def die(self, real: Real, now: float = 0.0, *, restarts: bool = False) -> None:
        """End its processes. That of one of which nothing else was told is told by the kernel, too."""
        super().die(real, now, restarts=restarts)
        known = self.world.containers.get(real.key)
        is_unread = known is not None and known.view.is_glance and not self.world.state.has_records(real.key)
        if is_unread and not self.is_reached and self.hand:
            self.hand_news.append(ContainerRemoved(real.key, self.ticket()))
            self.ended_unread.add(real.key)

    def is_slow_to_start(self, real: Real) -> bool:
        """Return whether the engine is long about the next start of this container, after its program runs."""
        return self.has_slow_starts and (self.tickets + self.created) % 6 == 0

    def begin_hand(self) -> None:
        """Let the daemon open the hand, once it has heard the end of an earlier one."""
        if self.hand is None and not self.pulls and not self.hand_news and not self.slips:
            self.hand = ModelHand(
                self.kernel, ENGINE, self.may_watch, denied=self.denied, called=self.called, tell_slip=self._slip
            )
            self.carried = None
            # In some histories the configuration has the engine's default parent, in the others it is found.
            home = DEFAULT_PARENTS if self.is_home_told else ()
            self.hand_news.append(HandReady(self.hand.parents, self.ticket(), home=home))

    def lose_hand(self) -> None:
        """Let the hand end by itself; what it was ordered before fails."""
        if self.hand is None:
            return
        self._end_hand()
        self.is_lost = True
        while self.act():
            pass
        self.hand_news.append(HandLost("it is gone", self.ticket()))

    def _slip(self, key: ContainerKey) -> None:
        self.slips.append(Slipped(key, "it is closed", self.ticket()))

    def write_own(self, real: Real, cpus: CPUSet) -> None:
        """Have a live container write its own cpuset. If the hand neither undoes nor tells that, it is unseen."""
        before, told = real.effective, len(self.slips)
        real.wrote_itself = real.started_at
        self.kernel.write(real.id, cpus)
        is_told = any(slip.container == real.key for slip in self.slips[told:])
        is_told = is_told or (self.hand is not None and real.id in self.hand.missed)
        if real.effective != before and not is_told:
            real.meddled, real.is_unseen = cpus, True

    def is_out_of_hand(self, real: Real) -> bool:
        """Return whether the group of a live container is shut, or the hand found it so in this run."""
        return self.kernel.is_shut(real.id) or (self.hand is not None and self.hand.has_slipped(real.id))

    def be_calm(self) -> bool:
        """Report which containers were not written for a minute, in which older looks end; return whether any were."""
        late = {slip.container for slip in self.slips} | {key for key in self.unsure if self.is_being_looked_at(key)}
        calm = [Overwritten(key, EMPTY, 0) for key in self.wrested if key not in late]
        for fact in calm:
            self.feed(fact)
        return bool(calm)

    def _note_slips(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            match fact:
                case Slipped() if self.world.hand:
                    self.wrested[fact.container] = self.unsure[fact.container] = fact.ended
                case Overwritten(times=0):
                    self.wrested.pop(fact.container, None)
                case CpusetWritten() if fact.ended > self.unsure.get(fact.container, fact.ended):
                    # It was read back.
                    del self.unsure[fact.container]
                case HandLost():
                    self.wrested, self.unsure = {}, {}
                case ContainerSeen():
                    self._be_sure(fact.view, fact.began)
                case InventoryTaken():
                    for view in fact.seen:
                        self._be_sure(view, fact.began)
                case _:
                    pass

    def _be_sure(self, view: ContainerView, began: int) -> None:
        # A glance at one that is known tells the daemon nothing.
        is_look = not view.is_glance or view.key not in self.world.containers
        if is_look and began > self.unsure.get(view.key, began):
            del self.unsure[view.key]

    def _end_hand(self) -> None:
        if self.hand:
            self.hand.close()
        self.hand = None

    def pull(self, order: HoldAnswers | WriteCpuset) -> None:
        """Give an order to the hand."""
        self.pulls.append(order)
        if isinstance(order, HoldAnswers):
            self.new_answers_told.append(order)

    def feed(self, *facts: Fact) -> None:
        """Let the daemon take a burst."""
        self.new_answers_told = []
        self.is_lost = self.is_lost and not any(isinstance(fact, HandLost) for fact in facts)
        self.astray -= {fact.order for fact in facts if isinstance(fact, CpusetWritten)}
        self._note_slips(facts)
        super().feed(*facts)
        hand = self.world.hand
        is_to_come = any(isinstance(fact, AnswersHeld) for fact in self.hand_news)
        self.has_missed = self.has_missed and hand is not None and (hand.sent is not None or is_to_come)

    def act(self, *, fails: bool = False) -> bool:
        """Let the hand carry out its oldest order; return whether there was one."""
        if not self.pulls:
            return False
        order = self.pulls.pop(0)
        if isinstance(order, WriteCpuset):
            self.hand_news.append(self._written(order, fails=fails))
        elif self.hand:
            if fails and (newborn := [id for id in self.kernel.running() if self.hand.is_newborn(id)]):
                self.hand.closed.add(newborn[order.number % len(newborn)])
            self._hold(order)
        return True

    def _hold(self, order: HoldAnswers) -> None:
        assert self.hand is not None
        self.carried = order
        stuck, self.tried_on = self._held(order, order.resting), self.online
        self._tell_of_late_ones()
        self.hand_news.append(AnswersHeld(order.number, self.hand.parents, stuck, self.ticket()))

    def _held(self, order: HoldAnswers, resting: Collection[ContainerKey] = ()) -> CPUSet:
        """Have the hand hold these answers, and return where newborns are stuck."""
        assert self.hand is not None
        return self.hand.hold(order.answers, order.parents, order.home, resting, keeps_defaults=order.keeps_defaults)

    def _tell_of_late_ones(self) -> None:
        """Have those looked at that were let go, and got back only now what they had."""
        while self.hand and self.hand.given_late:
            id = self.hand.given_late.pop()
            self.begin_look(next((key for key in self.containers if key.id == id), ContainerKey(ENGINE, id)))

    def _written(self, order: WriteCpuset, *, fails: bool) -> Fact:
        id = order.container.id
        if self.hand is None:
            return WriteFailed(order.container, order.number, "there is no hand", is_gone=False, ended=self.ticket())
        if fails and order.number % 3 == 0:
            # It is not there yet, or not any more, for the hand alone.
            return WriteFailed(order.container, order.number, "it has no cgroup", is_gone=True, ended=self.ticket())
        if fails:
            self.hand.closed.add(id)
        try:
            effective = self.hand.write(id, order.update.cpus)
        except CgroupGone as error:
            return WriteFailed(order.container, order.number, str(error), is_gone=True, ended=self.ticket())
        except CgroupClosed as error:
            return WriteFailed(order.container, order.number, str(error), is_gone=False, ended=self.ticket())
        if effective != order.update.cpus:
            self.astray.add(order.number)
        return CpusetWritten(order.container, order.number, effective, self.ticket())

    def hear(self) -> bool:
        """Report what the hand did first; return whether there was anything. If it could not write a group, it looks at
        all that it holds again, and reports that.
        """
        if self.hand and self.hand.missed:
            self.hand.missed.clear()
            if self.carried:
                self.has_missed = True
                # What rested then may run by now.
                self._hold(replace(self.carried, resting=frozenset()))
        if self._is_slip_next():
            self.feed(self.slips.pop(0))
            return True
        if self.hand_news:
            self.feed(self.hand_news.pop(0))
            return True
        return False

    def _is_slip_next(self) -> bool:
        """Return whether a slip is told before the other news. Only those of the hand itself are in order with it."""
        first = self.hand_news[0] if self.hand_news else None
        is_first = first is None or isinstance(first, HandLost) or self.tickets % 2 == 1
        return bool(self.slips) and not isinstance(first, HandReady) and is_first

    def unstick(self) -> bool:
        """Let the hand try again what it could not write; return whether there was anything."""
        known = self.world.hand
        if self.hand is None or known is None or not known.stuck or known.sent or known.held is None:
            return False
        self.hand.closed.clear()
        stuck, self.tried_on = self._held(known.held), self.online
        self._tell_of_late_ones()
        if stuck != known.stuck:
            self.hand_news.append(AnswersHeld(known.held.number, self.hand.parents, stuck, self.ticket()))
        return stuck != known.stuck

    def go_on(self) -> bool:
        """Let one due thing happen, the hand's first."""
        return self.hear() or self.act() or self.unstick() or super().go_on() or self.be_calm()

    def crash(self, fates: Sequence[bool], *, is_slow: bool = False, is_busy: bool = False) -> None:
        """Kill the daemon, and the hand with it; each of its orders was carried out, or never will be. Meanwhile other
        programs lock some containers for which nothing waits in the engine, and the engine is still starting others.
        """
        for index, real in enumerate(self.containers.values()):
            if self.has_slow_starts and index % 3 == 1 and fates[index % len(fates)]:
                begin_start(self, real)
        for index in range(len(self.pulls)):
            if fates[(index + 1) % len(fates)]:
                self.act()
            else:
                self.pulls.pop(0)
        self.pulls, self.hand_news, self.is_lost, self.has_missed, self.astray = [], [], False, False, set()
        self.slips, self.wrested, self.unsure = [], {}, {}
        self._end_hand()
        ordered = {order.container for order in (*self.late, *self.flight)}
        for index, real in enumerate(self.containers.values()):
            is_free = real.key not in ordered and not real.is_locked and real is not self.group
            if is_free and index % 3 == 0 and fates[index % len(fates)]:
                real.is_busy = True
        if fates[0]:
            # It is open before the engine is reached.
            self._begins_with_hand = True
        super().crash(fates, is_slow=is_slow, is_busy=is_busy)

    def connect(self, *, is_slow: bool = False) -> None:
        """Reach the engine; after a crash perhaps with the hand open already."""
        if getattr(self, "_begins_with_hand", False):
            self._begins_with_hand = False
            self.begin_hand()
            while self.hear() or self.act():
                pass
        super().connect(is_slow=is_slow)

    def moves_of(self, orders: Sequence[Order]) -> list[ApplyCpuset]:
        """Return what moves containers: writes, and orders to those that the hand does not hold."""
        found = []
        for order in orders:
            if isinstance(order, WriteCpuset):
                found.append(ApplyCpuset(order.container, order.number, order.update, live=True))
            elif isinstance(order, ApplyCpuset) and not self.world.containers[order.container].is_guarded:
                found.append(order)
        return found
