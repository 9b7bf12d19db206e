"""Stories: a Reality told by name, where every step keeps the laws, and every order is written down."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sidecar.decide.container.container import Container
from sidecar.decide.facts import Fact, Phase, ReleaseRequested, SettingsChanged
from sidecar.decide.moves.settled import is_settled
from sidecar.decide.orders import ApplyCpuset, Order, StopContainer, Update
from sidecar.decide.settings import PolicyName, Settings
from sidecar.words.refusals import sentence
from state.codec import to_builtins
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.refusal import Refusal, RefusalCode
from state.topology import Topology, uniform
from tests.decide.lawbook.laws import LAWS
from tests.support.decide.real import ENGINE, Real
from tests.support.decide.reality import Reality
from tests.support.laws import When, breaches

GIGA = 10**9


def cpus(text: str) -> CPUSet:
    return CPUSet.parse(text)


def static(**fields: Any) -> Settings:
    """Static, one CPU reserved."""
    return Settings(**{"policy": PolicyName.STATIC, "reserved_cpus": cpus("0"), **fields})


class Story(Reality):
    """A host whose containers have names; `given` are all orders so far."""

    def __init__(self, machine: Topology | None = None, **settings: Any) -> None:
        self.given: list[Order] = []
        super().__init__(machine or uniform(cores=8), static(**settings))

    def feed(self, *facts: Fact) -> None:
        super().feed(*facts)
        assert breaches(LAWS, self, When.STEP) == []

    def _start(self, order: Order) -> None:
        self.given.append(order)
        super()._start(order)

    # What happens.

    def create(self, labels: dict[str, str], **fields: Any) -> Real:
        """As a Reality does, with an id whose first twelve digits are its own."""
        real = super().create(labels, **fields)
        del self.containers[real.key]
        real.key = ContainerKey(ENGINE, f"{self.created:012x}".ljust(64, "0"))
        self.containers[real.key] = real
        return real

    def arrive(self, name: str, exclusive: object = None, *, starts: bool = True, **fields: Any) -> Real:
        """A container is created, and started; both are looked at."""
        real = self.unseen(name, exclusive, starts=False, **fields)
        self.look(real)
        if starts:
            self.start(real)
            self.look(real)
        return real

    def unseen(self, name: str, exclusive: object = None, *, starts: bool = True, **fields: Any) -> Real:
        """The same, and nobody has looked yet."""
        labels = {**({"cpuset.exclusive": str(exclusive)} if exclusive else {}), **fields.pop("labels", {})}
        real = self.create(labels, **fields)
        real.name = name
        if starts:
            self.start(real)
        return real

    def look(self, *reals: Real) -> None:
        """Looks at these, delivered at once."""
        for real in reals:
            self.begin_look(real.key)
        while self.looks:
            self.deliver_look(0)

    def end(self, real: Real, *, restarts: bool = False) -> None:
        """It stops, and that is seen."""
        self.stop(real, restarts=restarts)
        self.look(real)

    def again(self, real: Real) -> None:
        """It starts, and that is seen."""
        self.start(real)
        self.look(real)

    def away(self, real: Real) -> None:
        """It is removed, and that is seen."""
        self.remove(real)
        self.look(real)

    def settle(self) -> None:
        """Answer every order and deliver every look, until nothing is on its way; timers do not fire."""
        for _ in range(2000):
            if self.flight:
                self.deliver(0, "ok")
            elif self.looks:
                self.deliver_look(0)
            elif self.stopping:
                self.deliver_stop(0)
            else:
                return
        raise AssertionError("it never comes to rest")

    def change_settings(self, **fields: Any) -> None:
        """SIGHUP."""
        self.settings = static(**fields)
        self.feed(SettingsChanged(to_builtins(self.settings)))

    def release(self) -> None:
        """Everything is to be given back."""
        self.feed(ReleaseRequested())

    # What is true.

    def known(self, real: Real) -> Container:
        return self.world.containers[real.key]

    def granted(self, real: Real) -> str | None:
        """Its grant in the books."""
        assignment = self.world.state.assignments.get(real.key)
        return str(assignment.cpus) if assignment else None

    def refusal(self, real: Real) -> Refusal:
        return self.world.state.refusals[real.key].refusal

    def why_refused(self, real: Real) -> str:
        """Why it was refused, as people read it."""
        return sentence(self.refusal(real))

    def is_settled(self, real: Real) -> bool:
        return is_settled(self.world, self.known(real))

    def pending(self, real: Real) -> str | None:
        """Where it is being sent just now."""
        pending = self.known(real).order
        return str(pending.update.cpus) if pending else None

    def updates(self, real: Real) -> list[Update]:
        """All updates that were ordered for it."""
        return [order.update for order in self.applied() if order.container == real.key]

    def applied(self) -> list[ApplyCpuset]:
        return [order for order in self.given if isinstance(order, ApplyCpuset)]

    def stops(self) -> list[str]:
        """Names of those that were ordered to be stopped, in order."""
        return [self.containers[o.container].name for o in self.given if isinstance(o, StopContainer)]

    def costs(self) -> Counter[ContainerKey]:
        """Updates by container."""
        return Counter(order.container for order in self.applied())


def fault_of(story: Story, real: Real) -> str:
    """What went wrong with it last, in words; "" if nothing did."""
    fault = story.known(real).fault
    return fault.text if fault else ""


def told(found: object) -> tuple[RefusalCode, str]:
    """A refusal as programs and people are told of it."""
    assert isinstance(found, Refusal)
    return found.code, sentence(found)


def where(real: Real) -> str:
    """Where it runs, or would start: `stopped 0-3`."""
    if real.effective is not None:
        return str(real.effective)
    return f"{real.phase if real.phase is Phase.RESTARTING else 'stopped'} {real.cpuset}"
