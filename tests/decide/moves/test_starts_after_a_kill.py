"""Strict starts that are held while the daemon is killed, beside a hand: the next daemon answers all of them."""

from __future__ import annotations

import pytest

from sidecar.decide.moves import newborn_answers
from sidecar.decide.moves.target import target
from state.cpuset import CPUSet
from state.topology import uniform
from tests.decide.lawbook.laws import LAWS
from tests.support.decide import strictstarts
from tests.support.decide.handreality import HandReality
from tests.support.decide.real import Real
from tests.support.decide.reality import Reality
from tests.support.decide.stories import static
from tests.support.laws import When, breaches

_STEPS = 200
"""More than anything here takes."""


class Host(HandReality):
    """A host with a hand, on which the laws hold, and two owners that have not run yet."""

    def __init__(self) -> None:
        super().__init__(uniform(cores=8), static())
        self.owners = [self.owner("one", 2), self.owner("two", 3)]

    def owner(self, name: str, count: int) -> Real:
        """Create an owner whose runtime asks; it is granted CPUs."""
        real = Reality.create(self, {"cpuset.exclusive": str(count)})
        real.name, real.asks = name, True
        self.begin_look(real.key)
        self.deliver_look(0)
        return real

    def settle(self) -> None:
        """Let everything be done."""
        for _ in range(_STEPS):
            if not strictstarts.one_goes_on(self) and not self.go_on():
                return
            assert breaches(LAWS, self, When.STEP) == []
        raise AssertionError("it never comes to rest")


def killed_while_both_are_held() -> dict[str, CPUSet | None]:
    """Kill the daemon while the starts of both are held, and let the runtimes ask the next one; return where they run
    then.
    """
    host = Host()
    for real in host.owners:
        real.held = host.ticket()
    host.crash([False, True])
    # They ask while the engine is away, so they wait, and the hand comes after the glances at them: it covers neither.
    host.disconnect()
    strictstarts.ask_again(host)
    host.begin_hand()
    while host.hear() or host.act():
        pass
    host.connect()
    host.settle()
    return {each.name: each.effective for each in host.owners}


def test_starts_behind_which_orders_may_wait_are_all_answered() -> None:
    """Nothing is known of what the killed daemon left behind either start: it waits behind both."""
    ran = killed_while_both_are_held()
    assert {name: len(cpus or ()) for name, cpus in ran.items()} == {"one": 2, "two": 3}


def test_answers_of_the_hand_that_wait_for_each_others_orders_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hand would hold the reserved CPU for both, and neither would be answered."""
    monkeypatch.setattr(newborn_answers, "birthplace", target)
    assert set(killed_while_both_are_held().values()) == {None}
