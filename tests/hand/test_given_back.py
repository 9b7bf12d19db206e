"""What a hand gives back of a group that an order could not write."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.orders import Answers, Update
from sidecar.failures import CgroupClosed
from sidecar.simulation.model_hand import ModelHand
from sidecar.simulation.model_kernel import ENGINE_GROUP, ModelKernel
from state.cpuset import CPUSet
from state.topology import uniform
from tests.support.hand.stages import until, v1_stage
from tests.support.keys import docker

ONE = "a" * 64
POOL, OWN = CPUSet.of(0), CPUSet.of(1)
KNOWN = Answers(others=POOL, own={docker(ONE): POOL})
ALONE = Answers(others=POOL, own={docker(ONE): None}, left={docker(ONE): OWN})


def test_a_pin_is_given_back_though_an_order_failed_in_between(tmp_path: Path, reflex: str | None) -> None:
    """It was born with an answer, and that is still there."""
    with v1_stage(tmp_path, reflex) as stage:
        stage.make("/docker")
        stage.begin()
        stage.hand.hold(KNOWN)
        stage.make(f"/docker/{ONE}")
        until(lambda: stage.cpus(f"/docker/{ONE}") == "0")
        stage.overwrite(f"/docker/{ONE}", "1")
        until(lambda: stage.cpus(f"/docker/{ONE}") == "0")
        view = ContainerView(engine="docker", id=ONE, name="c", phase=Phase.RUNNING)
        with pytest.raises(CgroupClosed):
            stage.hand.write(view, Update(cpus=CPUSet.parse("0-7")))
        assert stage.cpus(f"/docker/{ONE}") == "0"
        stage.hand.hold(ALONE)
        until(lambda: stage.cpus(f"/docker/{ONE}") == "1")


def test_the_modelled_hand_does_the_same() -> None:
    kernel = ModelKernel(uniform(cores=2))
    hand = ModelHand(kernel, "docker")
    hand.hold(KNOWN)
    kernel.enter(ONE, OWN, ENGINE_GROUP)
    hand.closed.add(ONE)
    with pytest.raises(CgroupClosed):
        hand.write(ONE, CPUSet.parse("0-1"))
    hand.closed.clear()
    assert kernel.own(ONE) == POOL
    hand.hold(ALONE)
    assert kernel.own(ONE) == OWN


def test_the_modelled_hand_gives_a_pin_once_it_is_told() -> None:
    """It was changed while an order guarded it, after the look by which the container was let go."""
    kernel = ModelKernel(uniform(cores=2))
    hand = ModelHand(kernel, "docker")
    hand.hold(KNOWN)
    kernel.enter(ONE, POOL, ENGINE_GROUP)
    hand.write(ONE, POOL)
    kernel.write(ONE, OWN)
    assert kernel.own(ONE) == POOL
    hand.hold(msgspec.structs.replace(ALONE, left={docker(ONE): POOL}))
    assert (kernel.own(ONE), hand.given_late) == (POOL, set())
    hand.hold(ALONE)
    assert (kernel.own(ONE), hand.given_late) == (OWN, {ONE})
    kernel.write(ONE, CPUSet.parse("0-1"))
    hand.hold(msgspec.structs.replace(ALONE, left={docker(ONE): POOL}))
    assert kernel.own(ONE) == CPUSet.parse("0-1"), "another program wrote it since"
