"""Real: a container on the modelled host of the histories, with the fates of its starts and orders."""

from __future__ import annotations

import dataclasses
from typing import Final

import msgspec

from sidecar.decide import sightings
from sidecar.decide.facts import ContainerView, Load, Phase
from sidecar.decide.orders import AnswerStart
from sidecar.simulation.model_container import ModelContainer
from sidecar.simulation.model_hand import ModelHand
from sidecar.simulation.model_kernel import ENGINE_GROUP
from sidecar.simulation.model_limits import Limits
from state.cpuset import EMPTY, CPUSet

ENGINE: Final = "reality"
"""What the engine of all of them calls itself."""

OTHER_GROUP: Final = "another"
"""The group of its own of a second engine, if it has one."""

LATE_PARENT: Final = "/late"
"""A cgroup parent that some containers name, and that a hand watches when it is asked."""

NEVER_PARENT: Final = "/never"
"""One that no hand watches."""


@dataclasses.dataclass(kw_only=True, eq=False)
class Real(ModelContainer):
    """A ModelContainer whose starts may be held, and which the daemon may have changed."""

    had: Limits = dataclasses.field(default_factory=Limits)
    """Its limits as it was created, or as they were given back."""
    demand: float = 1.0
    """CPUs that it would use if it had as many as it likes."""
    set_aside: int = 0
    asks: bool = False
    """Whether its runtime asks the sidecar before each start."""
    held: int | None = None
    """The number of a start that waits for an answer; the engine holds its lock."""
    verdict: AnswerStart | None = None
    """The answer to a start that is still to come; the engine holds its lock."""
    told: CPUSet = EMPTY
    """Where its last start was answered, if that is over and no look has begun since."""
    told_before: str = ""
    """When it last started where a daemon that was killed meanwhile, or had other settings, had told it to."""
    is_busy: bool = False
    """Whether another program does something with it for long; the engine holds its lock."""
    called: Phase | None = None
    """What the engine still calls it while it starts it: its program runs already, and the engine holds its lock."""
    is_ours: bool = False
    """Whether an order of the daemon took effect on it that was not taken back."""
    is_tampered: bool = False
    """Whether somebody else changed its cpuset since an order last took effect on it."""
    was_tampered: bool = False
    """Whether somebody else ever changed its cpuset."""
    meddled: CPUSet = EMPTY
    """What another program last wrote into its cgroup, in the kernel alone."""
    wrote_itself: str = ""
    """When the run began in which it last wrote its own cpuset."""
    shown: CPUSet | None = None
    """Where the last look showed it, more than a glance."""
    had_all_of: CPUSet | None = None
    """The CPUs of the shared group when a look or an order's outcome last showed it on all of them; None if it lacked
    some.
    """

    parent: str = ""
    """The cgroup parent that it names."""

    @property
    def is_member(self) -> bool:
        """Whether it is in the cgroup that confines the shared pool."""
        return self.home not in (ENGINE_GROUP, OTHER_GROUP, "") and not self.parent

    def answer(self, online: CPUSet) -> CPUSet | None:
        """Return where a hand would put it at its birth; None if no hand would. Nowhere if all these CPUs are offline:
        then the kernel gives it those of the parent, which a look shows.
        """
        hand = self.kernel.watcher
        if not isinstance(hand, ModelHand) or f"/{self.home}" not in hand.parents:
            return None
        verdict = self.verdict.update.cpus if self.verdict and self.verdict.update else None
        written = verdict or (CPUSet.parse(self.cpuset) if self.cpuset else EMPTY)
        cpus = hand.answer_beside(self.id, written, f"/{self.home}")
        return None if cpus is None else cpus & online

    def reaches(self, online: CPUSet) -> CPUSet:
        """The CPUs that it may run on now, or at any moment. After a start that was answered it is expected to ask
        again until a look, whatever its runtime (decision 0085).
        """
        if self.effective is not None:
            return self.effective
        if self.phase is Phase.DEAD:
            return EMPTY
        answer = self.answer(online)
        if not self.asks and self.held is None and self.verdict is None:
            return (EMPTY if self.told else self.configured(online)) if answer is None else answer
        if self.verdict is None or self.verdict.refusal:
            return EMPTY
        if answer is not None:
            return answer
        return self.verdict.update.cpus if self.verdict.update else self.configured(online)

    @property
    def is_locked(self) -> bool:
        """Whether a start, or another program, holds the engine's lock."""
        return self.held is not None or self.verdict is not None or self.is_busy

    def be_looked_at(self) -> None:
        """Begin a look at it: what happened before is no news any more."""
        self.is_unseen = self.is_unseen and self.is_locked
        self.told = self.told if self.is_locked else EMPTY
        # A glance at one that is known tells the daemon nothing.
        self.shown = self.shown if self.is_locked else self.effective
        self.be_compared_with_its_group()

    def be_shown(self) -> None:
        """Show where it runs, as the outcome of an order does that had no effect."""
        self.shown = self.effective
        self.be_compared_with_its_group()

    def be_compared_with_its_group(self) -> None:
        """Show whether it lacks CPUs of the group that it is in."""
        has = self.kernel.reached(self.home) if self.is_member else EMPTY
        lacks = (has & self.configured(self.kernel.online())) - (self.effective or EMPTY)
        self.had_all_of = None if lacks else has

    @property
    def is_led_astray(self) -> bool:
        """Whether it runs elsewhere than the last look showed, by a write that no engine knows, into its group or the
        one above: the hand gave that back as its own, or what is further above hid it till now. A member of the shared
        group that is held back shows it only once its group has more than it.
        """
        if self.effective is None:
            return False
        if self.is_member and self.above is not None and self.had_all_of not in (None, self.kernel.reached(self.home)):
            return True
        if self.effective == self.shown:
            return False
        return self.above is not None or (bool(self.meddled) and self.kernel.own(self.id) == self.meddled)

    def view(self) -> ContainerView:
        """Return what a look at it shows."""
        return msgspec.structs.replace(
            super().view(),
            runtime="cpuset" if self.asks else "runc",
            in_shared_group=self.is_member,
            cgroup_parent=self.parent,
            set_aside=self.set_aside,
        )

    def glance(self) -> ContainerView:
        """Return what is visible of it without the engine's lock, in the engine's list and in the kernel."""
        hidden = {"cpuset": "", "mems": "", "nano_cpus": 0, "cpu_quota": 0, "memory": 0, "started_at": ""}
        seen, phase = self.view(), self.called or self.phase
        listed = msgspec.structs.replace(seen, **hidden, phase=phase, cgroup_parent="", found_below="", is_glance=True)
        shown = sightings.as_the_kernel_shows(listed, self.effective)
        return msgspec.structs.replace(shown, found_below=seen.found_below if shown.phase.is_live else "")

    def load(self, *, is_throttled: bool = False) -> Load:
        """Return its load: it uses what it wants, within the CPUs that it has."""
        size = len(self.effective or ())
        use = min(self.demand, float(size))
        pressure = 60.0 if self.demand > size else 0.0
        return Load(container=self.key, cpus=size, use=use, peak=use, pressure=pressure, is_throttled=is_throttled)
