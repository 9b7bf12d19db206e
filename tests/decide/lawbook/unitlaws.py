"""The law of units that ask (decision 0081): they are answered as containers are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sidecar.decide.facts import ViewKind
from sidecar.decide.settings import PolicyName
from tests.support.decide.reality import Reality
from tests.support.laws import Law, When


def asked_in_vain(reality: Reality) -> Iterator[str]:
    """Yield units that run, and ask by a number of CPUs, and have neither these nor a refusal."""
    world = reality.world
    if world.is_releasing or world.settings.policy is PolicyName.NONE:
        return
    answered = {*world.state.assignments, *world.state.refusals}
    for key, real in reality.containers.items():
        asked = real.labels.get("cpuset.exclusive", "")
        is_asking = asked.isdecimal() and int(asked) > 0 and real.labels.get("cpuset.manage", "on") != "off"
        if real.kind is ViewKind.UNIT and real.phase.is_live and is_asking and key not in answered:
            yield f"{real.name} asks for {asked}, and was never answered"


ANSWERED: Final = Law("a unit that asks is answered", asked_in_vain, When.REST)

LAWS: Final = (ANSWERED,)
