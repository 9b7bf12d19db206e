"""Pods: which of its containers a pod's labels are for, and that the one that holds it together asks for nothing."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.decide.container.mounts import projection_name
from sidecar.decide.container.originals import originals_of
from sidecar.decide.container.wish import wish_of
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.settings import OptIn, PolicyName, Settings
from state.cpuset import CPUSet
from state.mistakes import OfPod

STATIC = Settings(policy=PolicyName.STATIC)
ASKS = {"cpuset.exclusive": "2", "cpuset.for": "voice", "cpuset.projection": "phone"}


def member(name: str, labels: dict[str, str], **fields: Any) -> ContainerView:
    return ContainerView(
        engine="podman",
        id="a" * 64,
        name=name,
        phase=Phase.RUNNING,
        labels=labels,
        effective=CPUSet(range(4)),
        **fields,
    )


def asked(view: ContainerView, settings: Settings = STATIC) -> int:
    demand = wish_of(view, settings, originals_of(view), CPUSet(range(4))).demand
    return demand.cpus if demand else 0


@pytest.mark.parametrize(("name", "cpus"), [("phone-voice", 2), ("voice", 2), ("phone-log", 0), ("invoice", 0)])
def test_a_pods_labels_are_for_the_container_that_they_name(name: str, cpus: int) -> None:
    """`kube play` gives them to each container of the pod."""
    one = member(name, ASKS)
    assert asked(one) == cpus
    assert projection_name(one, STATIC) == ("phone" if cpus else None)


def test_a_name_that_is_none_is_for_no_container() -> None:
    one = member("phone-voice", {**ASKS, "cpuset.for": ""})
    assert asked(one) == 0
    warnings = wish_of(one, STATIC, originals_of(one), CPUSet(range(4))).warnings
    assert [each.label for each in warnings] == ["cpuset.for"]


def test_what_holds_a_pod_together_asks_for_nothing() -> None:
    """Neither by a label of its pod, which says so, nor by the pod's limits."""
    labelled = member("1-infra", {"cpuset.exclusive": "1"}, is_infra=True)
    wish = wish_of(labelled, STATIC, originals_of(labelled), CPUSet(range(4)))
    assert (wish.demand, wish.refusal) == (None, None)
    assert [each.flaw for each in wish.warnings] == [OfPod()]
    limited = member("1-infra", {}, is_infra=True, nano_cpus=10**9, memory=1 << 20)
    assert asked(limited, Settings(policy=PolicyName.STATIC, opt_in=OptIn.GUARANTEED)) == 0


def test_a_pods_label_that_names_its_container_is_no_mistake_of_the_pod() -> None:
    infra = member("1-infra", {"cpuset.exclusive": "2", "cpuset.for": "voice"}, is_infra=True)
    assert wish_of(infra, STATIC, originals_of(infra), CPUSet(range(4))).warnings == ()
