"""The modelled hand moves a group by where it runs, not by what was written into it."""

from __future__ import annotations

import pytest

from sidecar.decide.orders import Answers
from sidecar.simulation.model_hand import ModelHand
from sidecar.simulation.model_kernel import ENGINE_GROUP, ModelKernel
from state.cpuset import EMPTY, CPUSet
from state.topology import uniform
from tests.support.keys import docker

ANSWERS = Answers(others=CPUSet.of(0), owned=CPUSet.of(1))


@pytest.mark.parametrize("is_found", [True, False])
def test_a_pin_that_the_group_above_lacks_keeps_no_owners_cpus(is_found: bool) -> None:
    """The kernel of version 2 runs it on the CPUs of the group above."""
    kernel = ModelKernel(uniform(cores=4))
    kernel.confine(CPUSet.parse("0-2"), ENGINE_GROUP)
    if is_found:
        kernel.enter("c", CPUSet.of(3))
    hand = ModelHand(kernel, "docker")
    stuck = hand.hold(ANSWERS)
    if not is_found:
        kernel.enter("c", CPUSet.of(3))
    assert (stuck, hand.missed) == (EMPTY, set())
    assert kernel.effective("c") == CPUSet.of(0)
    kernel.confine(CPUSet.parse("0-3"), ENGINE_GROUP)
    hand.hold(ANSWERS)
    assert kernel.effective("c") == CPUSet.of(3), "it has what its runtime wrote once that is possible"


def test_a_group_that_is_gone_is_left_to_no_first_write() -> None:
    """The hand forgets it with the next answers."""
    kernel = ModelKernel(uniform(cores=2))
    kernel.enter("c", CPUSet.of(1))
    hand = ModelHand(kernel, "docker")
    hand.hold(Answers(others=CPUSet.of(0), own={docker("c"): CPUSet.of(1)}, owned=CPUSet.of(1)))
    assert hand.is_owner_found("c")
    kernel.leave("c")
    assert not hand.is_owner_found("c")
