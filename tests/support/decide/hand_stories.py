"""Short stories on a host with a hand."""

from __future__ import annotations

from sidecar.decide.world import replace
from state.cpuset import CPUSet
from state.topology import uniform
from tests.support.decide.handreality import HandReality
from tests.support.decide.histories import STATIC
from tests.support.decide.real import Real


def owner_alone() -> tuple[HandReality, Real]:
    """Return a host of eight cores at rest, and an owner of three CPUs there."""
    reality = HandReality(uniform(cores=8), STATIC[0])
    while reality.go_on():
        pass
    owner = reality.create({"cpuset.exclusive": "3"})
    reality.start(owner)
    reality.begin_look(owner.key)
    reality.deliver_look(0)
    while reality.go_on():
        pass
    return reality, owner


def lose_its_grant_while_the_engine_is_away(reality: HandReality) -> None:
    """Give the owner's CPUs to the pool by other settings, and have a newcomer born there."""
    reality.disconnect()
    reality.read_settings(replace(reality.settings, reserved_cpus=reality.online - CPUSet.of(7)))
    while reality.hear() or reality.act():
        pass
    newcomer = reality.create({})
    reality.start(newcomer)
    while reality.hear() or reality.act():
        pass
    assert newcomer.effective == reality.online
