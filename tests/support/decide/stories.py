"""Stories: a Reality with named containers, where every step keeps the laws, and every order is recorded."""

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
from tests.support.decide.rights import EVERY_RIGHT
from tests.support.laws import When, breaches

GIGA = 10**9


def cpus(text: str) -> CPUSet:
    return CPUSet.parse(text)


def static(**fields: Any) -> Settings:
    """Return the policy static with one CPU reserved."""
    return Settings(**{"policy": PolicyName.STATIC, "reserved_cpus": cpus("0"), "may": EVERY_RIGHT, **fields})


def compose(number: int = 1, service: str = "web") -> dict[str, str]:
    """Return the labels of a container of compose."""
    return {
        "com.docker.compose.project": "shop",
        "com.docker.compose.service": service,
        "com.docker.compose.container-number": str(number),
        "com.docker.compose.oneoff": "False",
    }


class Story(Reality):
    """A host whose containers have names; `given` is all orders so far."""

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
        """Create a container as a Reality does, with an id whose first twelve digits are its own."""
        real = super().create(labels, **fields)
        del self.containers[real.key]
        real.key = ContainerKey(ENGINE, f"{self.created:012x}".ljust(64, "0"))
        self.containers[real.key] = real
        return real

    def hotplug(self, *cpus: int) -> None:
        """Take CPUs offline at once, or bring them back, and answer everything that follows."""
        for cpu in cpus:
            self.toggle_cpu(cpu)
        self.read_topology()
        self.settle()

    def arrive(self, name: str, exclusive: object = None, *, starts: bool = True, **fields: Any) -> Real:
        """Create and start a container, and deliver both looks."""
        real = self.unseen(name, exclusive, starts=False, **fields)
        self.look(real)
        if starts:
            self.start(real)
            self.look(real)
        return real

    def unseen(self, name: str, exclusive: object = None, *, starts: bool = True, **fields: Any) -> Real:
        """Create and start a container without a look."""
        labels = {**({"cpuset.exclusive": str(exclusive)} if exclusive else {}), **fields.pop("labels", {})}
        real = self.create(labels, **fields)
        real.name = name
        if starts:
            self.start(real)
        return real

    def look(self, *reals: Real) -> None:
        """Look at these, and deliver the looks at once."""
        for real in reals:
            self.begin_look(real.key)
        while self.looks:
            self.deliver_look(0)

    def end(self, real: Real, *, restarts: bool = False) -> None:
        """Stop it, and deliver the look."""
        self.stop(real, restarts=restarts)
        self.look(real)

    def again(self, real: Real) -> None:
        """Start it, and deliver the look."""
        self.start(real)
        self.look(real)

    def away(self, real: Real) -> None:
        """Remove it, and deliver the look."""
        self.remove(real)
        self.look(real)

    def settle(self) -> None:
        """Answer every order and deliver every look, until none is outstanding; timers do not fire."""
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
        """Change the settings by SIGHUP."""
        self.settings = static(**fields)
        self.feed(SettingsChanged(to_builtins(self.settings)))

    def release(self) -> None:
        """Request a release of everything."""
        self.feed(ReleaseRequested())

    # What is true.

    def known(self, real: Real) -> Container:
        return self.world.containers[real.key]

    def granted(self, real: Real) -> str | None:
        """Return its grant in the State."""
        assignment = self.world.state.assignments.get(real.key)
        return str(assignment.cpus) if assignment else None

    def refusal(self, real: Real) -> Refusal:
        return self.world.state.refusals[real.key].refusal

    def why_refused(self, real: Real) -> str:
        """Return the reason of its refusal, as shown to people."""
        return sentence(self.refusal(real))

    def is_settled(self, real: Real) -> bool:
        return is_settled(self.world, self.known(real))

    def pending(self, real: Real) -> str | None:
        """Return the CPUs of its outstanding order."""
        pending = self.known(real).order
        return str(pending.update.cpus) if pending else None

    def updates(self, real: Real) -> list[Update]:
        """Return all updates that were ordered for it."""
        return [order.update for order in self.applied() if order.container == real.key]

    def applied(self) -> list[ApplyCpuset]:
        return [order for order in self.given if isinstance(order, ApplyCpuset)]

    def stops(self) -> list[str]:
        """Return the names of containers that were ordered to stop, in order."""
        return [self.containers[o.container].name for o in self.given if isinstance(o, StopContainer)]

    def costs(self) -> Counter[ContainerKey]:
        """Return the number of updates of each container."""
        return Counter(order.container for order in self.applied())


def fault_of(story: Story, real: Real) -> str:
    """Return what went wrong with it last, in words; "" if nothing did."""
    fault = story.known(real).fault
    return fault.text if fault else ""


def told(found: object) -> tuple[RefusalCode, str]:
    """Return a refusal as programs and people see it."""
    assert isinstance(found, Refusal)
    return found.code, sentence(found)


def where(real: Real) -> str:
    """Return the CPUs that it runs on, or would start on: `stopped 0-3`."""
    if real.effective is not None:
        return str(real.effective)
    return f"{real.phase if real.phase is Phase.RESTARTING else 'stopped'} {real.cpuset}"
